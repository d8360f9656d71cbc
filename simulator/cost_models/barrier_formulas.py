"""Formulas of barriers, whose messages have no bytes."""

from __future__ import annotations

from simulator.cost_models.cost_model import ASSUMES, CostModel, log2_ceil, log2_floor
from simulator.cost_models.fabric import Fabric
from simulator.cost_models.scatter_formulas import binomial_gather, binomial_scatter

MELLOR = "Mellor-Crummey, Scott, ACM Transactions on Computer Systems 9(1), 1991"


def _central(fabric: Fabric, p: int, nbytes: float) -> float:
    messages = 1 if fabric.ports == "peer" else p - 1
    return 2 * (fabric.latency + messages * fabric.gap)


CENTRAL = CostModel(
    latex=r"2\alpha + 2(p-1)g",
    assumes="one port a rank; with a port for each peer: 2α + 2g",
    source=MELLOR,
    time=_central,
    volume=lambda p, nbytes: 0.0,
    steps=lambda p: 2,
    peak=lambda p, nbytes: 0.0,
    redundant=lambda p, nbytes: 0.0,
)

TREE = CostModel(
    latex=r"2\lceil\log_2 p\rceil(\alpha + g)",
    assumes=f"{ASSUMES}; the formula shown is for p = 2^k",
    source=MELLOR,
    time=lambda fabric, p, nbytes: (
        binomial_gather(fabric, p, 0.0) + binomial_scatter(fabric, p, 0.0)
    ),
    volume=lambda p, nbytes: 0.0,
    steps=lambda p: 2 * log2_floor(p),
    peak=lambda p, nbytes: 0.0,
    redundant=lambda p, nbytes: 0.0,
)

DISSEMINATION = CostModel(
    latex=r"\lceil\log_2 p\rceil(\alpha + g)",
    assumes=ASSUMES,
    source="Hensgen, Finkel, Manber, International Journal of Parallel Programming 17(1), 1988",
    time=lambda fabric, p, nbytes: log2_ceil(p) * (fabric.latency + fabric.gap),
    volume=lambda p, nbytes: 0.0,
    steps=log2_ceil,
    peak=lambda p, nbytes: 0.0,
    redundant=lambda p, nbytes: 0.0,
)
