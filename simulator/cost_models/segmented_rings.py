"""Formulas of rings whose chunks are cut into parts that do not wait for each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from simulator.cost_models import neighbors
from simulator.cost_models.cost_model import RING_ASSUMES, CostModel
from simulator.cost_models.fabric import Fabric

Time = Callable[[Fabric, int, float, int], float]
"""Seconds, from the fabric, p, V and the parts of a chunk."""
GATHER = r"(p-2)\max(mx, \alpha+x) + \alpha + x"
SCATTER = r"(p-2)\max(mx, \alpha+x+y) + \alpha + x + y"
ALL_REDUCE = r"(p-1)\max(mx, \alpha+x+y) + (p-2)\max(mx, \alpha+x) + \alpha + x"


def _pace(parts: int, send: float, way: float) -> float:
    """Seconds from the start of a step to that of the next: the port or the way of a part."""
    return max(parts * send, way)


def _gather(fabric: Fabric, p: int, nbytes: float, parts: int) -> float:
    send = fabric.send(nbytes / p / parts)
    way = fabric.latency + send
    return (p - 2) * _pace(parts, send, way) + way + (parts - 1) * send


def _scatter(fabric: Fabric, p: int, nbytes: float, parts: int) -> float:
    send = fabric.send(nbytes / p / parts)
    way = fabric.latency + send + nbytes / p / parts * fabric.reduction
    return (p - 2) * _pace(parts, send, way) + way + (parts - 1) * send


def _all_reduce(fabric: Fabric, p: int, nbytes: float, parts: int) -> float:
    """The all-gather of the first part begins while the last part is reduced."""
    send = fabric.send(nbytes / p / parts)
    merge, way = nbytes / p / parts * fabric.reduction, fabric.latency + send
    reduced = (p - 1) * _pace(parts, send, way + merge)
    return reduced + (p - 2) * _pace(parts, send, way) + way + (parts - 1) * send


def ring_reduce_scatter(channels: int = 1, segments: int = 1, ways: int = 1) -> CostModel:
    """One way round, with additions."""
    return _segmented(neighbors.RING_REDUCE_SCATTER, SCATTER, _scatter, channels * segments, ways)


def ring_all_gather(channels: int = 1, segments: int = 1, ways: int = 1) -> CostModel:
    """One way round."""
    return _segmented(neighbors.RING_ALL_GATHER, GATHER, _gather, channels * segments, ways)


def ring_all_reduce(channels: int = 1, segments: int = 1, ways: int = 1) -> CostModel:
    """Twice round."""
    return _segmented(neighbors.RING_ALL_REDUCE, ALL_REDUCE, _all_reduce, channels * segments, ways)


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
