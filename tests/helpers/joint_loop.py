"""When the tasks of a graph end whose lanes have an order: a plain loop over joint calls."""

from collections import defaultdict
from graphlib import TopologicalSorter

import numpy as np

from simulator.steps.group_meetings import joint_calls
from simulator.steps.step_graph import StepGraph
from topologies.topology import Floats


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
