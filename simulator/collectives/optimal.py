"""Spanning trees packed into the machine, in segments that follow one another: the best bandwidth
that routing reaches. Switches only forward, also those that can reduce or multicast.

After Zhao et al., ForestColl, arXiv 2402.06787: see :mod:`topologies.packing`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from math import lcm
from typing import NamedTuple

import numpy as np

from simulator.collectives.collective import (
    ALL_GATHER,
    ALL_REDUCE,
    BROADCAST,
    REDUCE_SCATTER,
    Collective,
    Fitted,
    declare,
)
from simulator.cost_models import CostModel, machine_formulas
from simulator.cost_models.machine_formulas import Edge, TreeShape, longest_chain
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.columns import places_in_groups
from topologies.packing import TREES, Branch, Forest, pack, pack_pair
from topologies.topology import Ints, Longs, Topology

AHEAD = 4
"""A rank begins a turn when it has sent and received everything of the turn so many before."""


Way = tuple[int, int, tuple[int, ...]]
"""The rank that sends, the rank that receives, and the links."""


class Wave(NamedTuple):
    """Data on their way through trees: from the roots, or, if they are added up, to the roots."""

    phase: str
    forest: Forest
    reduces: bool


def pipeline(ranks: int, nbytes: float, waves: Sequence[Wave], segments: int) -> Schedule:
    """In each turn every segment goes a branch further, and another segment begins. A later wave
    begins with a segment when that has reached the roots of the wave before.

    Without turns a rank would send all of its data first, and keep waiting what it passes on for
    others. The trees of a root have equal shares of V. Its slots are a segment after the other, and
    in a segment the parts of V that the same trees of all waves carry.
    """
    trees = [wave.forest.trees for wave in waves]
    cuts = [_cuts({each[rank] for each in trees}) for rank in range(ranks)]
    slots: int | list[float] = sum(trees[0]) * segments
    if any(each != trees[0] for each in trees):
        slots = []
        for ends, count in zip(cuts, trees[0], strict=True):
            share = count / sum(trees[0]) / segments
            slots += (np.diff(ends) / max(1, ends[-1]) * share).tolist() * segments
    builder = ScheduleBuilder(ranks, nbytes, slots=slots)
    channel, delay, courses = channels(waves), 0, list[Longs]()
    for wave in waves:
        courses.append(_course(wave, cuts, segments, delay, channel))
        delay += wave.forest.depth
    taking_part: list[tuple[list[Longs], list[Ints]]] = []
    for number in range(segments + delay - 1 if delay else 0):
        ended = None if number < AHEAD else _ended(builder, *taking_part[number - AHEAD])
        busy, done = list[Longs](), list[Ints]()
        for wave, course in zip(waves, courses, strict=True):
            segment = number - course[0]
            now = np.flatnonzero((segment >= 0) & (segment < segments))
            if not len(now):
                continue
            _, source, target, lane, slot, count, stride = course[:, now]
            builder.phase(wave.phase)
            sent = (builder.reduce if wave.reduces else builder.copy)(
                source,
                target,
                slot=slot + segment[now] * stride,
                count=count,
                channel=lane,
                after=() if ended is None else ended[source][:, None],
            )
            busy += [source, target]
            done += [sent, sent]
        taking_part.append((busy, done))
    return builder.build()


def _cuts(counts: set[int]) -> list[int]:
    """Where the data of a root are cut that has so many trees in a wave, in ticks; the last cut is
    the end."""
    ticks = lcm(*counts)
    ends = {tree * (ticks // count) for count in counts if count for tree in range(count)}
    return [*sorted(ends), ticks]


def _course(
    wave: Wave, cuts: list[list[int]], segments: int, delay: int, channel: dict[Way, int]
) -> Longs:
    """A column for each branch: its first turn, sender, receiver and channel, its first slot, its
    slots, and those from one segment to the next. Branches to the next rank come first, so that not
    all ranks begin with the same receiver."""
    ranks, rows = len(cuts), list[tuple[int, ...]]()
    counts = np.array([len(ends) - 1 for ends in cuts])
    begin = (np.cumsum(counts) - counts) * segments
    branches = sorted(
        wave.forest.branches,
        key=lambda branch: (branch.depth, (branch.target - branch.source) % ranks),
    )
    for branch in branches:
        root, ends = branch.root, (branch.source, branch.target)
        depth = wave.forest.depth - branch.depth if wave.reduces else branch.depth - 1
        tick = cuts[root][-1] // wave.forest.trees[root]
        first = cuts[root].index(tick * branch.first)
        count = cuts[root].index(tick * (branch.first + branch.trees)) - first
        slot = int(begin[root]) + first
        rows.append(
            (delay + depth, *ends, channel[*ends, branch.links], slot, count, int(counts[root]))
        )
    return np.array(rows, dtype=np.int64).reshape(-1, 7).T


def _ended(builder: ScheduleBuilder, ranks: list[Longs], operations: list[Ints]) -> Ints:
    """An operation of each rank that ends when the rank has done its part of a turn."""
    rank, operation = np.concatenate(ranks), np.concatenate(operations)
    place = places_in_groups(rank)
    table = np.full((builder.ranks, int(place.max(initial=-1)) + 1), -1, dtype=np.int64)
    table[rank, place] = operation
    every = np.arange(builder.ranks)
    builder.phase("turns")
    return builder.signal(every, every, after=table)


def channels(waves: Sequence[Wave]) -> dict[Way, int]:
    """The channel of each way: a number among those between the same ranks, in all waves."""
    ways: dict[tuple[int, int], set[tuple[int, ...]]] = {}
    for wave in waves:
        for branch in wave.forest.branches:
            ways.setdefault((branch.source, branch.target), set()).add(branch.links)
    return {
        (*ends, links): number
        for ends, several in ways.items()
        for number, links in enumerate(sorted(several))
    }


def pinned(topology: Topology, waves: Sequence[Wave]) -> Topology:
    """The machine on which the messages of branches take their links."""
    routes = {}
    for (source, target, links), channel in channels(waves).items():
        ends = topology.placement[[source, target]].tolist()
        if links:
            routes[ends[0], ends[1], channel] = links
    return replace(topology, pinned=routes)


def steps(waves: Sequence[Wave], ranks: int, segments: int) -> int:
    """The messages of the longest chain of :func:`simulator.collectives.optimal.pipeline`.

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


SEGMENTS = 64
"""Segments of V, one for each turn."""
PLAIN_SEGMENTS = 2
"""Segments, at most, of a schedule that is made for no machine, in which ranks pass on little."""


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


def _waves(collective: str, *forests: Forest) -> tuple[Wave, ...]:
    """An all-reduce is a reduce-scatter, and then an all-gather."""
    several = ("reduce_scatter", "all_gather") if collective == "all_reduce" else (collective,)
    return tuple(
        Wave(name.replace("_", "-"), forest, reduces=name == "reduce_scatter")
        for name, forest in zip(several, forests, strict=True)
    )


@lru_cache(maxsize=32)
def plan(collective: str, topology: Topology, ranks: int, most: int = TREES) -> TreePlan:
    """The trees for a machine, at most so many from a rank. The latest answers are remembered."""
    if collective == "all_reduce":
        into, out, bandwidth = pack_pair(topology, ranks, most)
        together = bandwidth / (1 - max(into.loss, out.loss))
        return TreePlan(_waves(collective, into, out), bandwidth, together)
    root = 0 if collective == "broadcast" else None
    forest = pack(topology, ranks, root=root, towards=collective == "reduce_scatter", most=most)
    return TreePlan(_waves(collective, forest), forest.bandwidth, forest.limit)


@cache
def plain_plan(collective: str, ranks: int) -> TreePlan:
    """The trees for no machine: every rank sends to every other itself; the root of a broadcast
    sends each other rank a share, which that rank sends on."""
    into, out = _direct(ranks, True), _direct(ranks)
    forests = {
        "all_reduce": (into, out),
        "reduce_scatter": (into,),
        "broadcast": (_from_root(ranks),),
        "all_gather": (out,),
    }
    return TreePlan(_waves(collective, *forests[collective]), 1.0, 1.0)


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
    return pipeline(
        ranks, nbytes, plain_plan(collective, ranks).waves, min(segments, PLAIN_SEGMENTS)
    )


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
    cost = machine_formulas.packed_trees(
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
        f"{segments} segments; {made.bandwidth / 1e9:.3g} GB/s of V together, "
        f"{loss:.2%} below the tightest cut"
    )
    return tuple(lines)


def _formula(collective: str, segments: int, trees: int) -> CostModel:
    few = min(segments, PLAIN_SEGMENTS)

    def shape(p: int) -> TreeShape:
        depth = plain_plan(collective, p).depth
        shares = {"broadcast": 1.0, "all_reduce": 2 * (p - 1) / p}
        return TreeShape(depth, shares.get(collective, (p - 1) / p))

    return machine_formulas.packed_trees(
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


def _declare(name: str, collective: Collective, summary: str) -> None:
    declare(
        name,
        collective,
        partial(_formula, collective.name),
        summary,
        fit=partial(_fit, collective.name),
        operations=partial(_operations, collective.name),
    )(partial(_schedule, collective.name))


_declare("optimal", ALL_REDUCE, "Trees packed into the machine add up, then spread")
_declare("optimal_reduce_scatter", REDUCE_SCATTER, "Trees packed into the machine add up")
_declare("optimal_all_gather", ALL_GATHER, "Trees packed into the machine, from every rank")
_declare("optimal_broadcast", BROADCAST, "Trees packed into the machine, from rank 0")
