"""Formulas of scans."""

from __future__ import annotations

from dataclasses import replace

from simulator.cost_models import neighbors
from simulator.cost_models.cost_model import ASSUMES, CostModel, log2_ceil
from simulator.cost_models.fabric import Fabric

SANDERS = "Sanders, Träff, Parallel prefix (scan) algorithms for MPI, EuroPVM/MPI 2006"


def chain_scan(segments: int) -> CostModel:
    """A chain of `segments`, and a merge at every rank but the first."""
    return replace(
        neighbors.chain_reduce(segments),
        source=SANDERS,
        redundant=lambda p, nbytes: nbytes / segments,
    )


def chain_exscan(segments: int) -> CostModel:
    """The same, but the last rank adds nothing, and a merge may delay no other."""
    inclusive = chain_scan(segments)

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        send, merge = fabric.send(nbytes / segments), nbytes / segments * fabric.reduction
        if p == 2:
            return fabric.latency + segments * send
        return inclusive.time(fabric, p, nbytes) - merge

    return replace(
        inclusive,
        latex=f"{inclusive.latex};\\ y = 0\\ \\mathrm{{at the last rank}}",
        time=time,
        peak=lambda p, nbytes: 2 * nbytes,
        redundant=lambda p, nbytes: (p - 1) * nbytes,
    )


DOUBLING_SCAN = CostModel(
    latex=r"\lceil\log_2 p\rceil\left(\alpha + g + \frac{V}{\beta} + V\gamma\right)",
    assumes=ASSUMES,
    source="Hillis, Steele, Data parallel algorithms, CACM 29(12), 1986",
    time=lambda fabric, p, nbytes: (
        log2_ceil(p) * (fabric.latency + fabric.send(nbytes) + nbytes * fabric.reduction)
    ),
    volume=lambda p, nbytes: sum(p - (1 << level) for level in range(log2_ceil(p))) * nbytes,
    steps=log2_ceil,
    peak=lambda p, nbytes: 2 * nbytes,
)
