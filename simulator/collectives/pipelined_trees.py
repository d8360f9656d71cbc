"""Schedules of trees whose data follow one another in segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import lcm
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.packing import Branch, Forest
from topologies.topology import Ints, Topology

Longs = npt.NDArray[np.int64]
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
    others. The trees of a root have equal shares of V.
    """
    parts = _Parts([wave.forest.trees for wave in waves], segments)
    builder = ScheduleBuilder(ranks, nbytes, slots=parts.slots)
    courses, delay = [], 0
    for wave in waves:
        courses.append(_Course(wave, parts, delay, channels(waves)))
        delay += wave.forest.depth
    turns: list[_Turn] = []
    for number in range(segments + delay - 1 if delay else 0):
        ready = None if number < AHEAD else turns[number - AHEAD].awaited(builder)
        turn = _Turn([], [])
        for course in courses:
            course.write(builder, number - course.turn, ready, turn)
        turns.append(turn)
    return builder.build()


class _Turn(NamedTuple):
    """The operations of a turn, and the ranks that take part in them: a list for each call."""

    rank: list[Longs]
    operation: list[Ints]

    def awaited(self, builder: ScheduleBuilder) -> Ints:
        """An operation of each rank that ends when the rank has done its part of the turn."""
        rank, operation = np.concatenate(self.rank), np.concatenate(self.operation)
        order = np.argsort(rank, kind="stable")
        count = np.bincount(rank, minlength=builder.ranks)
        place = np.arange(len(rank)) - np.repeat(np.cumsum(count) - count, count)
        table = np.full((builder.ranks, int(count.max())), -1, dtype=np.int64)
        table[rank[order], place] = operation[order]
        every = np.arange(builder.ranks)
        builder.phase("turns")
        return builder.signal(every, every, after=table)


class _Parts:
    """The slots of each root: a segment after the other, and in a segment the parts of V that the
    same trees of all waves carry."""

    def __init__(self, trees: Sequence[tuple[int, ...]], segments: int) -> None:
        self.segments, ranks = segments, len(trees[0])
        total = sum(trees[0])
        self.places: list[list[int]] = []
        shares: list[float] = []
        for rank in range(ranks):
            counts = {each[rank] for each in trees}
            ticks = lcm(*counts)
            ends = {tree * (ticks // count) for count in counts if count for tree in range(count)}
            self.places.append([*sorted(ends), ticks])
            sizes = np.diff(self.places[-1]) / max(1, ticks) * (trees[0][rank] / total / segments)
            shares += sizes.tolist() * segments
        self.counts = np.array([len(places) - 1 for places in self.places])
        self.begin = (np.cumsum(self.counts) - self.counts) * segments
        equal = all(each == trees[0] for each in trees)
        self.slots: int | list[float] = total * segments if equal else shares

    def of(self, branch: Branch, trees: int) -> tuple[int, int]:
        """The first slot of a branch in segment 0, and the number of slots."""
        places = self.places[branch.root]
        tick = places[-1] // trees
        first, end = (
            places.index(tick * tree) for tree in (branch.first, branch.first + branch.trees)
        )
        return int(self.begin[branch.root]) + first, end - first


class _Course:
    """A wave as columns, a row for each branch: those to the next rank first, so that not all ranks
    begin with the same receiver."""

    def __init__(self, wave: Wave, parts: _Parts, delay: int, channel: dict[Way, int]) -> None:
        ranks = len(wave.forest.trees)
        branches = sorted(
            wave.forest.branches,
            key=lambda branch: (branch.depth, (branch.target - branch.source) % ranks),
        )
        self.wave = wave
        self.segments = parts.segments
        self.source, self.target, depth = (
            np.array(
                [(branch.source, branch.target, branch.depth) for branch in branches],
                dtype=np.int64,
            )
            .reshape(-1, 3)
            .T
        )
        self.channel = np.array(
            [channel[branch.source, branch.target, branch.links] for branch in branches],
            dtype=np.int64,
        )
        self.turn = delay + (wave.forest.depth - depth if wave.reduces else depth - 1)
        self.slot, self.count = (
            np.array(
                [parts.of(branch, wave.forest.trees[branch.root]) for branch in branches],
                dtype=np.int64,
            )
            .reshape(-1, 2)
            .T
        )
        self.stride = np.array([parts.counts[branch.root] for branch in branches], dtype=np.int64)

    def write(
        self, builder: ScheduleBuilder, segment: Longs, ready: Ints | None, turn: _Turn
    ) -> None:
        """The operations of a turn, in which each branch carries a segment if there is such a
        one."""
        rows = np.flatnonzero((segment >= 0) & (segment < self.segments))
        if not len(rows):
            return
        builder.phase(self.wave.phase)
        source, target = self.source[rows], self.target[rows]
        operation = (builder.reduce if self.wave.reduces else builder.copy)(
            source,
            target,
            slot=self.slot[rows] + segment[rows] * self.stride[rows],
            count=self.count[rows],
            channel=self.channel[rows],
            after=() if ready is None else ready[source][:, None],
        )
        turn.rank.extend((source, target))
        turn.operation.extend((operation, operation))


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
