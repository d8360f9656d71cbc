"""Formulas of gossip: every rank sends all its data to k neighbours and adds up k inboxes."""

from __future__ import annotations

from collections.abc import Callable

from simulator.cost_models.cost_model import CostModel, log2_ceil
from simulator.cost_models.fabric import Fabric


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
        volume=lambda p, nbytes: p * neighbors(p) * nbytes,
        steps=lambda p: 1,
        peak=lambda p, nbytes: (neighbors(p) + 1) * nbytes,
        redundant=lambda p, nbytes: p * neighbors(p) * nbytes,
    )


RING = _gossip(
    lambda p: min(2, p - 1),
    "k = 2 neighbours, 1 of 2 ranks",
    "Lian et al., Decentralized parallel SGD, NeurIPS 2017",
)
EXPONENTIAL = _gossip(
    log2_ceil,
    "k = ⌈log2 p⌉",
    "Ying et al., Exponential graph is provably efficient for decentralized training, NeurIPS 2021",
)
