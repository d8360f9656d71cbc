"""The calls of a graph in which each place is a rank: which tasks of which ranks meet."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.steps.step_graph import Call, StepGraph
from topologies.errors import InputError
from topologies.topology import Ints

Numbers = npt.NDArray[np.integer[Any]]


class Meeting(NamedTuple):
    """A call of the ranks of a group."""

    call: Call
    ranks: Ints
    """The ranks of the group, the root first."""
    tasks: Ints
    """The task of each rank."""


def meetings(graph: StepGraph) -> list[Meeting]:
    """The calls of all groups, in the order of their first tasks.

    Raises InputError if the ranks of a group differ in their calls.
    """
    talking = np.flatnonzero(graph.call >= 0)
    if not len(talking):
        return []
    instance, seat, sizes = _seats(graph, talking)
    lane = graph.lane[talking]
    order: Numbers = np.lexsort((talking, seat, lane, instance))
    begins = _begins(instance[order], lane[order], seat[order])
    turn = np.empty(len(order), dtype=np.int64)
    turn[order] = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
    order = np.lexsort((seat, turn, lane, instance))
    begins = _begins(instance[order], lane[order], turn[order])
    met = []
    for first, last in pairwise([*begins.tolist(), len(order)]):
        rows = order[first:last]
        tasks = talking[rows].astype(np.int32)
        codes = {*graph.call[tasks].tolist()}
        if last - first != sizes[instance[rows[0]]] or len(codes) > 1:
            raise InputError(_unequal(graph, int(tasks[0])))
        call, ranks = graph.calls[codes.pop()], graph.place[tasks]
        turned = np.argsort(np.arange(len(rows)) != call.root, kind="stable")
        met.append(Meeting(call, ranks[turned], tasks[turned]))
    return sorted(met, key=lambda meeting: int(meeting.tasks.min()))


def _begins(*columns: Numbers) -> Numbers:
    """The rows of sorted columns that differ from the row before."""
    rows = np.stack(columns)
    return np.flatnonzero(np.append(True, np.any(rows[:, 1:] != rows[:, :-1], axis=0)))


def _seats(graph: StepGraph, talking: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """The group of each task that communicates and its rank's place there; the size of groups."""
    kinds = list(graph.groups)
    rows = [len(groups) for groups in graph.groups.values()]
    sizes = np.repeat([groups.shape[1] for groups in graph.groups.values()], rows)
    member = np.concatenate([groups.ravel() for groups in graph.groups.values()]).astype(np.int64)
    group = np.repeat(np.arange(len(sizes)), sizes)
    member += np.repeat(np.arange(len(kinds)), rows)[group] * graph.ranks
    seat = np.arange(len(member)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    number = {kind: k for k, kind in enumerate(kinds)}
    kind = np.array([number[call.group] for call in graph.calls])[graph.call[talking]]
    wanted = kind * graph.ranks + graph.place[talking]
    order = np.argsort(member, kind="stable")
    place = order[np.minimum(np.searchsorted(member[order], wanted), len(member) - 1)]
    absent = np.flatnonzero(member[place] != wanted)
    if len(absent):
        task = int(talking[absent[0]])
        call = graph.calls[graph.call[task]]
        raise InputError(f"rank {graph.place[task]} is not in group {call.group[:40]!r}")
    return group[place], seat[place], sizes


def _unequal(graph: StepGraph, task: int) -> str:
    call = graph.calls[graph.call[task]]
    return (
        f"the ranks of group {call.group[:40]!r} differ in their calls, like rank "
        f"{graph.place[task]} in {graph.name(task)[:40]!r}"
    )
