"""Graphs of tasks: what is refused, and what their rows say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from grouped_cases import each_case
from refusals import refusal
from simulator.steps.kinds import FORWARD, OPTIMIZER
from simulator.steps.step_graph import Call, step_graph

RANKS = np.arange(2, dtype=np.int32)
SUM = Call("all", "all_reduce", 8.0)
ROW: dict[str, Any] = {"place": [0, 1], "lane": [0, 0], "seconds": [1.0, 0.0]}


def test_names_and_phases_follow_from_labels() -> None:
    graph = step_graph(
        RANKS,
        ("compute",),
        {**ROW, "kind": [FORWARD, OPTIMIZER], "layer": [3, -1], "micro": [1, -1], "call": [-1, 0]},
        [[], [0]],
        calls=[SUM],
        groups={"all": RANKS[None, :]},
    )
    assert [graph.name(task) for task in range(2)] == [
        "forward, layer 3, micro-batch 1",
        "optimizer",
    ]
    assert [graph.phase(task) for task in range(2)] == ["forward", "all_reduce"]
    assert [graph.call_of(task) for task in range(2)] == [None, SUM]
    assert graph.nbytes.tolist() == [0.0, 8.0]
    assert graph.predecessors(1).tolist() == [0]
    assert replace(graph, names=("a", "b")).name(1) == "b"


@each_case(
    ("columns", "after", "call", "message"),
    [
        ({"lane": [0, 1]}, [[], []], SUM, "lane 1: lanes run from 0 to 0"),
        ({"seconds": [1.0, -2.0]}, [[], []], SUM, "a task takes -2.0 s: 0 or more"),
        ({"seconds": [1.0, np.inf]}, [[], []], SUM, "a task takes inf s: 0 or more"),
        ({}, [[], [2]], SUM, "a task waits for task 2: tasks run from 0 to 1"),
        ({"place": [0, 2]}, [[], []], SUM, "place 2: places run from 0 to 1"),
        ({}, [[], []], SUM._replace(nbytes=-1.0), "all_reduce has -1.0 bytes: 0 or more"),
        ({}, [[], []], SUM._replace(group="one"), "group [0]: it has 2 or more of the 2 ranks"),
        ({}, [[], []], SUM._replace(group="far"), "group [0, 7]: it has 2 or more of the 2 ranks"),
        ({"call": [0, 1]}, [[], []], SUM, "call 1: there are 1"),
        ({}, [[], []], SUM._replace(root=2), "root 2: it is a place in a group of 2"),
        ({}, [[], []], SUM._replace(group="twice"), "groups of a kind share a rank, like [0, 1]"),
    ],
)
def test_graphs_that_make_no_sense_are_refused(
    columns: dict[str, Any], after: list[list[int]], call: Call, message: str
) -> None:
    groups = {"all": RANKS[None, :], "one": RANKS[None, :1], "far": np.array([[0, 7]])}
    groups["twice"] = np.array([[0, 1], [1, 0]])
    rows = {**ROW, "call": [0, 0]} | columns
    text = refusal(step_graph, RANKS, ("compute",), rows, after, calls=[call], groups=groups)
    assert text == message
