"""Formulas of rings, chains and scans: every rank sends to a neighbour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from simulator.cost_models.cost_model import (
    ASSUMES,
    PATARASUK,
    RING_ASSUMES,
    THAKUR,
    CostModel,
    linear,
    log2_ceil,
)
from simulator.cost_models.fabric import Fabric

RING_REDUCE_SCATTER = linear(
    latex=r"(p-1)\left(\alpha + g + \frac{V}{p\beta} + \frac{V}{p}\gamma\right)",
    assumes=RING_ASSUMES,
    source=PATARASUK,
    steps=lambda p: p - 1,
    moved=lambda p: (p - 1) / p,
    merged=lambda p: (p - 1) / p,
    peak=lambda p: 1 + 1 / p,
)

RING_ALL_GATHER = linear(
    latex=r"(p-1)\left(\alpha + g + \frac{V}{p\beta}\right)",
    assumes=RING_ASSUMES,
    source=THAKUR,
    steps=lambda p: p - 1,
    moved=lambda p: (p - 1) / p,
)

RING_ALL_REDUCE = linear(
    latex=r"2(p-1)\left(\alpha + g + \frac{V}{p\beta}\right) + (p-1)\frac{V}{p}\gamma",
    assumes=RING_ASSUMES,
    source=PATARASUK,
    steps=lambda p: 2 * (p - 1),
    moved=lambda p: 2 * (p - 1) / p,
    merged=lambda p: (p - 1) / p,
    volume=lambda p: 2 * (p - 1),
    peak=lambda p: 1 + 1 / p,
)

NEIGHBOR_EXCHANGE = linear(
    latex=r"\frac{p}{2}(\alpha + g) + \frac{p-1}{p}\frac{V}{\beta}",
    assumes=f"{RING_ASSUMES}; even p, else a ring",
    source="Chen et al., Performance Evaluation of Allgather Algorithms on Terascale Linux "
    "Cluster, HPC Asia 2005",
    steps=lambda p: p - 1 if p % 2 else p // 2,
    moved=lambda p: (p - 1) / p,
)

SHIFT = linear(
    latex=r"\alpha + g + \frac{V}{\beta}",
    assumes="full duplex; all ranks send at the same time",
    source="nccl-tests sendrecv_perf",
    steps=lambda p: 1,
    moved=lambda p: 1.0,
    volume=lambda p: p,
    peak=lambda p: 2,
    redundant=lambda p: p,
)

RING_EXCHANGE = linear(
    latex=r"(p-1)\left(\alpha + g + \frac{V}{\beta}\right)",
    assumes=RING_ASSUMES,
    source="Liu, Zaharia, Abbeel, Ring attention with blockwise transformers, ICLR 2024",
    steps=lambda p: p - 1,
    moved=lambda p: p - 1.0,
    volume=lambda p: p * (p - 1),
    peak=lambda p: 2,
    redundant=lambda p: p,
)


def rings(base: CostModel, bandwidth: float, channels: int) -> CostModel:
    """The formula of several rings that together pass on `bandwidth` bytes/s. For a single ring it
    is `base`."""
    if channels == 1:
        return base
    return replace(
        base,
        latex=base.latex.replace(r"\beta", "B"),
        assumes=f"{channels} rings share V equally, B = {bandwidth:.6g} bytes/s together; "
        "α of the shortest route",
        time=lambda fabric, p, nbytes: base.time(replace(fabric, bandwidth=bandwidth), p, nbytes),
        unclaimed=f"{channels} rings",
    )


def chain_broadcast(segments: int) -> CostModel:
    """The data pass from rank to rank, in `segments`."""
    return CostModel(
        latex=r"(p-1)\alpha + (p+m-2)\left(g + \frac{V}{m\beta}\right)",
        assumes=f"{RING_ASSUMES}; V in m = {segments} pieces",
        source="van de Geijn, Watts, SUMMA, Concurrency 9(4), 1997: the pipelined ring broadcast",
        time=lambda fabric, p, nbytes: (
            (p - 1) * fabric.latency + (p + segments - 2) * fabric.send(nbytes / segments)
        ),
        steps=lambda p: p - 1,
    )


def chain_reduce(segments: int) -> CostModel:
    """The reverse of :func:`chain_broadcast`, with a merge at every rank."""

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        send, merge = fabric.send(nbytes / segments), nbytes / segments * fabric.reduction
        return (p - 1) * (fabric.latency + send + merge) + (segments - 1) * max(send, merge)

    return replace(
        chain_broadcast(segments),
        latex=r"(p-1)(\alpha + x + y) + (m-1)\max(x, y),\ x = g + \frac{V}{m\beta},\ y = "
        r"\frac{V}{m}\gamma",
        time=time,
        peak=lambda p: 1 + 1 / segments,
        memory_ports=(),
    )


Time = Callable[[Fabric, int, float, int], float]
"""Seconds, from the fabric, p, V and the parts of a chunk."""
_GATHER = r"(p-2)\max(mx, \alpha+x) + \alpha + x"
_SCATTER = r"(p-2)\max(mx, \alpha+x+y) + \alpha + x + y"
_ALL_REDUCE = r"(p-1)\max(mx, \alpha+x+y) + (p-2)\max(mx, \alpha+x) + \alpha + x"


def _once_round(fabric: Fabric, p: int, nbytes: float, parts: int, reduction: float = 0.0) -> float:
    """Once round the ring, where a rank takes `reduction` seconds to add a byte. From the start of
    a step to that of the next it takes the port or the way of a part."""
    send = fabric.send(nbytes / p / parts)
    way = fabric.latency + send + nbytes / p / parts * reduction
    return (p - 2) * max(parts * send, way) + way + (parts - 1) * send


def _segmented_scatter(fabric: Fabric, p: int, nbytes: float, parts: int) -> float:
    return _once_round(fabric, p, nbytes, parts, fabric.reduction)


def _segmented_all_reduce(fabric: Fabric, p: int, nbytes: float, parts: int) -> float:
    """The all-gather of the first part begins while the last part is reduced."""
    send = fabric.send(nbytes / p / parts)
    way = fabric.latency + send + nbytes / p / parts * fabric.reduction
    return (p - 1) * max(parts * send, way) + _once_round(fabric, p, nbytes, parts)


def ring_reduce_scatter(channels: int = 1, segments: int = 1, ways: int = 1) -> CostModel:
    """One way round, with additions."""
    return _segmented(RING_REDUCE_SCATTER, _SCATTER, _segmented_scatter, channels * segments, ways)


def ring_all_gather(channels: int = 1, segments: int = 1, ways: int = 1) -> CostModel:
    """One way round."""
    return _segmented(RING_ALL_GATHER, _GATHER, _once_round, channels * segments, ways)


def ring_all_reduce(channels: int = 1, segments: int = 1, ways: int = 1) -> CostModel:
    """Twice round."""
    return _segmented(
        RING_ALL_REDUCE, _ALL_REDUCE, _segmented_all_reduce, channels * segments, ways
    )


def _segmented(plain: CostModel, latex: str, time: Time, parts: int, ways: int) -> CostModel:
    """Parts of both ways share a rank's port, unless it has a port for each peer."""
    if parts * ways == 1:
        return plain

    def at(fabric: Fabric, p: int, nbytes: float) -> float:
        if fabric.ports == "peer" and p > 2 and ways == 2:
            return time(fabric, p, nbytes / 2, parts)
        return time(fabric, p, nbytes, parts * ways)

    two_ways = "half of them each way, V/2 with a port for each peer; γ = 0"
    words = two_ways if ways == 2 else "γβ ≤ 1"
    return replace(
        plain,
        latex=rf"{latex} + (m-1)x,\ x = g + \frac{{V}}{{mp\beta}},\ y = \frac{{V}}{{mp}}\gamma",
        assumes=f"{RING_ASSUMES}; m = {parts * ways} parts of a chunk; {words}",
        time=at,
        merging=0.0 if ways == 2 else 1.0,
        memory_ports=(),
    )


def chain_scan(segments: int) -> CostModel:
    """A chain of `segments`, and a merge at every rank but the first."""
    return replace(
        chain_reduce(segments),
        source="Sanders, Träff, Parallel prefix (scan) algorithms for MPI, EuroPVM/MPI 2006",
        redundant=lambda p: 1 / segments,
    )


def chain_exscan(segments: int) -> CostModel:
    """The same, but the last rank adds nothing, and a merge may delay no other."""
    inclusive = chain_scan(segments)

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        send, merge = fabric.send(nbytes / segments), nbytes / segments * fabric.reduction
        if p == 2:
            return fabric.latency + segments * send
        return inclusive.time(fabric, p, nbytes) - merge

    return replace(
        inclusive,
        latex=f"{inclusive.latex};\\ y = 0\\ \\mathrm{{at the last rank}}",
        time=time,
        peak=lambda p: 2,
        redundant=lambda p: p - 1,
    )


DOUBLING_SCAN = linear(
    latex=r"\lceil\log_2 p\rceil\left(\alpha + g + \frac{V}{\beta} + V\gamma\right)",
    assumes=ASSUMES,
    source="Hillis, Steele, Data parallel algorithms, CACM 29(12), 1986",
    steps=log2_ceil,
    moved=log2_ceil,
    merged=log2_ceil,
    volume=lambda p: sum(p - (1 << level) for level in range(log2_ceil(p))),
    peak=lambda p: 2,
)
