"""Formulas of gloo's operations."""

from __future__ import annotations

from dataclasses import replace

from simulator.cost_models.cost_model import CostModel, log2_ceil
from simulator.cost_models.fabric import Fabric
from simulator.cost_models.neighbors import SHIFT
from simulator.cost_models.servers import PAIRWISE_ALL_TO_ALL, pairwise


def _gloo_pass(fabric: Fabric, p: int, nbytes: float) -> float:
    """Once round the ring, all chunks in two segments."""
    send, hear = fabric.send(nbytes / (2 * p)), fabric.gap + 2 * fabric.latency
    return hear + 2 * send + (p - 2) * max(2 * send, hear + send)


def _gloo_direct(fabric: Fabric, p: int, nbytes: float) -> float:
    """A chunk straight to each rank or from each, all at once, after as many ready signals."""
    return fabric.gap + fabric.latency + pairwise(fabric, p, nbytes)


def _gloo_broadcast(fabric: Fabric, p: int, nbytes: float) -> float:
    """Rank c receives the data after one latency for every 1 of its binary digits, and one send for
    every digit."""
    send, hops = fabric.send(nbytes), range(1, log2_ceil(p) + 1)
    most_bits = [max(c.bit_count() for c in range(1 << h >> 1, min(1 << h, p))) for h in hops]
    sends = most_bits if fabric.ports == "peer" else hops
    return (
        fabric.gap
        + fabric.latency
        + max(a * fabric.latency + n * send for a, n in zip(most_bits, sends, strict=True))
    )


GLOO_RING = CostModel(
    latex=r"2\left(h + 2x + (p-2)\max(2x, h + x)\right),\ h = g + 2\alpha,\ x = g + "
    r"\frac{V}{2p\beta}",
    assumes="two segments a chunk; ready signals never wait behind data; γ = 0",
    source="gloo/allreduce.cc of facebookincubator/gloo",
    time=lambda fabric, p, nbytes: 2 * _gloo_pass(fabric, p, nbytes),
    volume=lambda p: 2 * (p - 1),
    steps=lambda p: 4 * (p - 1),
    peak=lambda p: 1 + 1 / p,
    memory_ports=(),
    unclaimed="ready signals wait behind data",
)

GLOO_REDUCE = replace(
    GLOO_RING,
    latex=r"2h + 2x + (p-2)\max(2x, h + x) + (p-1)y,\ h = g + 2\alpha,\ x = g + \frac{V}{2p\beta},"
    r"\ y = g + \frac{V}{p\beta}",
    source="gloo/reduce.cc of facebookincubator/gloo",
    time=lambda fabric, p, nbytes: _gloo_pass(fabric, p, nbytes) + _gloo_direct(fabric, p, nbytes),
    volume=lambda p: (p - 1) * (1 + 1 / p),
    steps=lambda p: 2 * p,
)

GLOO_ALL_GATHER = replace(
    GLOO_RING,
    latex=r"h + 2x + (p-2)\max(2x, h + x),\ h = g + 2\alpha,\ x = g + \frac{V}{2p\beta}",
    assumes="two segments a chunk; ready signals never wait behind data",
    source="gloo/allgather.cc of facebookincubator/gloo",
    time=_gloo_pass,
    volume=lambda p: p - 1,
    steps=lambda p: 2 * (p - 1),
    peak=lambda p: 1,
)

GLOO_BROADCAST = replace(
    GLOO_ALL_GATHER,
    latex=r"g + \alpha + \lceil\log_2 p\rceil(\alpha + x),\ x = g + \frac{V}{\beta}",
    assumes="p = 2^k; fifo sharing, while fair sharing needs (log2 p + 1)/2 times as many x",
    source="gloo/broadcast.cc of facebookincubator/gloo",
    time=_gloo_broadcast,
    steps=lambda p: 1 + max(rank.bit_count() for rank in range(p)),
)

GLOO_SCATTER = replace(
    GLOO_ALL_GATHER,
    latex=r"g + 2\alpha + (p-1)\left(g + \frac{V}{p\beta}\right)",
    assumes="one port a rank; ready signals never wait behind data",
    source="gloo/scatter.cc of facebookincubator/gloo",
    time=_gloo_direct,
    volume=lambda p: (p - 1) / p,
    steps=lambda p: 2,
    redundant=lambda p: (p - 1) / p,
)

GLOO_GATHER = replace(GLOO_SCATTER, source="gloo/gather.cc of facebookincubator/gloo")

GLOO_ALL_TO_ALL = replace(
    PAIRWISE_ALL_TO_ALL,
    latex=GLOO_SCATTER.latex,
    assumes=GLOO_SCATTER.assumes,
    source="gloo/alltoall.cc of facebookincubator/gloo",
    time=_gloo_direct,
    steps=lambda p: 2,
    unclaimed=GLOO_RING.unclaimed,
)

GLOO_SEND_RECV = replace(
    SHIFT,
    latex=r"2g + 2\alpha + \frac{V}{\beta}",
    assumes=GLOO_SCATTER.assumes,
    source="Pair::send and Pair::recv in gloo/transport/tcp/pair.cc of facebookincubator/gloo",
    time=lambda fabric, p, nbytes: fabric.gap + fabric.latency + SHIFT.time(fabric, p, nbytes),
    steps=lambda p: 2,
    unclaimed=GLOO_RING.unclaimed,
)
