"""Graphs of tasks of ranks, written task by task."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from simulator.steps.kinds import CALL, COMPUTATION
from simulator.steps.step_graph import Call, StepGraph, step_graph


class Task(NamedTuple):
    """A computation, or what a rank does of a call."""

    name: str
    rank: int
    lane: int = 0
    after: tuple[int, ...] = ()
    seconds: float = 0.0
    call: Call | None = None


def graph_of(
    ranks: int, tasks: Sequence[Task], groups: Mapping[str, Sequence[int]] | None = None
) -> StepGraph:
    """The graph of tasks. `groups` has the ranks of each group that calls name."""
    calls = [*dict.fromkeys(task.call for task in tasks if task.call is not None)]
    return step_graph(
        np.arange(ranks),
        ("compute", "communication"),
        {
            "place": [task.rank for task in tasks],
            "lane": [task.lane for task in tasks],
            "kind": [COMPUTATION if task.call is None else CALL for task in tasks],
            "seconds": [task.seconds for task in tasks],
            "call": [-1 if task.call is None else calls.index(task.call) for task in tasks],
        },
        [task.after for task in tasks],
        calls=calls,
        groups={
            name: np.array([members], dtype=np.int32) for name, members in (groups or {}).items()
        },
        names=[task.name for task in tasks],
    )
