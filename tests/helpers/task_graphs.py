"""Graphs of tasks of ranks, written task by task; and when tasks end whose lanes have an order: a
plain loop over joint calls."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from typing import NamedTuple

import numpy as np

from simulator.steps.group_meetings import joint_calls
from simulator.steps.kinds import CALL, COMPUTATION
from simulator.steps.step_graph import Call, StepGraph, step_graph
from topologies.topology import Floats


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


def finish_of(graph: StepGraph) -> Floats:
    """When each task ends: those of a joint call start together, when all that they wait for has
    ended."""
    unit = joint_calls(graph).tolist()
    tasks, before = defaultdict[int, list[int]](list), defaultdict[int, set[int]](set)
    for task, first in enumerate(unit):
        tasks[first].append(task)
        before[first] |= {unit[row] for row in graph.predecessors(task).tolist()}
    end: dict[int, float] = {}
    for first in TopologicalSorter(before).static_order():
        start = max((end[row] for row in before[first]), default=0.0)
        end[first] = start + float(graph.seconds[tasks[first]].max())
    return np.array([end[first] for first in unit])
