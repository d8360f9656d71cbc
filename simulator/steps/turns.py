"""The order in which the tasks of a graph are written."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np
import numpy.typing as npt

from simulator.steps.group_meetings import Meeting
from simulator.steps.step_graph import Numbers, StepGraph
from topologies.errors import InputError


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
        for rank, task in zip(ranks.tolist(), tasks.tolist(), strict=True):
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
    count = len(graph)
    by_rank = np.argsort(graph.place, kind="stable")
    ranks = graph.place[by_rank]
    place = np.empty(count, dtype=np.int64)
    place[by_rank] = np.arange(count) - np.searchsorted(ranks, ranks)
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


def topological_order(edges: Numbers, place: Numbers, chosen: Numbers) -> npt.NDArray[np.int64]:
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
