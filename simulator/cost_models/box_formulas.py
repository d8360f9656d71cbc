"""Formulas of rings along each axis of a box of ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from simulator.cost_models import neighbors
from simulator.cost_models.cost_model import ASSUMES, CostModel
from simulator.cost_models.fabric import Fabric

Dims = tuple[int, ...]
SOURCE = "Cho et al., BlueConnect, MLSys 2019"


def blue_connect(levels: int) -> CostModel:
    """A box of so many levels, as nearly a cube as can be."""
    return _blue_connect(lambda p: _factors(p, levels), f"p in {levels} nearly equal factors p_i")


def blue_connect_of(dims: Dims) -> CostModel:
    """A box of known sizes."""
    return _blue_connect(lambda p: dims, f"p = {' · '.join(map(str, dims))}")


def _blue_connect(dims: Callable[[int], Dims], words: str) -> CostModel:
    def steps(p: int) -> int:
        return 2 * sum(size - 1 for size in dims(p))

    def first(p: int) -> int:
        return next((size for size in reversed(dims(p)) if size > 1), 1)

    return CostModel(
        latex=r"2\sum_i (p_i - 1)(\alpha + g) + 2\frac{p-1}{p}\frac{V}{\beta}"
        r" + \frac{p-1}{p}V\gamma",
        assumes=f"{ASSUMES}; {words}",
        source=SOURCE,
        time=lambda fabric, p, nbytes: (
            steps(p) * (fabric.latency + fabric.gap)
            + (p - 1) * nbytes / p * (2 / fabric.bandwidth + fabric.reduction)
        ),
        volume=lambda p, nbytes: 2 * (p - 1) * nbytes,
        steps=steps,
        peak=lambda p, nbytes: nbytes + nbytes / first(p),
    )


def two_level(per_node: int | None = None) -> CostModel:
    """Rings inside nodes of `per_node` ranks, and across them. The default is the largest divisor
    of p up to 8."""

    def dims(p: int) -> Dims:
        return p // node_size(p, per_node), node_size(p, per_node)

    return replace(
        _blue_connect(dims, f"n nodes of m = {per_node or 'up to 8'} ranks, p = nm"),
        latex=r"2(m-1)\left(\alpha + g + \frac{V}{m\beta}\right) + "
        r"2(n-1)\left(\alpha + g + \frac{V}{p\beta}\right) + (p-1)\frac{V}{p}\gamma",
        source="Cho et al., BlueConnect, MLSys 2019, of two levels",
    )


def node_size(p: int, per_node: int | None) -> int:
    """The ranks of a node: the largest divisor of p up to 8 if nobody says."""
    return per_node or max(divisor for divisor in range(1, 9) if p % divisor == 0)


def on_torus(dims: Dims) -> CostModel:
    """V has a part for each direction of each dimension. The parts take the dimensions in turn, so
    that each link has one part at a time if the dimensions are equal."""

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        total, part = 0.0, nbytes / 2 / len(dims)
        for size in dims:
            part /= size
            total += 2 * (size - 1) * (fabric.latency + fabric.send(part))
        return total

    equal = len({*dims}) == 1 and dims[0] > 2
    return replace(
        neighbors.RING_ALL_REDUCE,
        latex=r"2\sum_{i=1}^{D}(d-1)\left(\alpha + g + \frac{V}{2Dd^i\beta}\right)",
        assumes=f"a torus of {'x'.join(map(str, dims))}: D = {len(dims)} dimensions of d ranks; "
        "every link both ways; γ = 0",
        source="Jouppi et al., TPU v4, ISCA 2023; rings along dimensions after BlueConnect",
        time=time,
        steps=lambda p: 2 * sum(size - 1 for size in dims),
        merging=0.0,
        memory_ports=(),
        unclaimed="" if equal else "dimensions differ, or have two ranks",
    )


def _factors(p: int, levels: int) -> Dims:
    factors, rest = [], p
    for level in range(levels, 0, -1):
        most = int(rest ** (1 / level) + 1e-9) if level > 1 else rest
        factors.append(max(factor for factor in range(1, most + 1) if rest % factor == 0))
        rest //= factors[-1]
    assert prod(factors) == p
    return tuple(sorted(factors))
