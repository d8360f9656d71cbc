"""Formulas of parameter servers that share V."""

from __future__ import annotations

from simulator.cost_models.cost_model import CostModel
from simulator.cost_models.fabric import Fabric


def sharded(shards: int) -> CostModel:
    """`shards` workers serve; the formula holds where all of them do."""

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        size = nbytes / min(shards, p)
        send, merge = fabric.send(size), size * fabric.reduction
        added = fabric.latency + send + merge
        if fabric.ports == "peer":
            return added + (p - 2) * merge + fabric.latency + send
        return added + (p - 2) * max(send, merge) + fabric.latency + (p - 1) * send

    every = shards >= 2**20
    return CostModel(
        latex=r"2\alpha + (p-2)\max(x, y) + px + y,\ x = g + \frac{V}{k\beta},\ y = "
        r"\frac{V}{k}\gamma",
        assumes=f"one port a rank; k = {'p' if every else shards} shards; with a port for each "
        "peer: 2(α + x) + (p-1)y",
        source="Li et al., OSDI 2014; colocated with all workers as in BytePS, OSDI 2020",
        time=time,
        volume=lambda p, nbytes: 2 * (p - 1) * nbytes,
        steps=lambda p: 2,
        peak=lambda p, nbytes: nbytes + (p - 1) * nbytes / min(shards, p),
        memory_ports=("peer",),
        unclaimed="" if every else "some ranks serve",
    )


def byteps(servers: int, segments: int) -> CostModel:
    """All ports carry the same number of bytes; α, g, γ and the first segment are left out."""

    def parts(p: int) -> int:
        return p * p + servers * p - 2 * servers

    return CostModel(
        latex=r"\frac{2n(n-1)}{n^2 + kn - 2k}\frac{V}{\beta}",
        assumes=f"n = p workers; k = {servers} CPU machines; V in {segments} pieces, no start-up",
        source="Jiang et al., BytePS, OSDI 2020",
        time=lambda fabric, p, nbytes: 2 * p * (p - 1) * nbytes / parts(p) / fabric.bandwidth,
        volume=lambda p, nbytes: (
            (servers * 2 * p * 2 * (p - 1) + 2 * p * (p - 1) * (p - servers)) * nbytes / parts(p)
        ),
        steps=lambda p: 2,
        peak=lambda p, nbytes: 2 * nbytes,
        redundant=lambda p, nbytes: p * nbytes,
        memory_ports=(),
        unclaimed="pipelined in pieces",
    )
