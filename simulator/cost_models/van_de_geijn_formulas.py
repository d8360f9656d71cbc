"""Formulas of van de Geijn's broadcast: a scatter, then an all-gather."""

from __future__ import annotations

from simulator.cost_models.cost_model import (
    ASSUMES,
    THAKUR,
    CostModel,
    is_power_of_two,
    log2_ceil,
    log2_floor,
)
from simulator.cost_models.fabric import Fabric

SOURCE = f"Barnett et al., Interprocessor collective communication library, 1994; {THAKUR}"


def _scatter(fabric: Fabric, members: int, chunk: float) -> float:
    """Down a binomial tree: a rank sends the largest part first."""
    arrival = {0: 0.0}
    port = {0: 0.0}
    for level in reversed(range(log2_ceil(members))):
        for child in range(1 << level, members, 2 << level):
            parent = child - (1 << level)
            send = fabric.send(min(1 << level, members - child) * chunk)
            start = arrival[parent] if fabric.ports == "peer" else port[parent]
            port[parent] = start + send
            arrival[child] = port[child] = start + send + fabric.latency
    return max(arrival.values())


def _with_ring(fabric: Fabric, p: int, nbytes: float) -> float:
    return _scatter(fabric, p, nbytes / p) + (p - 1) * (fabric.latency + fabric.send(nbytes / p))


def _with_doubling(fabric: Fabric, p: int, nbytes: float) -> float:
    rounds, members = log2_floor(p), 1 << log2_floor(p)
    gather = rounds * (fabric.latency + fabric.gap)
    gather += (members - 1) / members * nbytes / fabric.bandwidth
    unfold = 0.0 if is_power_of_two(p) else fabric.latency + fabric.send(nbytes)
    return _scatter(fabric, members, nbytes / members) + gather + unfold


WITH_RING = CostModel(
    latex=r"S + (p-1)\left(\alpha + g + \frac{V}{p\beta}\right),\ S = \log_2 p\,(\alpha + g)"
    r" + \frac{p-1}{p}\frac{V}{\beta}",
    assumes=f"{ASSUMES}; S: the scatter, here for p = 2^k",
    source=SOURCE,
    time=_with_ring,
    volume=lambda p, nbytes: (p - 1) * nbytes,
    steps=lambda p: log2_floor(p) + p - 1,
    peak=lambda p, nbytes: nbytes,
    redundant=lambda p, nbytes: (p - 1) * nbytes,
)

WITH_DOUBLING = CostModel(
    latex=r"2\log_2 q\,(\alpha + g) + 2\frac{q-1}{q}\frac{V}{\beta} + f\left(\alpha + g + "
    r"\frac{V}{\beta}\right)",
    assumes=f"{ASSUMES}; q = 2^⌊log2 p⌋; f = 0 if p = q, else 1",
    source=SOURCE,
    time=_with_doubling,
    volume=lambda p, nbytes: (p - 1) * nbytes,
    steps=lambda p: 2 * log2_floor(p) + (not is_power_of_two(p)),
    peak=lambda p, nbytes: nbytes,
    redundant=lambda p, nbytes: (p - 1) * nbytes,
)
