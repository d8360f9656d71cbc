"""Spanning trees packed into the machine, in segments that follow one another: the best bandwidth
that routing reaches. Switches only forward, also those that can reduce or multicast.

After Zhao et al., ForestColl, arXiv 2402.06787: see :mod:`topologies.packing`.
"""

from __future__ import annotations

from functools import cache, lru_cache, partial
from typing import NamedTuple

from simulator.collectives.collective import (
    ALL_GATHER,
    ALL_REDUCE,
    BROADCAST,
    REDUCE_SCATTER,
    Algorithm,
    Collective,
    Fitted,
)
from simulator.collectives.pipelined_trees import Wave, pinned, pipeline
from simulator.collectives.tree_chains import steps
from simulator.cost_models import CostModel, optimal_formulas
from simulator.cost_models.optimal_formulas import TreeShape
from simulator.schedules.schedule import Schedule
from topologies.packing import TREES, Branch, Forest, pack, pack_pair
from topologies.topology import Topology

SEGMENTS = 64
"""Segments of V, one for each turn."""
FEW = 2
"""Segments, at most, of a schedule that is made for no machine, in which ranks pass on little."""
SHOWN = 3
"""Digits of bandwidths in words."""


class TreePlan(NamedTuple):
    """The waves of a collective."""

    waves: tuple[Wave, ...]
    bandwidth: float
    """Bytes/s of V."""
    limit: float
    """The same without a cap on the number of trees."""

    @property
    def depth(self) -> int:
        return sum(wave.forest.depth for wave in self.waves)


def _gathering(forest: Forest) -> Wave:
    return Wave("all-gather", forest, reduces=False)


def _scattering(forest: Forest) -> Wave:
    return Wave("reduce-scatter", forest, reduces=True)


@lru_cache(maxsize=32)
def plan(collective: str, topology: Topology, ranks: int, most: int = TREES) -> TreePlan:
    """The trees for a machine, at most so many from a rank. The latest answers are remembered."""
    if collective == "all_reduce":
        into, out, bandwidth = pack_pair(topology, ranks, most)
        waves = _scattering(into), _gathering(out)
        together = bandwidth / (1 - max(into.loss, out.loss))
        return TreePlan(waves, bandwidth, together)
    if collective == "reduce_scatter":
        forest = pack(topology, ranks, towards=True, most=most)
        return TreePlan((_scattering(forest),), forest.bandwidth, forest.limit)
    if collective == "broadcast":
        forest = pack(topology, ranks, root=0, most=most)
        return TreePlan((Wave("broadcast", forest, False),), forest.bandwidth, forest.limit)
    forest = pack(topology, ranks, most=most)
    return TreePlan((_gathering(forest),), forest.bandwidth, forest.limit)


@cache
def plain_plan(collective: str, ranks: int) -> TreePlan:
    """The trees for no machine: every rank sends to every other itself; the root of a broadcast
    sends each other rank a share, which that rank sends on."""
    if collective == "all_reduce":
        return TreePlan((_scattering(_direct(ranks, True)), _gathering(_direct(ranks))), 1.0, 1.0)
    if collective == "reduce_scatter":
        return TreePlan((_scattering(_direct(ranks, True)),), 1.0, 1.0)
    if collective == "broadcast":
        return TreePlan((Wave("broadcast", _from_root(ranks), False),), 1.0, 1.0)
    return TreePlan((_gathering(_direct(ranks)),), 1.0, 1.0)


def _direct(ranks: int, towards: bool = False) -> Forest:
    pairs = [(rank, (rank + turn) % ranks) for turn in range(1, ranks) for rank in range(ranks)]
    branches = tuple(
        Branch(target if towards else source, 0, 1, source, target, (), 1)
        for source, target in pairs
    )
    return Forest(branches, (1,) * ranks, 1.0, 1.0)


def _from_root(ranks: int) -> Forest:
    leaves = range(1, ranks)
    first = [Branch(0, rank - 1, 1, 0, rank, (), 1) for rank in leaves]
    onward = [
        Branch(0, rank - 1, 1, rank, 1 + (rank - 1 + turn) % (ranks - 1), (), 2)
        for turn in range(1, ranks - 1)
        for rank in leaves
    ]
    return Forest(tuple(first + onward), (max(1, ranks - 1), *(0 for _ in leaves)), 1.0, 1.0)


def _schedule(
    collective: str, ranks: int, nbytes: float, *, segments: int = SEGMENTS, trees: int = TREES
) -> Schedule:
    """The plan for no machine has as many trees as it needs, whatever `trees` says."""
    return pipeline(ranks, nbytes, plain_plan(collective, ranks).waves, min(segments, FEW))


def _fit(
    collective: str,
    topology: Topology,
    ranks: int,
    nbytes: float,
    *,
    segments: int = SEGMENTS,
    trees: int = TREES,
) -> Fitted:
    made = plan(collective, topology, ranks, trees)
    schedule = pipeline(ranks, nbytes, made.waves, segments)
    shape = TreeShape(made.depth, 1 / made.bandwidth, of_fabric=False)
    cost = optimal_formulas.trees(
        lambda p: shape,
        segments,
        float(len(made.waves)),
        lambda p: steps(made.waves, p, segments),
    )
    words = _words(made, segments)
    if topology.in_network.any():
        words += ("switches that reduce or multicast only forward: nvls and sharp use them",)
    return Fitted(schedule, pinned(topology, made.waves), cost, words)


def _words(made: TreePlan, segments: int) -> tuple[str, ...]:
    lines = []
    for wave in made.waves:
        roots = sum(count > 0 for count in wave.forest.trees)
        lines.append(
            f"{wave.phase}: {sum(wave.forest.trees)} trees from {roots} "
            f"{'root' if roots == 1 else 'roots'}, up to {wave.forest.depth} deep"
        )
    loss = max(wave.forest.loss for wave in made.waves)
    lines.append(
        f"{segments} segments; {made.bandwidth / 1e9:.{SHOWN}g} GB/s of V together, "
        f"{loss:.2%} below the tightest cut"
    )
    return tuple(lines)


def _formula(collective: str, segments: int, trees: int) -> CostModel:
    few = min(segments, FEW)

    def shape(p: int) -> TreeShape:
        depth = plain_plan(collective, p).depth
        shares = {"broadcast": 1.0, "all_reduce": 2 * (p - 1) / p}
        return TreeShape(depth, shares.get(collective, (p - 1) / p))

    return optimal_formulas.trees(
        shape,
        few,
        2.0 if collective == "all_reduce" else 1.0,
        lambda p: steps(plain_plan(collective, p).waves, p, few),
    )


def _operations(collective: str, ranks: int) -> float:
    """About so many on a machine, if each rank has a tree: each segment reaches all other ranks,
    and ranks have an operation for every turn."""
    waves = 2.0 if collective == "all_reduce" else 1.0
    return waves * SEGMENTS * ranks * (ranks - 1)


def _algorithm(name: str, collective: Collective, summary: str) -> Algorithm:
    return Algorithm(
        name,
        collective,
        partial(_schedule, collective.name),
        partial(_formula, collective.name),
        summary,
        fit=partial(_fit, collective.name),
        operations=partial(_operations, collective.name),
    )


ALGORITHMS = (
    _algorithm("optimal", ALL_REDUCE, "trees packed into the machine add up, then spread"),
    _algorithm("optimal_reduce_scatter", REDUCE_SCATTER, "trees packed into the machine add up"),
    _algorithm("optimal_all_gather", ALL_GATHER, "trees packed into the machine, from every rank"),
    _algorithm("optimal_broadcast", BROADCAST, "trees packed into the machine, from rank 0"),
)
