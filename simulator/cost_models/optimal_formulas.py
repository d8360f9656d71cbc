"""Formulas of trees that are packed into a machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from simulator.cost_models.cost_model import CostModel
from simulator.cost_models.fabric import Fabric

SOURCE = "Zhao et al., ForestColl, arXiv 2402.06787, 2024; Edmonds, Edge-disjoint branchings, 1973"
PER_TURN = 4
"""Turns after which a rank waits until it has done its part."""


class TreeShape(NamedTuple):
    """What the formula knows of the trees for a number of ranks."""

    depth: int
    """The depth of the trees, of all phases together."""
    slowness: float
    """Seconds for a byte of V through all trees: times β, if the links are those of the fabric."""
    of_fabric: bool = True


Shapes = Callable[[int], TreeShape]
"""From the number of ranks."""


def trees(shape_of: Shapes, segments: int, volume: float, steps: Callable[[int], int]) -> CostModel:
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
