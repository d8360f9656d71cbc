"""Formulas for boxes of ranks: rings along each axis, Swing on a torus, stages over nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from simulator.cost_models import neighbors, trees
from simulator.cost_models.cost_model import ASSUMES, CostModel, log2_floor
from simulator.cost_models.fabric import Fabric
from simulator.cost_models.servers import outcast

Dims = tuple[int, ...]


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
        source="Cho et al., BlueConnect, MLSys 2019",
        time=lambda fabric, p, nbytes: (
            steps(p) * (fabric.latency + fabric.gap)
            + (p - 1) * nbytes / p * (2 / fabric.bandwidth + fabric.reduction)
        ),
        volume=lambda p: 2 * (p - 1),
        steps=steps,
        peak=lambda p: 1 + 1 / first(p),
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


def torus_rings(dims: Dims) -> CostModel:
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


def two_stages(per_node: int | None = None) -> CostModel:
    """One stage has m - 1 messages of n blocks a rank, the other n - 1 messages of m blocks."""

    def shape(p: int) -> tuple[int, int]:
        size = node_size(p, per_node)
        return size, p // size

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        stages = (extent for extent in shape(p) if extent > 1)
        return sum((outcast(fabric, each - 1, nbytes / each) for each in stages), 0.0)

    return CostModel(
        latex=r"2\alpha + (m-1)\left(g + \frac{V}{m\beta}\right) + (n-1)\left(g + "
        r"\frac{V}{n\beta}\right)",
        assumes=f"one port a rank; n nodes of m = {per_node or 'up to 8'} ranks, p = nm; with a "
        "port for each peer: 1 message a stage",
        source="Zhao et al., DeepEP, 2025; PXN of NVIDIA/nccl since 2.12",
        time=time,
        volume=lambda p: p * ((shape(p)[0] - 1) / shape(p)[0] + (shape(p)[1] - 1) / shape(p)[1]),
        steps=lambda p: sum(extent > 1 for extent in shape(p)),
        peak=lambda p: 3,
        redundant=lambda p: 2 * p,
        memory_ports=(),
    )


SWING = replace(
    trees.HALVING_DOUBLING, source="De Sensi et al., Swing, NSDI 2024, arXiv 2401.09356"
)


def torus_swing(dims: tuple[int, ...]) -> CostModel:
    """Every part of V/(2D) goes over distances of 1, 1, 3, 5, ... along its dimensions. In a step
    as many messages share a link as the distance says."""

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        total = 0.0
        for number, step in enumerate(_steps(dims)):
            share = nbytes / 2 ** (number + 1)
            send = fabric.latency + fabric.send(share / (2 * len(dims)))
            total += 2 * distance(step) * send + share * fabric.reduction
        return total

    return replace(
        SWING,
        latex=r"2\sum_s \delta_s\left(\alpha + g + \frac{V}{2^{s+2}D\beta}\right)"
        r" + \frac{p-1}{p}V\gamma",
        assumes=f"a torus of {'x'.join(map(str, dims))}, D = {len(dims)}; δ_s = 1, 1, 3, 5, ...: "
        "the distance in step s; every link both ways",
        time=time,
        unclaimed="messages share links",
    )


def congestion(dims: tuple[int, ...]) -> float:
    """The time of long messages over the least that the ports of a torus of equal `dims` allow.

    Its limits on large tori of 2, 3 and 4 dimensions are 6/5, 28/27 and 1.0084.

    >>> [round(congestion((2**9,) * d), 4) for d in (2, 3, 4)]
    [1.1981, 1.037, 1.0084]
    """
    crowded = sum(distance(step) / (2 << number) for number, step in enumerate(_steps(dims)))
    return crowded / (1 - 1 / prod(dims))


def distance(step: int) -> int:
    """The links between peers in a step along one dimension: 1, 1, 3, 5, 11, ..."""
    return ((2 << step) + 1 - 2 * (step % 2)) // 3


def _steps(dims: tuple[int, ...]) -> list[int]:
    """The step along its dimension of every step."""
    last = max(map(log2_floor, dims))
    return [step for step in range(last) for dim in dims if step < log2_floor(dim)]
