"""Places that stand for several ranks, as their ranks."""

from __future__ import annotations

import numpy as np

from simulator.collectives import find
from simulator.collectives.collective import Algorithm
from simulator.steps.group_meetings import meetings
from simulator.steps.kinds import RECEIVE, TRANSFER
from simulator.steps.place_splits import expand
from simulator.steps.step_graph import MESSAGE, Call, StepGraph, step_graph

PLACES = np.array([0, 0, 1, 1])
GROUPS = np.array([[0, 1], [2, 3]])


def ring(call: Call) -> Algorithm:
    return find("ring")


def graph() -> StepGraph:
    """Place 0 computes, sums, and sends to place 1, which waits for that and for place 0 itself."""
    return step_graph(
        PLACES,
        ("compute", "communication"),
        {
            "place": [0, 0, 0, 1],
            "peer": [-1, -1, 1, -1],
            "lane": [0, 1, 1, 0],
            "kind": [0, 0, TRANSFER, 0],
            "call": [-1, 0, 1, -1],
            "seconds": [1.0, 5.0, 5.0, 2.0],
            "micro": [3, 3, 3, 3],
        },
        [[], [0], [1], [2, 0]],
        calls=[Call("tp", "all_reduce", 8.0), Call("0 to 1", MESSAGE, 4.0)],
        groups={"tp": GROUPS, "0 to 1": GROUPS.T},
    )


def test_each_rank_does_what_its_place_does() -> None:
    expanded = expand(graph(), ring)
    assert expanded.place_of.tolist() == [0, 1, 2, 3]
    assert expanded.place.tolist() == [0, 1, 0, 1, 0, 2, 1, 3, 2, 3]
    assert expanded.kind[[5, 7]].tolist() == [RECEIVE, RECEIVE]
    assert expanded.seconds.tolist() == [1.0, 1.0, 0, 0, 0, 0, 0, 0, 2.0, 2.0]
    assert (expanded.micro == 3).all()
    waits = [expanded.predecessors(task).tolist() for task in range(10)]
    assert waits == [[], [], [0], [1], [2], [], [3], [], [5, 0], [7, 1]]
    met = [(call.collective, ranks.tolist()) for call, ranks, _ in meetings(expanded)]
    assert met == [("all_reduce", [0, 1]), (MESSAGE, [0, 2]), (MESSAGE, [1, 3])]
