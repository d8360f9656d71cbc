"""A graph whose places stand for several ranks, as a graph of all ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from simulator.collectives.collective import Algorithm
from simulator.steps.kinds import RECEIVE
from simulator.steps.place_splits import split
from simulator.steps.step_graph import COLUMNS, Call, StepGraph, step_graph, waits_by_row


def expand(graph: StepGraph, algorithm: Callable[[Call], Algorithm]) -> StepGraph:
    """What each rank of each place does.

    A message gets a task of its receiver, for which the receiver waits. Collectives run the
    `algorithm` of their call.
    """
    every = split(graph, np.arange(graph.ranks))
    is_message = np.array([call.is_message for call in graph.calls] or [False])
    sends = (every.call >= 0) & is_message[every.call]
    # Behind each send comes the receive.
    row = np.repeat(np.arange(len(every)), 1 + sends)
    first = np.searchsorted(row, np.arange(len(every)))
    received = first[sends] + 1
    columns: dict[str, Any] = {name: getattr(every, name)[row] for name in COLUMNS}
    columns["place"][received] = every.peer[sends]
    columns["kind"][received] = RECEIVE
    columns["seconds"][columns["call"] >= 0] = 0.0
    columns["peer"][:] = -1

    later, earlier = every.waiting, every.indices
    arrives = sends[earlier] & (every.place[later] == every.peer[earlier])
    return step_graph(
        every.place_of,
        graph.lanes,
        columns,
        waits_by_row(len(row), first[later], first[earlier] + arrives),
        calls=[
            call if call.is_message else call._replace(algorithm=algorithm(call))
            for call in graph.calls
        ],
        groups=graph.groups,
    )
