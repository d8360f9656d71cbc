"""The longest chain of messages of pipelined trees, for their formula."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.collectives.pipelined_trees import Wave
from simulator.cost_models.optimal_formulas import Edge, longest_chain
from topologies.packing import Branch


def steps(waves: Sequence[Wave], ranks: int, segments: int) -> int:
    """The messages of the longest chain of :func:`simulator.collectives.pipelined_trees.pipeline`.

    A branch waits for those of its wave that bring its sender the data, or, at a root, for those
    of the wave before.
    """
    edges: list[Edge] = []
    leading: dict[tuple[int, int], list[tuple[int, float, float]]] = {}
    delay = 0
    for wave in waves:
        forest, before = wave.forest, leading
        leading = {}
        for number, branch in enumerate(forest.branches, len(edges)):
            span = _span(branch, forest.trees[branch.root])
            leading.setdefault((branch.root, branch.target), []).append((number, *span))
        for branch in forest.branches:
            first, end = _span(branch, forest.trees[branch.root])
            ends = branch.root, branch.source
            bringing = leading.get(ends) or before.get(ends, [])
            turn = forest.depth - branch.depth if wave.reduces else branch.depth - 1
            meeting = [other for other, begin, stop in bringing if begin < end and first < stop]
            edges.append(Edge(delay + turn, branch.source, branch.target, meeting))
        delay += forest.depth
    return longest_chain(edges, ranks, segments)


def _span(branch: Branch, trees: int) -> tuple[float, float]:
    """The part of the root's data that a branch carries, slightly smaller, so that neighbours do
    not meet."""
    return (branch.first + 0.25) / trees, (branch.first + branch.trees - 0.25) / trees
