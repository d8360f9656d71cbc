"""Collectives as NCCL runs them over links: what starts them, their messages, and what comes beside
the time on the links.

A kernel copies messages through buffers, in pieces, and a rank's own part, too. Small sizes take
what software takes. In between, the two are far from a sum: their norm has a power below 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from experiments.models.accelerators import accelerator
from experiments.models.kernel_times.kernel_model import Chip, Sizes, kind_of, norm
from experiments.models.kernel_times.lookup import model_of
from simulator.parallel.group_times import Law
from simulator.steps.step_graph import MESSAGE
from topologies.topology import Floats

PRECISION = "bf16"
"""That of the lines of the table: bytes are bytes."""
ENGINES = {"all_gather", "reduce_scatter", "all_reduce", "all_to_all"}
SIMILAR = dict.fromkeys(("dispatch", "combine", "shift", MESSAGE), "all_to_all")
"""The measured collective whose law others take."""


def sizes_of(collective: str, ranks: Any, nbytes: Any, links: Any) -> dict[str, Any]:
    """The sizes of collectives that take `links` seconds on the links: numbers, or arrays of shape
    (collectives,)."""
    ways = 2.0 if collective == "all_reduce" else 1.0
    messages = ways * (ranks - 1)
    return {"ranks": ranks, "nbytes": nbytes, "links": links, "messages": messages}


def seconds(sizes: Sizes, values: Mapping[str, float], chip: Chip) -> Floats:
    """Seconds of collectives of `nbytes` bytes, by the sizes of :func:`sizes_of`, shape
    (collectives,)."""
    software = values["launch"] + values["message"] * sizes["messages"]
    copying = values["copies"] * sizes["nbytes"] / sizes["ranks"] / chip.bandwidth
    links = sizes["links"] / values["share"] + copying
    return norm(values["power"], software, links)


def axes(sizes: Sizes) -> Sequence[Floats]:
    """Bytes and ranks."""
    return sizes["nbytes"], sizes["ranks"]


COLLECTIVES = kind_of("nccl_calls", seconds, axes)
ENGINE_CALLS = replace(COLLECTIVES, name="engine_calls")
"""All-reduces of serving engines, which have kernels of their own for small sizes."""
ENGINE_ALGORITHMS = {"all_reduce": ("rings", "naive")}
"""Those whose time on the links counts: in one step, each GPU reads what all have."""


@lru_cache(maxsize=4096)
def collective_seconds(
    device: str, collective: str, ranks: int, nbytes: float, links: float
) -> float:
    """Seconds of a collective of V = `nbytes` bytes of so many ranks, whose messages take `links`
    seconds on the links: no less than these.

    >>> round(collective_seconds("h100", "all_gather", 2, 2.0**26, 90.5e-6) * 1e6)
    160
    """
    precision = PRECISION if PRECISION in accelerator(device).peak else "fp32"
    model = model_of(COLLECTIVES, device, precision, SIMILAR.get(collective, collective))
    return max(links, model.of(**sizes_of(collective, max(ranks, 2), nbytes, links)).expected)


@lru_cache(maxsize=4096)
def engine_seconds(device: str, engine: str, ranks: int, nbytes: float, links: float) -> float:
    """Seconds of an all-reduce of a serving engine, as :func:`collective_seconds`."""
    model = model_of(ENGINE_CALLS, device, PRECISION, engine)
    return max(links, model.of(**sizes_of("all_reduce", ranks, nbytes, links)).expected)


def laws(device: str) -> dict[str, Law]:
    """What NCCL takes for collectives of ranks on `device`, if that is a GPU."""
    if not accelerator(device).multiprocessors:
        return {}
    return {name: partial(collective_seconds, device, name) for name in (*ENGINES, *SIMILAR)}
