"""Formulas of linear trees, in which rank 0 has a message with every rank."""

from __future__ import annotations

from dataclasses import replace

from simulator.cost_models.cost_model import ONE_PORT, CostModel
from simulator.cost_models.fabric import Fabric
from simulator.cost_models.servers import outcast


def _reduce(fabric: Fabric, p: int, nbytes: float) -> float:
    send, merge = fabric.send(nbytes), nbytes * fabric.reduction
    pace = merge if fabric.ports == "peer" else max(send, merge)
    return fabric.latency + send + merge + (p - 2) * pace


BROADCAST = CostModel(
    latex=r"\alpha + (p-1)\left(g + \frac{V}{\beta}\right)",
    assumes="one port a rank; with a port for each peer: 1 message instead of p-1",
    source="basic_linear in coll_base_bcast.c of open-mpi/ompi",
    time=lambda fabric, p, nbytes: outcast(fabric, p - 1, nbytes),
    volume=lambda p, nbytes: (p - 1) * nbytes,
    steps=lambda p: 1,
    ports=(*ONE_PORT, "bus"),
)

REDUCE = replace(
    BROADCAST,
    latex=r"\alpha + (p-2)\max(x, V\gamma) + x + V\gamma,\ x = g + \frac{V}{\beta}",
    source="basic_linear in coll_base_reduce.c of open-mpi/ompi",
    time=_reduce,
    peak=lambda p, nbytes: p * nbytes,
    memory_ports=("peer",),
)
