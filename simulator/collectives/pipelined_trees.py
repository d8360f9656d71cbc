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
from topologies.packing import Forest
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
    order = np.argsort(rank, kind="stable")
    count = np.bincount(rank, minlength=builder.ranks)
    place = np.arange(len(rank)) - np.repeat(np.cumsum(count) - count, count)
    table = np.full((builder.ranks, int(count.max())), -1, dtype=np.int64)
    table[rank[order], place] = operation[order]
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
