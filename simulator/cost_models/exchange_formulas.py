"""Formulas of exchanges and of gossip: every rank posts a few messages at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isqrt

from simulator.cost_models.cost_model import CostModel, log2_ceil
from simulator.cost_models.fabric import Fabric

Number = Callable[[int], float]


def exchange(
    messages: Number, volume: Number, peak: Number, assumes: str, source: str, share: Number
) -> CostModel:
    """`messages` of `share` · V leave the busiest rank, or enter it."""

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        count = min(1.0, messages(p)) if fabric.ports == "peer" else messages(p)
        return (fabric.latency if count else 0.0) + count * fabric.send(share(p) * nbytes)

    return CostModel(
        latex=r"\alpha + m\left(g + \frac{sV}{\beta}\right)",
        assumes=f"one port a rank; {assumes}; with a port for each peer m = 1",
        source=source,
        time=time,
        volume=volume,
        peak=peak,
        redundant=volume,
    )


def _one(p: int) -> float:
    return 1.0


def _sides(p: int) -> tuple[int, int]:
    short = max(side for side in range(1, isqrt(p) + 1) if p % side == 0)
    return short, p // short


def _neighbors(p: int) -> float:
    """Neighbours of a rank inside a grid, or in a torus."""
    return float(sum(min(side - 1, 2) for side in _sides(p)))


def _edges(p: int) -> float:
    """Messages between neighbours in a grid, both ways."""
    rows, columns = _sides(p)
    return 2.0 * (2 * rows * columns - rows - columns)


PUSH = exchange(_one, _one, _one, "m = s = 1", "by definition; MPI_Put", _one)

PULL = replace(
    PUSH,
    latex=r"2\alpha + 2g + \frac{V}{\beta}",
    assumes="a request of no bytes goes ahead",
    source="by definition; MPI_Get",
    time=lambda fabric, p, nbytes: 2 * fabric.latency + fabric.gap + fabric.send(nbytes),
    steps=lambda p: 2,
)

PERMUTATION = exchange(
    _one, float, lambda p: 2.0, "m = s = 1", "the permutation pattern of Dally, Towles, 2004", _one
)

INCAST = exchange(
    lambda p: p - 1.0,
    lambda p: p - 1.0,
    lambda p: p - 1.0,
    "m = p-1, s = 1",
    "Phanishayee et al., FAST 2008",
    _one,
)

BISECTION = exchange(
    _one, lambda p: 2.0 * (p // 2), lambda p: 2.0, "m = s = 1", "b_eff, effective bandwidth", _one
)

PING_PONG = exchange(
    _one,
    lambda p: float(p // 2),
    _one,
    "m = s = 1; half a round trip",
    "osu_multi_lat.c of the OSU micro-benchmarks",
    _one,
)

HALO = exchange(
    _neighbors,
    lambda p: _edges(p) / 4,
    lambda p: _neighbors(p) / 2,
    "m = 4 neighbours, fewer in a thin grid; s = 1/4",
    "MPI_Neighbor_alltoall on MPI_Cart_create without periods, MPI 3.0",
    lambda p: 0.25,
)

NEIGHBORS = exchange(
    _neighbors,
    lambda p: p * _neighbors(p) / 4,
    lambda p: _neighbors(p) / 2,
    "m = 4 neighbours, fewer in a thin torus; s = 1/4",
    "MPI_Neighbor_alltoall on MPI_Cart_create with periods, MPI 3.0",
    lambda p: 0.25,
)

STAGES = exchange(
    lambda p: min(2.0, p - 1.0),
    lambda p: p - 1.0,
    lambda p: min(2.0, p - 1.0),
    "m = 2, but 1 of 2 ranks; s = 1/2",
    "Narayanan et al., PipeDream-Flush (1F1B), ICML 2021; grouped ncclSend and ncclRecv",
    lambda p: 0.5,
)


def _gossip(neighbors: Callable[[int], int], words: str, source: str) -> CostModel:
    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        messages = 1 if fabric.ports == "peer" else neighbors(p)
        merges = neighbors(p) * nbytes * fabric.reduction
        return fabric.latency + messages * fabric.send(nbytes) + merges

    return CostModel(
        latex=r"\alpha + k\left(g + \frac{V}{\beta}\right) + kV\gamma",
        assumes=f"one port a rank; {words}; with a port for each peer: 1 message instead of k",
        source=source,
        time=time,
        volume=lambda p: p * neighbors(p),
        peak=lambda p: neighbors(p) + 1,
        redundant=lambda p: p * neighbors(p),
    )


GOSSIP_RING = _gossip(
    lambda p: min(2, p - 1),
    "k = 2 neighbours, 1 of 2 ranks",
    "Lian et al., Decentralized parallel SGD, NeurIPS 2017",
)
GOSSIP_EXPONENTIAL = _gossip(
    log2_ceil,
    "k = ⌈log2 p⌉",
    "Ying et al., Exponential graph is provably efficient for decentralized training, NeurIPS 2021",
)
