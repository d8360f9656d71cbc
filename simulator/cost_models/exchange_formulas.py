"""Formulas of scatter and gather, of barriers and broadcasts on the same binomial tree, and of
exchanges and gossip, in which every rank posts a few messages at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isqrt
from typing import Any

from simulator.cost_models.cost_model import (
    ASSUMES,
    THAKUR,
    CostModel,
    is_power_of_two,
    linear,
    log2_ceil,
    log2_floor,
)
from simulator.cost_models.fabric import Fabric
from simulator.cost_models.servers import outcast, pairwise


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


def _forwarded(p: int) -> float:
    """Every chunk crosses one link for each 1 among the binary digits of its rank."""
    return sum(rank.bit_count() for rank in range(p)) / p


LINEAR_SCATTER = CostModel(
    latex=r"\alpha + (p-1)\left(g + \frac{V}{p\beta}\right)",
    assumes=f"{ASSUMES}; with a port for each peer one message",
    source="MPI_Scatter and MPI_Gather, linear",
    time=pairwise,
    volume=lambda p: (p - 1) / p,
    redundant=lambda p: (p - 1) / p,
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


_NO_DATA: dict[str, Any] = dict.fromkeys(("volume", "peak", "redundant"), lambda p: 0.0)
_MELLOR = "Mellor-Crummey, Scott, ACM Transactions on Computer Systems 9(1), 1991"


CENTRAL_BARRIER = CostModel(
    latex=r"2\alpha + 2(p-1)g",
    assumes="one port a rank; with a port for each peer: 2α + 2g",
    source=_MELLOR,
    time=lambda fabric, p, nbytes: 2 * outcast(fabric, p - 1, 0.0),
    steps=lambda p: 2,
    **_NO_DATA,
)

TREE_BARRIER = CostModel(
    latex=r"2\lceil\log_2 p\rceil(\alpha + g)",
    assumes=f"{ASSUMES}; the formula shown is for p = 2^k",
    source=_MELLOR,
    time=lambda fabric, p, nbytes: (
        binomial_gather(fabric, p, 0.0) + binomial_scatter(fabric, p, 0.0)
    ),
    steps=lambda p: 2 * log2_floor(p),
    **_NO_DATA,
)

DISSEMINATION_BARRIER = linear(
    latex=r"\lceil\log_2 p\rceil(\alpha + g)",
    assumes=ASSUMES,
    source="Hensgen, Finkel, Manber, International Journal of Parallel Programming 17(1), 1988",
    steps=log2_ceil,
    moved=lambda p: 0.0,
    **_NO_DATA,
)


def _with_ring(fabric: Fabric, p: int, nbytes: float) -> float:
    chunk = nbytes / p
    return binomial_scatter(fabric, p, chunk) + (p - 1) * (fabric.latency + fabric.send(chunk))


def _with_doubling(fabric: Fabric, p: int, nbytes: float) -> float:
    rounds, members = log2_floor(p), 1 << log2_floor(p)
    gather = rounds * (fabric.latency + fabric.gap)
    gather += (members - 1) / members * nbytes / fabric.bandwidth
    unfold = 0.0 if is_power_of_two(p) else fabric.latency + fabric.send(nbytes)
    return binomial_scatter(fabric, members, nbytes / members) + gather + unfold


SCATTER_RING_BROADCAST = CostModel(
    latex=r"S + (p-1)\left(\alpha + g + \frac{V}{p\beta}\right),\ S = \log_2 p\,(\alpha + g)"
    r" + \frac{p-1}{p}\frac{V}{\beta}",
    assumes=f"{ASSUMES}; S: the scatter, here for p = 2^k",
    source=f"Barnett et al., Interprocessor collective communication library, 1994; {THAKUR}",
    time=_with_ring,
    steps=lambda p: log2_floor(p) + p - 1,
)

SCATTER_DOUBLING_BROADCAST = replace(
    SCATTER_RING_BROADCAST,
    latex=r"2\log_2 q\,(\alpha + g) + 2\frac{q-1}{q}\frac{V}{\beta} + f\left(\alpha + g + "
    r"\frac{V}{\beta}\right)",
    assumes=f"{ASSUMES}; q = 2^⌊log2 p⌋; f = 0 if p = q, else 1",
    time=_with_doubling,
    steps=lambda p: 2 * log2_floor(p) + (not is_power_of_two(p)),
)


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
    return float(sum(min(side - 1, 2) for side in _sides(p)))


def _edges(p: int) -> float:
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
        merges = neighbors(p) * nbytes * fabric.reduction
        return outcast(fabric, neighbors(p), nbytes) + merges

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
