"""Which tokens reach which experts under a plan: what a skewed router does to ranks and links, what
the kernels take that send them, and what is proven of the layers that a plan cuts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from math import ceil
from typing import Any

import numpy as np

from experiments.models.kernel_times.exchange import Exchange, distinct, exchange_seconds
from experiments.models.mixer_shapes import Experts
from experiments.models.model_shapes import TransformerShape
from experiments.parallel.plan_text import Plan
from simulator.collectives import find
from simulator.collectives.collective import Algorithm
from simulator.collectives.forwarded import forwarded_all_to_allv
from simulator.collectives.routers import TOKENS, Returned, Router, Tokens
from simulator.collectives.uneven import all_to_allv
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.layer_proofs import prove_attention, prove_experts, prove_sums
from simulator.parallel.step_work import Work
from simulator.schedules import semantics
from topologies.errors import InputError
from topologies.topology import Floats, Longs, Topology

EXCHANGES = "dispatch", "combine"
PROVEN = 16
"""Tokens of each rank in a proof of experts."""
LARGE = 64
"""Ranks of a group that are proven, at most."""


@dataclass(frozen=True)
class Routing:
    """What the router of a plan does. Every group of ranks with all experts, and every layer, has
    the same popularity of experts and the same tokens."""

    plan: Plan
    router: Tokens
    tokens: float
    forwards: bool
    """Whether a token crosses the network once for each node, as in DeepEP."""
    even: str
    """Why dispatch and combine are even all-to-alls. Empty: they are not."""

    @cached_property
    def counts(self) -> Longs:
        """Tokens of each rank for each expert, of those that the router draws."""
        return self.router.expert_counts(self.plan.ep)

    @cached_property
    def imbalance(self) -> float:
        """Tokens of the busiest rank over the mean."""
        arriving = self.counts.sum(axis=0).reshape(self.plan.ep, -1).sum(axis=1)
        return float(arriving.max() / arriving.mean())

    @cached_property
    def dropped(self) -> float:
        """The share of what the router sends that exceeds the capacity of experts."""
        if not self.plan.capacity:
            return 0.0
        even = self.tokens * self.router.top / self.counts.shape[1]
        slots = np.ceil(even * self.plan.capacity) * self.router.tokens / self.tokens
        return float(np.maximum(self.counts - slots, 0.0).sum() / self.counts.sum())

    @property
    def algorithms(self) -> Mapping[str, tuple[Algorithm, ...]]:
        """The algorithms of dispatch and combine; none if they are even."""
        return {} if self.even else _algorithms(self.router, forwards=self.forwards)

    def figures(self, work: Work, exposed: float) -> dict[str, Any]:
        """What the router does, for JSON: of a forward, how long a dispatch and a combine take, and
        their shares of the seconds that a device waits for them in a step, `exposed`."""
        record = {"busiest": self.imbalance, "dropped": self.dropped, "even": self.even}
        blocks = (block for stage in work.stages for block in stage)
        block = next((each for each in blocks if "ep" in {p.group for p in each.forward}), None)
        if block is None:
            return record
        passes = [
            [
                work.times.seconds("ep", part.collective, part.nbytes)
                for part in parts
                if part.group == "ep"
            ]
            for parts in (block.forward, block.again, block.backward)
        ]
        # Gradients of what is dispatched, and of what returns, travel in this order too.
        both = np.sum([seconds for seconds in passes if seconds], axis=0)
        shares = both / (both.sum() or 1.0) * exposed
        for name, seconds, share in zip(EXCHANGES, passes[0], shares.tolist(), strict=True):
            record |= {f"{name}_s": seconds, f"exposed_{name}_s": share}
        return record


def routing_of(shape: TransformerShape, plan: Plan, seq: int, topology: Topology) -> Routing | None:
    """What the router of a plan does; None for a plan without one. Raises InputError for a router
    that has nothing to choose from."""
    if not plan.router:
        return None
    experts = shape.experts
    if experts is None:
        raise InputError(f"router={plan.router}: the model has no experts: leave router out")
    if experts.number % plan.ep:
        plan.check(shape, seq, "the model")
    tokens = plan.micro * seq / plan.cp * (plan.expert_ranks / plan.tp)
    # A router draws so many scores of tokens for experts; more where a rank has fewer than 512
    # tokens.
    drawn = max(min(TOKENS, tokens), min(tokens, 2**22 // (plan.ep * experts.number)))
    size, regular = ranks_of_node(plan, topology)
    local = experts.number // plan.ep
    if plan.nodes and min(plan.nodes * size, plan.ep) * local < experts.top:
        raise InputError(
            f"nodes={plan.nodes} of {size * local} experts have fewer than the {experts.top} that "
            f"a token passes: take nodes={-(-experts.top // (size * local))}"
        )
    forwards = plan.nodes > 0 and size < plan.ep
    reasons = {
        "one rank has all experts": plan.ep == 1,
        "each expert has as many slots": plan.capacity > 0,
        # Their messages are simulated one by one.
        "too many pairs of ranks": plan.ep * plan.ep > 2**16,
        "the ranks of a node do not follow one another": forwards and not regular,
    }
    exponent = float(plan.router.partition(":")[2])
    limits = plan.nodes, size, local, max(1, int(drawn))
    router = Tokens(exponent, plan.seed, experts.top, *limits)
    even = next((reason for reason, holds in reasons.items() if holds), "")
    return Routing(plan, router, tokens, forwards, even)


def ranks_of_node(plan: Plan, topology: Topology) -> tuple[int, bool]:
    """The ranks of a node that share experts, and whether all nodes have as many, in a row."""
    group = plan.degrees.groups("ep")[0]
    node = topology.node[topology.placement[group]]
    if (node < 0).any():
        if plan.nodes:
            raise InputError(f"nodes={plan.nodes}: the machine has no nodes: leave nodes out")
        return plan.ep, True
    first = np.flatnonzero(np.diff(node, prepend=-1))
    sizes = np.diff(first, append=plan.ep)
    regular = len(np.unique(node)) == len(first) and np.ptp(sizes) == 0
    return int(sizes.max()), bool(regular)


@lru_cache(maxsize=16)
def _algorithms(router: Tokens, *, forwards: bool) -> Mapping[str, tuple[Algorithm, ...]]:
    """A combine sends back what a dispatch sends. Across nodes it takes as long as the dispatch."""
    if forwards:
        return dict.fromkeys(EXCHANGES, (forwarded_all_to_allv(router),))
    return {"dispatch": (all_to_allv(router),), "combine": (all_to_allv(Returned(router)),)}


def prove(plan: Plan, routing: Routing | None, experts: Experts | None) -> Mapping[str, str]:
    """What is proven on integers, by the kind of group. Raises WrongResult if it is wrong."""
    proven = {}
    if 1 < plan.tp <= LARGE:
        prove_sums(plan.tp, sequence=plan.sp)
        proven["tp"] = "the partial sums of all ranks add up"
    if 1 < plan.cp <= LARGE:
        prove_attention(plan.context, plan.cp)
        proven["cp"] = "every query meets every key that it may see once"
    if 1 < plan.ep <= LARGE and experts is not None:
        rest = "; what is dropped counts as 0" if _dropped(plan, routing, experts) else ""
        returned = "every token reaches its experts, and their results return to its owner"
        proven["ep"] = returned + rest
    return proven


def _dropped(plan: Plan, routing: Routing | None, experts: Experts) -> int:
    """Prove the exchanges of experts; returns how many copies of tokens are dropped."""
    local, top, slots = experts.number // plan.ep, experts.top, 0
    # These carry a message for each pair of ranks.
    dispatch = combine = find("pairwise")
    if routing is None:
        chosen = np.arange(plan.ep * PROVEN * top).reshape(plan.ep, PROVEN, top) % experts.number
        return prove_experts(dispatch, combine, chosen, local)
    few = replace(routing, router=replace(routing.router, tokens=PROVEN))
    if few.forwards and few.algorithms:
        # What goes on inside nodes is proven by its promise.
        forwarded = few.algorithms["dispatch"][0]
        semantics.check(forwarded.build(plan.ep, 1.0), forwarded.collective)
    elif few.algorithms:
        dispatch, combine = (few.algorithms[name][0] for name in ("dispatch", "combine"))
    # A token has no expert twice.
    numbers = np.arange(experts.number)
    chosen = np.array([np.repeat(numbers, row).reshape(top, -1).T for row in few.counts])
    slots = int(np.ceil(PROVEN * top / experts.number * plan.capacity))
    return prove_experts(dispatch, combine, chosen, local, slots)


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
