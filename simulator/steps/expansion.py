"""A graph whose places stand for several ranks, as a graph of all ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from simulator.collectives.collective import Algorithm
from simulator.kernels.records import Csr
from simulator.steps.group_meetings import Numbers
from simulator.steps.kinds import RECEIVE
from simulator.steps.step_graph import LABELS, Call, StepGraph, step_graph


def expand(
    graph: StepGraph, algorithm: Callable[[Call], Algorithm], order: Numbers | None = None
) -> StepGraph:
    """What each rank of each place does.

    Ranks at the same row of their places wait for each other as the places do. A message gets a
    task of its receiver, for which the receiver waits. Collectives run the `algorithm` of their
    call. With an `order` of the tasks, they come in this order on each lane of a rank, and one
    waits for the other.
    """
    turns = np.arange(len(graph)) if order is None else order
    wide = graph.members.shape[1]
    is_message = np.array([call.is_message for call in graph.calls] or [False])
    sends = (graph.call >= 0) & is_message[graph.call]
    rows = wide * (1 + sends[turns])
    first = np.empty(len(graph), dtype=np.int64)
    first[turns] = np.cumsum(rows) - rows
    total = int(rows.sum())
    inner = np.arange(wide)
    tasks = first[:, None] + inner
    received = first[sends, None] + wide + inner

    columns: dict[str, Any] = {"peer": np.full(total, -1, dtype=np.int32)}
    for name in ("lane", "kind", "call", "seconds", *LABELS):
        column = getattr(graph, name)
        columns[name] = np.zeros(total, dtype=column.dtype)
        columns[name][tasks] = column[:, None]
        columns[name][received] = column[sends, None]
    columns["place"] = np.zeros(total, dtype=np.int32)
    columns["place"][tasks] = graph.members[graph.place]
    columns["place"][received] = graph.members[graph.peer[sends]]
    columns["kind"][received] = RECEIVE
    columns["seconds"][columns["call"] >= 0] = 0.0

    later = np.repeat(np.arange(len(graph)), np.diff(graph.indptr))
    earlier = graph.indices.astype(np.int64)
    arrives = sends[earlier] & (graph.place[later] == graph.peer[earlier])
    begin = first[earlier] + np.where(arrives, wide, 0)
    if order is not None:
        previous, follower = _neighbours(graph, turns)
        later, begin = np.append(later, follower), np.append(begin, first[previous])
    return step_graph(
        np.sort(graph.members, axis=None)[:, None].astype(np.int32),
        graph.lanes,
        columns,
        _waits(total, tasks[later], begin[:, None] + inner),
        calls=[
            call if call.is_message else call._replace(algorithm=algorithm(call))
            for call in graph.calls
        ],
        groups=graph.groups,
    )


def _neighbours(graph: StepGraph, turns: Numbers) -> tuple[Numbers, Numbers]:
    """Tasks that follow each other on a lane of a place, in their order."""
    turn = np.empty(len(graph), dtype=np.int64)
    turn[turns] = np.arange(len(turns))
    order = np.lexsort((turn, graph.lane, graph.place))
    same = (np.diff(graph.place[order]) == 0) & (np.diff(graph.lane[order]) == 0)
    return order[:-1][same], order[1:][same]


def _waits(total: int, later: Numbers, earlier: Numbers) -> Csr:
    """What each task waits for."""
    order = np.argsort(later.ravel(), kind="stable")
    counts = np.bincount(later.ravel(), minlength=total)
    indptr = np.append(0, np.cumsum(counts)).astype(np.int32)
    return Csr(indptr, earlier.ravel()[order].astype(np.int32))
