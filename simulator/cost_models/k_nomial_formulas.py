"""Formulas of k-nomial trees."""

from __future__ import annotations

from dataclasses import replace

from simulator.cost_models.cost_model import ASSUMES, CostModel
from simulator.cost_models.fabric import Fabric


def broadcast(radix: int, segments: int = 1) -> CostModel:
    """The root sends each segment to its c children, and sets the pace."""

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        send, peer = fabric.send(nbytes / segments), fabric.ports == "peer"
        turns, depth = [0], [0]
        served = dict.fromkeys(range(p), 0)
        for rank in range(1, p):
            parent, number = _parent(rank, p, radix)
            served[parent] += 1
            turns.append(turns[parent] + (1 if peer else number))
            depth.append(depth[parent] + 1)
        last = max(t * send + d * fabric.latency for t, d in zip(turns, depth, strict=True))
        return (segments - 1) * (1 if peer else served[0]) * send + last

    return CostModel(
        latex=r"(m-1)cx + \max_r(t_r x + d_r\alpha),\ x = g + \frac{V}{m\beta}",
        assumes=f"{ASSUMES}; k = {radix}; m = {segments} pieces; c: children of the root; d_r: "
        "depth; t_r: the sum of a rank's and its ancestors' places among their siblings",
        source="coll_base_bcast.c of open-mpi/ompi (knomial); bcast_intra_tree.c of pmodels/mpich",
        time=time,
        steps=lambda p: max(_depth(rank, radix) for rank in range(p)),
    )


def reduce(radix: int, segments: int = 1) -> CostModel:
    """The reverse of :func:`broadcast`. No formula here tells in which order children share the
    port of their parent."""
    return replace(
        broadcast(radix, segments),
        peak=lambda p: 2,
        unclaimed="children share a port",
    )


def _parent(rank: int, p: int, radix: int) -> tuple[int, int]:
    """The parent of a rank, and the place of the rank among the parent's children, from 1 on."""
    step = 1
    while rank // step % radix == 0:
        step *= radix
    digit = rank // step % radix
    parent = rank - digit * step
    place, larger = digit, step * radix
    while larger < p and parent % (larger * radix) == 0:
        place += len(range(parent + larger, min(p, parent + larger * radix), larger))
        larger *= radix
    return parent, place


def _depth(rank: int, radix: int) -> int:
    digits = 0
    while rank:
        digits += rank % radix > 0
        rank //= radix
    return digits
