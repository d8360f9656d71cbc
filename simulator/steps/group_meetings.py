"""The calls of a graph: which tasks of which places enter together, and in which order tasks are
written."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from simulator.steps.step_graph import Call, StepGraph
from topologies.columns import distinct_rows, places_in_groups, plain_rows
from topologies.errors import InputError
from topologies.topology import Ints, Longs, Numbers


class Meeting(NamedTuple):
    """A call of the ranks of a group."""

    call: Call
    ranks: Ints
    """The ranks of the group, the root first."""
    tasks: Ints
    """The task of each rank."""


def meetings(graph: StepGraph) -> list[Meeting]:
    """The calls of all groups, in the order of their first tasks, if each place is a rank.

    Raises InputError if the ranks of a group differ in their calls.
    """
    talking = np.flatnonzero(graph.call >= 0)
    if not len(talking):
        return []
    unit = joint_calls(graph, messages=True)[talking]
    order = np.lexsort((_Seats(graph, talking).seat, unit))
    met = []
    for rows in np.split(order, np.flatnonzero(np.diff(unit[order])) + 1):
        tasks = talking[rows].astype(np.int32)
        call = graph.calls[graph.call[tasks[0]]]
        turned = tasks[np.argsort(np.arange(len(tasks)) != call.root, kind="stable")]
        met.append(Meeting(call, graph.place[turned], turned))
    return met


def joint_calls(graph: StepGraph, *, messages: bool = False) -> Ints:
    """The first task of the call of each task: places whose ranks are in groups together enter
    together, and leave together. Other tasks are their own first ones. So are those of messages,
    unless receivers of `messages` have tasks.

    Groups of a kind that have a place in common have all places in common. Raises InputError if
    places differ in their calls.
    """
    unit = np.arange(len(graph), dtype=np.int32)
    joint = np.array([messages or not call.is_message for call in graph.calls] + [False])
    talking = np.flatnonzero(joint[graph.call])
    if not len(talking):
        return unit
    seats, place, lane = _Seats(graph, talking), graph.place[talking], graph.lane[talking]
    # Groups with the same places have the same first place, and are of one class.
    touched = graph.place_of[seats.members]
    first = seats.kind * graph.places + np.minimum.reduceat(touched, seats.begins)
    kinds_of, of_group = np.unique(first, return_inverse=True)
    sizes = np.diff(seats.begins, append=len(touched))
    pairs = np.unique(np.repeat(of_group, sizes) * graph.places + touched)
    places = np.bincount(pairs // graph.places, minlength=len(kinds_of))

    group = of_group[seats.group]
    turn = places_in_groups(seats.kind[seats.group], lane, place)
    begin, row = distinct_rows(group, lane, turn)
    unit[talking] = talking[begin][row]
    wrong = graph.call[talking] != graph.call[unit[talking]]
    wrong |= np.bincount(row)[row] != places[group]
    if wrong.any():
        task = int(unit[talking[wrong.argmax()]])
        raise InputError(
            f"the ranks of group {graph.calls[graph.call[task]].group[:40]!r} differ in their "
            f"calls, like rank {graph.leaders[graph.place[task]]} in {graph.name(task)[:40]!r}"
        )
    return unit


class _Seats:
    """The groups in which the first rank of a place talks."""

    def __init__(self, graph: StepGraph, talking: Numbers) -> None:
        """`talking` are tasks of calls."""
        kinds = list(graph.groups)
        rows = [len(groups) for groups in graph.groups.values()]
        sizes = np.repeat([groups.shape[1] for groups in graph.groups.values()], rows)
        self.members = np.concatenate([groups.ravel() for groups in graph.groups.values()])
        """The ranks of all groups."""
        self.begins = np.cumsum(sizes) - sizes
        """Where each group begins among them."""
        self.kind = np.repeat(np.arange(len(kinds)), rows)
        """The kind of each group."""
        number = {kind: k for k, kind in enumerate(kinds)}
        kind = np.array([number[call.group] for call in graph.calls])[graph.call[talking]]
        wanted = kind * graph.ranks + graph.leaders[graph.place[talking]]
        ranks_of = np.repeat(self.kind, sizes) * graph.ranks + self.members
        order = np.argsort(ranks_of, kind="stable")
        entry = order[np.minimum(np.searchsorted(ranks_of[order], wanted), len(ranks_of) - 1)]
        absent = np.flatnonzero(ranks_of[entry] != wanted)
        if len(absent):
            call = graph.calls[graph.call[talking[absent[0]]]]
            rank = graph.leaders[graph.place[talking[absent[0]]]]
            raise InputError(f"rank {rank} is not in group {call.group[:40]!r}")
        self.group = np.repeat(np.arange(len(sizes)), sizes)[entry]
        """The group of each task."""
        self.seat = entry - self.begins[self.group]
        """The place of its rank there."""


def partners(graph: StepGraph, met: Sequence[Meeting]) -> tuple[Numbers, Numbers, Numbers]:
    """The tasks that those of calls and messages depend on, a row a task: the first task of the
    same collective, or the task itself; the task of the group's call before on the same lane and
    rank, or -1; and the send of a receive, or -1."""
    unit, (before, send) = np.arange(len(graph)), np.full((2, len(graph)), -1)
    latest: dict[tuple[str, int, int], int] = {}
    for call, ranks, tasks in met:
        if call.is_message:
            send[tasks[1]] = tasks[0]
            continue
        unit[tasks] = tasks.min()
        lane = int(graph.lane[tasks[0]])
        for rank, task in plain_rows(ranks, tasks):
            before[task] = latest.get((call.group, lane, rank), -1)
            latest[call.group, lane, rank] = task
    return unit, before, send


def turns(
    graph: StepGraph, unit: Numbers, before: Numbers, send: Numbers
) -> tuple[Numbers, list[int]]:
    """The tasks by their place on their rank, of a collective only the first, as far as their waits
    allow that: what gets to a link at the same time is served in this order. Also the turn of the
    latest task that each one waits for; -1 for none.

    The partners of tasks are those of :func:`partners`. Raises InputError if tasks wait for each
    other in a circle.
    """
    count, place = len(graph), places_in_groups(graph.place)
    follows, receives = np.flatnonzero(before >= 0), np.flatnonzero(send >= 0)
    later = unit[np.concatenate((graph.waiting, follows, receives))]
    earlier = unit[np.concatenate((graph.indices, before[follows], send[receives]))]
    units = np.flatnonzero(unit == np.arange(count))
    order: Numbers = units[np.lexsort((units, place[units]))]
    turn = np.empty(count, dtype=np.int64)
    turn[order] = np.arange(len(order))
    if np.any(turn[earlier] >= turn[later]):
        order = topological_order(np.stack((earlier, later)), place, units)
        if len(order) < len(units):
            stuck = np.setdiff1d(units, order).tolist()
            names = [f"{graph.name(task)[:40]!r} of rank {graph.place[task]}" for task in stuck[:2]]
            raise InputError(
                f"{len(stuck)} tasks wait for each other in a circle: {', '.join(names)}"
            )
        turn[order] = np.arange(len(order))
    latest = np.full(count, -1, dtype=np.int64)
    np.maximum.at(latest, later, turn[earlier])
    return order, latest[order].tolist()


def topological_order(edges: Numbers, place: Numbers, chosen: Numbers) -> Longs:
    """The `chosen` numbers by their `place`, each after those that it waits for. Those that wait
    for each other in a circle, or for these, are left out.

    `edges` has the earlier and the later number of each wait, shape (2, waits).
    """
    edges = np.unique(edges, axis=1)
    missing = np.bincount(edges[1], minlength=len(place)).tolist()
    starts = np.searchsorted(edges[0], np.arange(len(place) + 1)).tolist()
    followers, places = edges[1].tolist(), place.tolist()
    ready = [(places[number], number) for number in chosen.tolist() if not missing[number]]
    heapify(ready)
    order = []
    while ready:
        _, number = heappop(ready)
        order.append(number)
        for follower in followers[starts[number] : starts[number + 1]]:
            missing[follower] -= 1
            if not missing[follower]:
                heappush(ready, (places[follower], follower))
    return np.array(order, dtype=np.int64)
