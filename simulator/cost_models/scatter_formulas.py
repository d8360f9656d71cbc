"""Formulas of scatter, of gather, and of barriers along the same binomial tree."""

from __future__ import annotations

from dataclasses import replace

from simulator.cost_models.cost_model import ASSUMES, THAKUR, CostModel, log2_ceil, log2_floor
from simulator.cost_models.fabric import Fabric
from simulator.cost_models.servers import pairwise


def binomial_scatter(fabric: Fabric, p: int, chunk: float) -> float:
    """Seconds to send a chunk to every rank: a rank sends the largest part first."""
    arrival = {0: 0.0}
    port = {0: 0.0}
    for level in reversed(range(log2_ceil(p))):
        for child in range(1 << level, p, 2 << level):
            parent = child - (1 << level)
            send = fabric.send(min(1 << level, p - child) * chunk)
            start = arrival[parent] if fabric.ports == "peer" else port[parent]
            port[parent] = start + send
            arrival[child] = port[child] = start + send + fabric.latency
    return max(arrival.values())


def binomial_gather(fabric: Fabric, p: int, chunk: float) -> float:
    """Seconds to bring a chunk from every rank: who is ready first is served first."""
    ready = dict.fromkeys(range(p), 0.0)
    for parent in reversed(range(p)):
        levels = range((parent & -parent or p).bit_length() - (parent > 0))
        port = 0.0
        for begin, child in sorted(
            (ready[parent + (1 << level)], parent + (1 << level))
            for level in levels
            if parent + (1 << level) < p
        ):
            start = begin if fabric.ports == "peer" else max(begin, port)
            port = start + fabric.send(min(child & -child, p - child) * chunk)
            ready[parent] = max(ready[parent], port + fabric.latency)
    return ready[0]


def _forwarded(p: int, nbytes: float) -> float:
    """Every chunk crosses one link for each 1 among the binary digits of its rank."""
    return sum(rank.bit_count() for rank in range(p)) / p * nbytes


LINEAR_SCATTER = CostModel(
    latex=r"\alpha + (p-1)\left(g + \frac{V}{p\beta}\right)",
    assumes=f"{ASSUMES}; with a port for each peer one message",
    source="MPI_Scatter and MPI_Gather, linear",
    time=pairwise,
    volume=lambda p, nbytes: (p - 1) / p * nbytes,
    steps=lambda p: 1,
    redundant=lambda p, nbytes: (p - 1) / p * nbytes,
)
LINEAR_GATHER = LINEAR_SCATTER

BINOMIAL_SCATTER = CostModel(
    latex=r"\log_2 p\,(\alpha + g) + \frac{p-1}{p}\frac{V}{\beta}",
    assumes=f"{ASSUMES}; the formula shown is for p = 2^k",
    source=THAKUR,
    time=lambda fabric, p, nbytes: binomial_scatter(fabric, p, nbytes / p),
    volume=_forwarded,
    steps=log2_floor,
    redundant=_forwarded,
)
BINOMIAL_GATHER = replace(
    BINOMIAL_SCATTER, time=lambda fabric, p, nbytes: binomial_gather(fabric, p, nbytes / p)
)
