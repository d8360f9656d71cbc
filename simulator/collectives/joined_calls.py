"""Collectives of several groups of ranks at once, in order on streams.

Tensor, data and pipeline parallelism run such groups side by side, over links that they share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from simulator.collectives.algorithm_options import check_values
from simulator.collectives.collective import Algorithm, Fitted
from simulator.schedules import semantics
from simulator.schedules.causes import absent
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import LANES, ScheduleBuilder
from simulator.schedules.semantics import WrongResult
from simulator.schedules.timeline import Timeline
from topologies.errors import InputError
from topologies.topology import Floats, Ints, Topology


@dataclass(frozen=True)
class Call:
    """A collective that a group of ranks calls."""

    algorithm: Algorithm
    ranks: tuple[int, ...]
    """The group: its first rank plays the part of rank 0, and so on."""
    nbytes: float
    """V of the collective."""
    stream: int = 0
    """The stream of each rank. A rank enters when it has left the calls before on that stream."""
    waits: tuple[int, ...] = ()
    """Numbers of earlier calls. A rank enters when it has left those of them in which it takes
    part."""


class Placed(NamedTuple):
    """A call within a joined schedule."""

    call: Call
    fitted: Fitted
    """What the algorithm does among the ranks of the group alone."""
    slot: int
    """The first slot of its buffer."""
    scratch: int
    """The first slot of its scratch."""
    numbers: Ints
    """The ranks of the group, then those of its switches, as the joined schedule counts them."""

    @property
    def schedule(self) -> Schedule:
        """The schedule of the group alone."""
        return self.fitted.schedule


class Joined(NamedTuple):
    """Several calls as one schedule."""

    schedule: Schedule
    topology: Topology
    """The machine, with the switches of all calls as further ranks."""
    calls: tuple[Placed, ...]
    entered: tuple[Ints, ...]
    """The operation with which each rank enters a call, by call."""
    left: tuple[Ints, ...]
    """The operation with which each rank leaves a call, by call."""

    def spans(self, timeline: Timeline) -> list[tuple[float, float]]:
        """When the first rank enters each call, and when the last one leaves it."""
        return [
            (float(timeline.start[entered].min()), float(timeline.finish[left].max()))
            for entered, left in zip(self.entered, self.left, strict=True)
        ]


def join(calls: Sequence[Call], topology: Topology, ranks: int) -> Joined:
    """All calls among the first `ranks` ranks of a machine as one schedule.

    Raises InputError for a group, a stream or a wait that makes no sense.

    >>> from simulator.collectives import find
    >>> from topologies.shapes import star
    >>> ring = find("ring")
    >>> groups = [Call(ring, (0, 1), 8.0), Call(ring, (2, 3), 8.0)]
    >>> joined = join(groups, star(4, bandwidth=1.0), 4)
    >>> prove(joined)
    >>> joined.schedule.sent().tolist()
    [8.0, 8.0, 8.0, 8.0]
    """
    for number, call in enumerate(calls):
        _check(call, number, ranks)
    fitted = fit_calls(calls, topology)
    switches = [each.schedule.ranks - each.schedule.workers for each in fitted]
    machine = replace(
        topology,
        placement=np.concatenate(
            [topology.placement[:ranks]]
            + [each.topology.placement[each.schedule.workers :] for each in fitted]
        ),
    )
    placed, shares = _laid_out(calls, fitted, ranks)
    total = sum(call.nbytes for call in calls)
    buffer = max(each.slot + each.schedule.buffer for each in placed)
    builder = ScheduleBuilder(
        ranks,
        total,
        slots=shares[:, :buffer],
        scratch=shares[:, buffer:],
        switches=sum(switches),
    )
    latest: dict[int, Ints] = {}
    entered, left = list[Ints](), list[Ints]()
    for number, each in enumerate(placed):
        name = f"call {number}: {each.call.algorithm.name}"
        first, last = add_call(builder, each, name, _before(each.call, latest, left, placed, ranks))
        entered.append(first)
        left.append(last)
        on_stream = latest.setdefault(each.call.stream, np.full(ranks, -1, dtype=np.int32))
        on_stream[list(each.call.ranks)] = last
    return Joined(builder.build(), machine, tuple(placed), tuple(entered), tuple(left))


def prove(joined: Joined, seed: int = 0) -> None:
    """Raise :class:`WrongResult` unless every call keeps its promise in the joined schedule."""
    schedule = joined.schedule
    before = semantics.inputs(schedule, seed)
    after = semantics.run(schedule, before)
    for number, placed in enumerate(joined.calls):
        collective, buffer = placed.call.algorithm.collective, placed.schedule.buffer
        where = np.ix_(np.array(placed.call.ranks), np.arange(placed.slot, placed.slot + buffer))
        promised, values = collective.postcondition(before[where], None)
        wrong = promised & (after[where] != values)
        if wrong.any() or (collective.causal and any(map(len, absent(placed.schedule)))):
            raise WrongResult(
                f"call {number}, {collective.name}: {wrong.sum()} of {promised.sum()} results are "
                f"wrong"
            )


def _check(call: Call, number: int, ranks: int) -> None:
    where = f"call {number}"
    group = call.ranks
    if len(group) < 2 or len({*group}) < len(group):
        raise InputError(f"{where}: ranks {[*group][:8]}: a group has 2 or more, each once")
    if min(group) < 0 or max(group) >= ranks:
        raise InputError(f"{where}: rank {max(group)}: {ranks} ranks run from 0 to {ranks - 1}")
    if not 0 <= call.stream <= LANES:
        raise InputError(f"{where}: stream {call.stream}: streams run from 0 to {LANES}")
    if not all(0 <= wait < number for wait in call.waits):
        raise InputError(f"{where}: it waits for {[*call.waits]}: earlier calls alone")
    check_values(call.algorithm)
    if call.algorithm.servers:
        raise InputError(f"{where}: {call.algorithm.name} needs servers, which a group has not")


def fit_calls(calls: Sequence[Call], topology: Topology) -> list[Fitted]:
    """What each algorithm does among its group. Calls of one size among one group are the same
    object, and those that are alike share a schedule."""
    known: dict[tuple[Algorithm, tuple[int, ...], float], Fitted] = {}
    alike: dict[tuple[Algorithm, int, float], Fitted] = {}
    for call in calls:
        size = len(call.ranks)
        key, twin = (call.algorithm, call.ranks, call.nbytes), (call.algorithm, size, call.nbytes)
        if key not in known:
            machine = replace(topology, placement=topology.placement[list(call.ranks)])
            if call.algorithm.fit is not None or twin not in alike:
                alike[twin] = call.algorithm.on(machine, size, call.nbytes)
            known[key] = alike[twin]
            if call.algorithm.fit is None:
                known[key] = alike[twin]._replace(topology=machine)
    return [known[call.algorithm, call.ranks, call.nbytes] for call in calls]


def _laid_out(
    calls: Sequence[Call], fitted: Sequence[Fitted], ranks: int
) -> tuple[list[Placed], Floats]:
    """Where the slots of each call are, and the shares of all slots: groups without a common rank
    may have the same slots."""
    everyone = ranks + sum(each.schedule.ranks - each.schedule.workers for each in fitted)
    heights = np.zeros((2, everyone), dtype=np.int64)
    placed, further = list[Placed](), ranks
    for call, each in zip(calls, fitted, strict=True):
        more = each.schedule.ranks - each.schedule.workers
        numbers = np.append(call.ranks, np.arange(further, further + more)).astype(np.int32)
        further += more
        slot, scratch = heights[:, numbers].max(axis=1).tolist()
        placed.append(Placed(call, each, slot, scratch, numbers))
        heights[0, numbers] = slot + each.schedule.buffer
        heights[1, numbers] = scratch + each.schedule.slots - each.schedule.buffer
    buffer, scratch = heights.max(axis=1).tolist()
    placed = [each._replace(scratch=buffer + each.scratch) for each in placed]
    shares = np.zeros((everyone, buffer + scratch))
    total = sum(call.nbytes for call in calls)
    for where in placed:
        child = where.schedule
        part = np.broadcast_to(
            child.shares * child.nbytes_total / total, (child.ranks, child.slots)
        )
        rows = where.numbers[:, None]
        shares[rows, where.slot + np.arange(child.buffer)] = part[:, : child.buffer]
        behind = where.scratch + np.arange(child.slots - child.buffer)
        shares[rows, behind] = part[:, child.buffer :]
    return placed, shares


def _before(
    call: Call, latest: dict[int, Ints], left: list[Ints], placed: Sequence[Placed], ranks: int
) -> Ints:
    """What each rank of a call waits for before it enters, a row each; -1 is nothing."""
    group = list(call.ranks)
    columns = [latest[call.stream][group]] if call.stream in latest else []
    for wait in call.waits:
        leaves = np.full(ranks, -1, dtype=np.int32)
        leaves[list(placed[wait].call.ranks)] = left[wait]
        columns.append(leaves[group])
    return np.array(columns, dtype=np.int32).reshape(len(columns), len(group)).T


def add_call(
    builder: ScheduleBuilder, placed: Placed, name: str, before: Ints
) -> tuple[Ints, Ints]:
    """Add a call as a phase: every rank enters, communicates and leaves.

    `before` has a row for each rank of what it waits for. Returns the operations with which the
    ranks enter and leave.
    """
    call, child = placed.call, placed.schedule
    span = {"count": child.buffer, "lane": call.stream}
    group = np.array(call.ranks)
    builder.phase(name)
    first = builder.compute(group, 0.0, writes=placed.slot, after=before, **span)
    by_itself = (child.source < 0) & (child.target < 0) & (child.rank < child.workers)
    waits = np.where(by_itself, first[np.minimum(child.rank, len(first) - 1)], -1)
    added = builder.inline(
        child,
        ranks=placed.numbers,
        slot=placed.slot,
        scratch=placed.scratch,
        phase=name,
        after=waits[:, None],
    )
    last = builder.compute(
        group, 0.0, reads=placed.slot, writes=placed.slot, after=_arrivals(child, added), **span
    )
    return first, last


def _arrivals(child: Schedule, added: Ints) -> Ints:
    """The messages without slots that arrive at each rank, a row each; -1 is none."""
    arriving = [
        added[(child.source < 0) & child.remote & (child.peer == rank)]
        for rank in range(child.workers)
    ]
    rows = np.full((child.workers, max(map(len, arriving))), -1, dtype=np.int32)
    for rank, operations in enumerate(arriving):
        rows[rank, : len(operations)] = operations
    return rows
