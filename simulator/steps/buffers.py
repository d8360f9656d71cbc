"""The buffers of the collectives of a graph: slots of a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from simulator.collectives.collective import Algorithm, Fitted
from simulator.schedules.schedule import Schedule
from simulator.steps.group_meetings import Meeting
from simulator.steps.step_graph import StepGraph
from topologies.columns import entries, starts
from topologies.errors import InputError
from topologies.topology import Floats, Ints, Numbers, Topology

_Name = tuple[int, str, int, bytes]
"""Calls with the same name share a buffer: of a group of ranks in the same order, on a lane."""


class Placed(NamedTuple):
    """A collective within a schedule, with the first slots of its buffer and of its scratch."""

    meeting: Meeting
    fitted: Fitted
    """What the algorithm does among the ranks of the group alone."""
    slot: int
    scratch: int
    numbers: Ints
    """The ranks of the group, then those of its switches, as the schedule counts them."""


def _fitted(graph: StepGraph, met: Sequence[Meeting], topology: Topology) -> list[Fitted]:
    """What each algorithm does among its group. Calls of one size among one group are the same
    object. Groups of a kind have the schedule of the first one, if they lie on nodes as it does."""
    known: dict[tuple[Algorithm, bytes, float], Fitted] = {}
    alike: dict[tuple[Algorithm, int | tuple[str, bytes], float], Fitted] = {}
    fitted = []
    for call, ranks, _ in met:
        algorithm = call.algorithm
        if algorithm is None:
            raise InputError(f"{call.collective} of group {call.group[:40]!r} has no algorithm")
        key = algorithm, ranks.tobytes(), call.nbytes
        if key not in known:
            machine = replace(topology, placement=topology.placement[ranks])
            twin = algorithm, _likeness(algorithm, call.group, machine), call.nbytes
            if twin in alike:
                first = alike[twin]
                if first.schedule.switches:
                    machine = algorithm.on(machine, len(ranks), call.nbytes).topology
                known[key] = first._replace(topology=machine)
            else:
                known[key] = algorithm.on(machine, len(ranks), call.nbytes)
                if algorithm.fit is None or len(graph.groups[call.group]) > 1:
                    alike[twin] = known[key]
        fitted.append(known[key])
    return fitted


def _likeness(algorithm: Algorithm, group: str, machine: Topology) -> int | tuple[str, bytes]:
    """What groups with the same schedule have in common: their size, and if it is made for the
    machine also their kind and which of their ranks share a node."""
    if algorithm.fit is None and not algorithm.by_place:
        return len(machine.placement)
    _, first, node = np.unique(
        machine.node[machine.placement], return_index=True, return_inverse=True
    )
    return group, first[node].tobytes()


def place_buffers(
    graph: StepGraph, met: Sequence[Meeting], topology: Topology, distinct: bool
) -> tuple[list[Placed], Topology, tuple[int, int]]:
    """Where the slots of each collective are, the machine with the switches of all calls, and the
    slots of buffers and of scratch, which come behind them. Switches that are the same on the
    machine are the same ranks. Groups without a common rank may have the same slots."""
    met = [each for each in met if not each.call.is_message]
    fitted, numbers = _fitted(graph, met, topology), dict[int, Ints]()
    placement, further = [topology.placement[: graph.ranks]], graph.ranks
    buffers = [
        (
            number * distinct,
            meeting.call.group,
            int(graph.lane[meeting.tasks[0]]),
            meeting.ranks.tobytes(),
        )
        for number, meeting in enumerate(met)
    ]
    sizes, members = dict[_Name, Numbers](), dict[_Name, list[Ints]]()
    for name, meeting, each in zip(buffers, met, fitted, strict=True):
        if id(each) not in numbers:
            switches = each.topology.placement[each.schedule.workers :]
            ranks = np.append(meeting.ranks, further + np.arange(len(switches)))
            numbers[id(each)] = ranks.astype(np.int32)
            placement.append(switches)
            further += len(switches)
        slots = each.schedule.buffer, each.schedule.slots - each.schedule.buffer
        sizes[name] = np.maximum(sizes.get(name, slots), slots)
        members.setdefault(name, []).append(numbers[id(each)])
    heights, begin = np.zeros((2, further), dtype=np.int64), dict[_Name, tuple[int, int]]()
    for name, size in sizes.items():
        everyone = np.concatenate(members[name])
        slot, scratch = heights[:, everyone].max(axis=1).tolist()
        begin[name] = slot, scratch
        heights[:, everyone] = np.add(begin[name], size)[:, None]
    slots, behind = np.maximum(heights.max(axis=1), (1, 0)).tolist()
    placed = [
        Placed(meeting, each, begin[name][0], slots + begin[name][1], numbers[id(each)])
        for name, meeting, each in zip(buffers, met, fitted, strict=True)
    ]
    return placed, replace(topology, placement=np.concatenate(placement)), (slots, behind)


def slot_sizes(placed: Sequence[Placed], ranks: int, slots: int) -> Floats:
    """The bytes of each slot of each rank: of the largest call there."""
    sizes = np.zeros((ranks, slots))
    for each in {(id(each.fitted), each.slot, each.scratch): each for each in placed}.values():
        child = each.fitted.schedule
        column = np.arange(child.slots)
        column += np.where(column < child.buffer, each.slot, each.scratch - child.buffer)
        where = np.ix_(each.numbers, column)
        sizes[where] = np.maximum(sizes[where], child.shares * child.nbytes_total)
    return sizes


REPEATED = ("kind", "source", "target", "count", "reduces", "nbytes", "seconds", "lane", "phase")
"""Columns that copies of a schedule have in common."""


def side_by_side(child: Schedule, count: int) -> Schedule:
    """So many copies of a schedule at once. Copies of an operation follow one another, so that
    equal times are served evenly."""
    if count == 1:
        return child
    copy = np.arange(count, dtype=np.int32)

    def numbers(rank: Ints) -> Ints:
        further = rank - child.workers
        switches = child.ranks - child.workers
        worker = rank[:, None] + copy * child.workers
        switch = further[:, None] + copy * switches + child.workers * count
        return np.where(further[:, None] < 0, worker, switch).ravel().astype(np.int32)

    row, entry = entries(child.indptr, np.repeat(np.arange(len(child)), count))
    same: dict[str, Any] = {name: np.repeat(getattr(child, name), count) for name in REPEATED}
    shares = child.shares
    if shares.ndim > 1:
        shares = np.repeat(shares, count, axis=0)
        order = np.argsort(numbers(np.arange(child.ranks, dtype=np.int32)))
        shares = shares[order]
    return replace(
        child,
        ranks=child.ranks * count,
        workers=child.workers * count,
        switches=child.switches * count,
        shares=shares,
        rank=numbers(child.rank),
        peer=numbers(child.peer),
        indptr=starts(np.repeat(np.diff(child.indptr), count)),
        indices=(child.indices[entry] * count + row % count).astype(np.int32),
        **same,
    )
