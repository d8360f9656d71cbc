"""Formulas of van de Geijn's broadcast: a scatter, then an all-gather."""

from __future__ import annotations

from dataclasses import replace

from simulator.cost_models.cost_model import (
    ASSUMES,
    THAKUR,
    CostModel,
    is_power_of_two,
    log2_floor,
)
from simulator.cost_models.fabric import Fabric
from simulator.cost_models.scatter_formulas import binomial_scatter

SOURCE = f"Barnett et al., Interprocessor collective communication library, 1994; {THAKUR}"


def _with_ring(fabric: Fabric, p: int, nbytes: float) -> float:
    chunk = nbytes / p
    return binomial_scatter(fabric, p, chunk) + (p - 1) * (fabric.latency + fabric.send(chunk))


def _with_doubling(fabric: Fabric, p: int, nbytes: float) -> float:
    rounds, members = log2_floor(p), 1 << log2_floor(p)
    gather = rounds * (fabric.latency + fabric.gap)
    gather += (members - 1) / members * nbytes / fabric.bandwidth
    unfold = 0.0 if is_power_of_two(p) else fabric.latency + fabric.send(nbytes)
    return binomial_scatter(fabric, members, nbytes / members) + gather + unfold


WITH_RING = CostModel(
    latex=r"S + (p-1)\left(\alpha + g + \frac{V}{p\beta}\right),\ S = \log_2 p\,(\alpha + g)"
    r" + \frac{p-1}{p}\frac{V}{\beta}",
    assumes=f"{ASSUMES}; S: the scatter, here for p = 2^k",
    source=SOURCE,
    time=_with_ring,
    volume=lambda p, nbytes: (p - 1) * nbytes,
    steps=lambda p: log2_floor(p) + p - 1,
)

WITH_DOUBLING = replace(
    WITH_RING,
    latex=r"2\log_2 q\,(\alpha + g) + 2\frac{q-1}{q}\frac{V}{\beta} + f\left(\alpha + g + "
    r"\frac{V}{\beta}\right)",
    assumes=f"{ASSUMES}; q = 2^⌊log2 p⌋; f = 0 if p = q, else 1",
    time=_with_doubling,
    steps=lambda p: 2 * log2_floor(p) + (not is_power_of_two(p)),
)
