"""Formulas of what is made for a machine: boxes of ranks, switches that reduce, packed trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from simulator.cost_models import neighbors, trees
from simulator.cost_models.cost_model import ASSUMES, CostModel, linear, log2_ceil, log2_floor
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
    def first(p: int) -> int:
        return next((size for size in reversed(dims(p)) if size > 1), 1)

    return linear(
        latex=r"2\sum_i (p_i - 1)(\alpha + g) + 2\frac{p-1}{p}\frac{V}{\beta}"
        r" + \frac{p-1}{p}V\gamma",
        assumes=f"{ASSUMES}; {words}",
        source="Cho et al., BlueConnect, MLSys 2019",
        steps=lambda p: 2 * sum(size - 1 for size in dims(p)),
        moved=lambda p: 2 * (p - 1) / p,
        merged=lambda p: (p - 1) / p,
        volume=lambda p: 2 * (p - 1),
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
    last = max(map(log2_floor, dims))
    return [step for step in range(last) for dim in dims if step < log2_floor(dim)]


BUFFERS = 2
"""A worker of NVLS has room for so many pieces. With one, its port idles while a sum is on its
way."""


def sharp(segments: int, leaves: int = 1) -> CostModel:
    """All workers push pieces into a switch, which multicasts the sum. With several `leaves`, these
    pass the pieces to one switch above them."""
    below = leaves if leaves > 1 else 0
    return CostModel(
        latex=r"2\alpha + (m+1)\left(g + \frac{V}{m\beta}\right)",
        assumes=f"switches reduce and multicast at full rate; V in m = {segments} pieces; "
        "one switch",
        source="Graham et al., Scalable hierarchical aggregation protocol (SHARP), COMHPC 2016",
        time=lambda fabric, p, nbytes: (
            2 * fabric.latency + (segments + 1) * fabric.send(nbytes / segments)
        ),
        volume=lambda p: 2 * (p + below),
        steps=lambda p: 4 if below else 2,
        ports=("peer",),
        memory_ports=(),
        unclaimed="two levels of switches" if below else "",
    )


def _rounds(segments: int) -> int:
    return -(-segments // BUFFERS)


def nvls(segments: int, groups: int = 1, *, in_network: bool = False) -> CostModel:
    """The switch reduces every chunk on its way to the owner. The owners of all groups all-reduce
    it. The switch then multicasts it. All of this is done in `segments`."""
    across = 2 * groups if in_network else 2 * (groups - 1)
    return CostModel(
        latex=r"6\alpha + \left(1 + \frac{1}{p}\right)\frac{V}{\beta}",
        assumes="switches reduce and multicast; a port carries V and one chunk; "
        f"{segments} pieces, no start-up",
        source="multimem.ld_reduce and multimem.st of NVLink SHARP (NVIDIA Hopper architecture "
        "whitepaper)",
        time=lambda fabric, p, nbytes: (
            6 * fabric.latency + (1 + groups / p) * nbytes / fabric.bandwidth
        ),
        volume=lambda p: 2 * p + groups + across,
        steps=lambda p: (
            2 * _rounds(segments)
            + (2 if in_network else 2 * (groups - 1))
            + (2 if p > groups else 1)
        ),
        memory_ports=(),
        unclaimed="pipelined in pieces",
    )


def nvls_tree(segments: int, groups: int = 1) -> CostModel:
    """:func:`nvls` with a reduce up and a broadcast down a binary tree of the groups."""
    plain = nvls(segments, groups)
    return replace(
        plain,
        source="NVLSTree of NVIDIA/nccl since 2.18",
        steps=lambda p: 2 * _rounds(segments) + 2 * log2_ceil(groups) + (2 if p > groups else 1),
    )


MULTIMEM = CostModel(
    latex=r"2\alpha + (p+1)\left(g + \frac{V}{\beta}\right)",
    assumes="one switch reduces at full rate; a port carries V for each reader",
    source="multimem.ld_reduce, one shot: contrib/custom_algos/allreduce of NVIDIA/nccl",
    time=lambda fabric, p, nbytes: 2 * fabric.latency + (p + 1) * fabric.send(nbytes),
    volume=lambda p: p * p + p,
    steps=lambda p: 2,
    peak=lambda p: 2,
    redundant=lambda p: p,
    ports=("peer",),
    memory_ports=(),
)


SOURCE = "Zhao et al., ForestColl, arXiv 2402.06787, 2024; Edmonds, Edge-disjoint branchings, 1973"
PER_TURN = 4
"""Turns after which a rank waits until it has done its part."""


class TreeShape(NamedTuple):
    """What the formula knows of the packed_trees for a number of ranks."""

    depth: int
    """The depth of the trees, of all phases together."""
    slowness: float
    """Seconds for a byte of V through all trees: times β, if the links are those of the fabric."""
    of_fabric: bool = True


Shapes = Callable[[int], TreeShape]
"""From the number of ranks."""


def packed_trees(
    shape_of: Shapes, segments: int, volume: float, steps: Callable[[int], int]
) -> CostModel:
    """V through trees in `segments`, a turn for each. All ranks send `volume` times (p - 1)V."""

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        shape = shape_of(p)
        bandwidth = fabric.bandwidth if shape.of_fabric else 1.0
        turn = fabric.gap + shape.slowness * nbytes / bandwidth / segments
        return shape.depth * fabric.latency + (segments + shape.depth - 1) * turn

    return CostModel(
        latex=r"D\alpha + (m + D - 1)\left(g + \frac{V}{mB}\right)",
        assumes=f"trees of depth D and bandwidth B together; V in m = {segments} segments; "
        "links are never idle; γ = 0",
        source=SOURCE,
        time=time,
        volume=lambda p: volume * (p - 1),
        steps=steps,
        memory_ports=(),
        unclaimed="pipelined in segments",
    )


class Edge(NamedTuple):
    """A branch as the formula for steps sees it."""

    turn: int
    """The turn of its first segment."""
    source: int
    target: int
    before: Sequence[int]
    """The branches from which its sender gets the data."""


def longest_chain(edges: Sequence[Edge], ranks: int, segments: int) -> int:
    """The messages of the longest chain: each waits for those that bring its data, and for all
    that its rank sent and received :data:`PER_TURN` turns before."""
    chain = [[0] * segments for _ in edges]
    last = max((edge.turn for edge in edges), default=-1) + segments
    behind: list[list[int]] = []
    longest = 0
    for turn in range(last):
        waited = behind[turn - PER_TURN] if turn >= PER_TURN else [0] * ranks
        most = [0] * ranks
        for number, edge in enumerate(edges):
            segment = turn - edge.turn
            if 0 <= segment < segments:
                data = max((chain[other][segment] for other in edge.before), default=0)
                steps = 1 + max(data, waited[edge.source])
                chain[number][segment] = steps
                for rank in (edge.source, edge.target):
                    most[rank] = max(most[rank], steps)
                longest = max(longest, steps)
        behind.append(most)
    return longest
