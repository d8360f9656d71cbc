"""Formulas of PAT, by rounds."""

from __future__ import annotations

from dataclasses import replace

from simulator.cost_models.cost_model import ASSUMES, CostModel, log2_ceil
from simulator.cost_models.fabric import Fabric


def all_gather(chunks: int) -> CostModel:
    """In the round of bit k a rank passes on a chunk for every multiple of 2^(k+1) below p - 2^k,
    in messages of up to `chunks`."""

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        sizes = [size for level in range(log2_ceil(p)) for size in _sizes(p, level, chunks)]
        port = sum(fabric.send(size * nbytes / p) for size in sizes)
        return log2_ceil(p) * fabric.latency + port

    return CostModel(
        latex=r"\lceil\log_2 p\rceil\alpha + Mg + \frac{p-1}{p}\frac{V}{\beta}",
        assumes=f"{ASSUMES}; M messages of a rank, ⌈log2 p⌉ if rounds are not cut"
        + ("" if chunks >= 2**20 else f" into messages of {chunks} chunks"),
        source="Jeaugey, arXiv 2506.20252",
        time=time,
        steps=log2_ceil,
        peak=lambda p: 2,
        redundant=lambda p: 2 * p - 1,
        memory_ports=(),
    )


def reduce_scatter(chunks: int) -> CostModel:
    """The same, and a rank adds a round's chunks when it has all of its messages."""
    gather = all_gather(chunks)
    return replace(
        gather,
        latex=gather.latex + r" + \frac{p-1}{p}V\gamma",
        time=lambda fabric, p, nbytes: (
            gather.time(fabric, p, nbytes) + (p - 1) / p * nbytes * fabric.reduction
        ),
        redundant=lambda p: p,
        merging=float("inf") if chunks >= 2**20 else 0.0,
    )


def _sizes(p: int, level: int, chunks: int) -> list[int]:
    """The chunks in each message of a rank."""
    step = 1 << level
    count = len(range(0, p - step, 2 * step))
    return [min(chunks, count - first) for first in range(0, count, chunks)]
