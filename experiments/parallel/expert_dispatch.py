"""The kernels that send tokens to experts in place of an all-to-all: what they put on links, and
what they take at least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import ceil

import numpy as np

from experiments.models.kernel_times.exchange import Exchange, distinct, exchange_seconds
from experiments.models.model_shapes import TransformerShape
from experiments.parallel.expert_routing import EXCHANGES, Routing, ranks_of_node
from experiments.parallel.plan_text import Plan
from simulator.collectives.collective import Algorithm
from simulator.collectives.routers import Router
from simulator.collectives.uneven import all_to_allv
from simulator.parallel.group_times import GroupTimes
from topologies.topology import Floats

PAIRS = 2**14
"""Messages of an exchange in which a token travels once, at most."""
LIBRARIES = {"deepep": "deepep_normal", "nvlink": "nvlink_two_sided"}
"""The measured library of each dispatcher: DeepEP on nodes with NVLink, and TensorRT-LLM's kernels
in a rack with NVLink."""


def with_kernels(
    times: GroupTimes,
    shape: TransformerShape,
    seq: int,
    plan: Plan,
    routing: Routing | None,
    device: str,
) -> GroupTimes:
    """The times of collectives where the plan's dispatcher sends tokens of sequences of `seq`.

    A token is on a link once for each rank that needs it, or, across nodes, once for each such
    node. Dispatch and combine take what kernels of the library were measured to take on the device,
    or one like it, and no less than the simulated links.
    """
    experts = shape.experts
    if plan.dispatcher == "all_to_all" or not experts or plan.ep == 1:
        return times
    nodes = ceil(plan.ep / ranks_of_node(plan, times.topology)[0])
    uneven = routing is not None and not routing.even
    busiest = routing.imbalance if routing else plan.capacity or plan.imbalance
    exchange = Exchange(
        plan.ep,
        nodes,
        experts.number,
        experts.top,
        plan.micro * seq / plan.cp / plan.tp * busiest,
        0.0,
    )
    # V are the bytes of all copies, one for each expert: with uneven sizes those of a mean rank.
    copies = exchange.tokens * experts.top / (busiest if uneven else 1.0)
    library, phases = LIBRARIES[plan.dispatcher], {name: [name] for name in EXCHANGES}
    if plan.dispatcher == "nvlink":
        phases["dispatch"] = ["prepare", f"dispatch {plan.dispatch}"]
    laws = {
        name: partial(_seconds, device, library, each, exchange, copies)
        for name, each in phases.items()
    }
    places = nodes if nodes > 1 and plan.dispatcher == "deepep" else plan.ep
    share = distinct(places, experts.number, experts.top) / experts.top
    # Uneven messages are simulated one by one, and large groups keep the copies.
    thinned = not uneven and share < 1 and plan.ep**2 <= PAIRS
    algorithms = dict.fromkeys(EXCHANGES, (_once(share),)) if thinned else {}
    return times.with_algorithms(algorithms, laws)


def _seconds(
    device: str,
    library: str,
    phases: Sequence[str],
    exchange: Exchange,
    copies: float,
    ranks: int,
    nbytes: float,
    links: float,
) -> float:
    """Seconds of an exchange of `nbytes` bytes in so many copies, no less than on the links."""
    each = exchange._replace(nbytes=nbytes / copies)
    return max(links, sum(exchange_seconds(device, library, phase, each) for phase in phases))


@dataclass(frozen=True)
class Copies(Router):
    """As much for each rank: together a share of V."""

    share: float

    def matrix(self, ranks: int) -> Floats:
        return np.full((ranks, ranks), self.share / ranks)


@lru_cache(maxsize=64)
def _once(share: float) -> Algorithm:
    """An even all-to-all of a share of V."""
    return all_to_allv(Copies(share))
