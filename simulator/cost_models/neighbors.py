"""Formulas of rings and chains: every rank sends to a neighbour."""

from __future__ import annotations

from dataclasses import replace

from simulator.cost_models.cost_model import PATARASUK, RING_ASSUMES, THAKUR, CostModel
from simulator.cost_models.fabric import Fabric


def _ring(fabric: Fabric, p: int, nbytes: float) -> float:
    return (p - 1) * (fabric.latency + fabric.send(nbytes / p))


def _ring_reducing(fabric: Fabric, p: int, nbytes: float) -> float:
    return _ring(fabric, p, nbytes) + (p - 1) * nbytes / p * fabric.reduction


def _neighbor_exchange(fabric: Fabric, p: int, nbytes: float) -> float:
    if p % 2:
        return _ring(fabric, p, nbytes)
    return p // 2 * (fabric.latency + fabric.gap) + (p - 1) * nbytes / p / fabric.bandwidth


RING_REDUCE_SCATTER = CostModel(
    latex=r"(p-1)\left(\alpha + g + \frac{V}{p\beta} + \frac{V}{p}\gamma\right)",
    assumes=RING_ASSUMES,
    source=PATARASUK,
    time=_ring_reducing,
    volume=lambda p, nbytes: (p - 1) * nbytes,
    steps=lambda p: p - 1,
    peak=lambda p, nbytes: nbytes + nbytes / p,
)

RING_ALL_GATHER = CostModel(
    latex=r"(p-1)\left(\alpha + g + \frac{V}{p\beta}\right)",
    assumes=RING_ASSUMES,
    source=THAKUR,
    time=_ring,
    volume=lambda p, nbytes: (p - 1) * nbytes,
    steps=lambda p: p - 1,
)

RING_ALL_REDUCE = CostModel(
    latex=r"2(p-1)\left(\alpha + g + \frac{V}{p\beta}\right) + (p-1)\frac{V}{p}\gamma",
    assumes=RING_ASSUMES,
    source=PATARASUK,
    time=lambda fabric, p, nbytes: _ring_reducing(fabric, p, nbytes) + _ring(fabric, p, nbytes),
    volume=lambda p, nbytes: 2 * (p - 1) * nbytes,
    steps=lambda p: 2 * (p - 1),
    peak=lambda p, nbytes: nbytes + nbytes / p,
)

NEIGHBOR_EXCHANGE = CostModel(
    latex=r"\frac{p}{2}(\alpha + g) + \frac{p-1}{p}\frac{V}{\beta}",
    assumes=f"{RING_ASSUMES}; even p, else a ring",
    source="Chen et al., Performance Evaluation of Allgather Algorithms on Terascale Linux "
    "Cluster, HPC Asia 2005",
    time=_neighbor_exchange,
    volume=lambda p, nbytes: (p - 1) * nbytes,
    steps=lambda p: p - 1 if p % 2 else p // 2,
)

SHIFT = CostModel(
    latex=r"\alpha + g + \frac{V}{\beta}",
    assumes="full duplex; all ranks send at the same time",
    source="nccl-tests sendrecv_perf",
    time=lambda fabric, p, nbytes: fabric.latency + fabric.send(nbytes),
    volume=lambda p, nbytes: p * nbytes,
    steps=lambda p: 1,
    peak=lambda p, nbytes: 2 * nbytes,
    redundant=lambda p, nbytes: p * nbytes,
)

RING_EXCHANGE = CostModel(
    latex=r"(p-1)\left(\alpha + g + \frac{V}{\beta}\right)",
    assumes=RING_ASSUMES,
    source="Liu, Zaharia, Abbeel, Ring attention with blockwise transformers, ICLR 2024",
    time=lambda fabric, p, nbytes: (p - 1) * (fabric.latency + fabric.send(nbytes)),
    volume=lambda p, nbytes: p * (p - 1) * nbytes,
    steps=lambda p: p - 1,
    peak=lambda p, nbytes: 2 * nbytes,
    redundant=lambda p, nbytes: p * nbytes,
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
        volume=lambda p, nbytes: (p - 1) * nbytes,
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
        peak=lambda p, nbytes: nbytes + nbytes / segments,
        memory_ports=(),
    )
