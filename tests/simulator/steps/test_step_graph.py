"""Graphs of tasks: what is refused, what rows say, and collectives of several groups at once."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from law_cases import NAMES
from refusals import refusal
from simulator.analysis import memory
from simulator.collectives import algorithms, find
from simulator.engines import simulate
from simulator.schedules.semantics import WrongResult
from simulator.schedules.timeline import Timeline
from simulator.steps.group_calls import GroupCall, graph_of
from simulator.steps.kinds import FORWARD, OPTIMIZER
from simulator.steps.step_graph import Call, step_graph
from simulator.steps.written import Written, prove, write
from topologies.catalogue import find as machine
from topologies.shapes import SHAPES, full_mesh, star
from topologies.topology import Topology

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


RING = find("ring")
FREE = [name for name in NAMES if not algorithms()[name].servers]


def join(calls: list[GroupCall], topology: Topology, ranks: int) -> Written:
    return write(graph_of(calls, ranks), topology, distinct=True)


def spans(joined: Written, timeline: Timeline) -> list[tuple[float, float]]:
    """When the first rank enters each call, and when the last one leaves it."""
    tasks = [call.meeting.tasks for call in joined.calls]
    return [
        (timeline.start[joined.first[each]].min(), timeline.finish[joined.last[each]].max())
        for each in tasks
    ]


def times(joined: Written) -> list[tuple[float, float]]:
    return spans(joined, simulate(joined.schedule, joined.topology))


def test_groups_share_the_links_of_their_ranks() -> None:
    """Both broadcasts leave rank 0 through one port."""
    push = find("chain_broadcast:segments=1")
    calls = [GroupCall(push, (0, 1), 8.0, stream=0), GroupCall(push, (0, 2), 8.0, stream=1)]
    joined = join(calls, star(3, bandwidth=1.0), 3)
    assert times(joined) == [(0.0, 8.0), (0.0, 16.0)]


def test_calls_on_a_stream_run_one_after_the_other_at_each_rank() -> None:
    """Rank 1 leaves the first call at 8 s; rank 2 never took part in it."""
    push = find("chain_broadcast:segments=1")
    calls = [GroupCall(push, (0, 1), 8.0), GroupCall(push, (1, 2), 8.0)]
    joined = join(calls, full_mesh(3, bandwidth=1.0), 3)
    prove(joined)
    timeline = simulate(joined.schedule, joined.topology)
    assert timeline.start[joined.first[joined.calls[1].meeting.tasks]].tolist() == [8.0, 0.0]
    assert spans(joined, timeline) == [(0.0, 8.0), (0.0, 16.0)]
    concurrent = [replace(call, stream=number) for number, call in enumerate(calls)]
    assert times(join(concurrent, full_mesh(3, bandwidth=1.0), 3))[1] == (0.0, 8.0)


def test_a_call_waits_for_calls_on_other_streams() -> None:
    calls = [
        GroupCall(RING, (0, 1), 8.0, stream=0),
        GroupCall(RING, (2, 3), 16.0, stream=0),
        GroupCall(RING, (1, 2), 8.0, stream=1, waits=(0, 1)),
    ]
    joined = join(calls, full_mesh(4, bandwidth=1.0), 4)
    prove(joined)
    timeline = simulate(joined.schedule, joined.topology)
    assert timeline.start[joined.first[joined.calls[2].meeting.tasks]].tolist() == [8.0, 16.0]
    assert spans(joined, timeline)[2][1] == 24.0


def test_the_first_rank_of_a_group_is_its_root() -> None:
    joined = join([GroupCall(find("tree_broadcast"), (3, 1), 8.0)], star(4, bandwidth=1.0), 4)
    prove(joined)
    assert joined.schedule.sent().tolist() == [0.0, 0.0, 0.0, 8.0]


def test_ranks_hold_the_buffers_of_their_groups_alone() -> None:
    gather = find("ring_all_gather")
    calls = [
        GroupCall(gather, (0, 1), 8.0),
        GroupCall(gather, (2, 3), 32.0),
        GroupCall(gather, (0, 3), 2.0),
    ]
    joined = join(calls, star(5, bandwidth=1.0), 5)
    usage = memory.trace(joined.schedule, simulate(joined.schedule, joined.topology))
    assert usage.peaks.tolist() == [10.0, 8.0, 32.0, 34.0, 0.0]


def test_each_group_has_its_switches() -> None:
    hgx = machine("hgx_h100:nodes=2").build(16)
    calls = [GroupCall(find("nvls"), tuple(range(first, first + 8)), 1e6) for first in (0, 8)]
    joined = join(calls, hgx, 16)
    prove(joined)
    alone = [simulate(*each.fitted[:2]).makespan for each in joined.calls]
    assert [end for _, end in times(joined)] == pytest.approx(alone)


@given(
    calls=st.lists(
        st.builds(
            GroupCall,
            st.sampled_from(FREE).map(find),
            st.lists(st.integers(0, 5), min_size=2, unique=True).map(tuple),
            st.sampled_from([12.0, 1000.0]),
            st.integers(0, 2),
        ),
        min_size=1,
        max_size=4,
    ),
    shape=st.sampled_from(["star", "ring", "full_mesh", "line"]),
)
def test_any_calls_are_proven_and_run_alike_on_both_engines(
    calls: list[GroupCall], shape: str
) -> None:
    topology: Topology = SHAPES[shape](6, bandwidth=16.0, latency=0.5)
    joined = join(calls, topology, 6)
    prove(joined)
    reference, fast = (
        simulate(joined.schedule, joined.topology, engine) for engine in ("reference", "compiled")
    )
    assert reference.finish.tolist() == fast.finish.tolist()
    last = {(rank, call.stream): 0.0 for call in calls for rank in call.ranks}
    for call, placed in zip(calls, joined.calls, strict=True):
        assert placed.meeting.ranks.tolist() == [*call.ranks]
        for rank, task in zip(call.ranks, placed.meeting.tasks, strict=True):
            assert fast.start[joined.first[task]] >= last[rank, call.stream]
            last[rank, call.stream] = fast.finish[joined.last[task]]


def test_a_call_that_breaks_its_promise_is_named() -> None:
    joined = join(
        [GroupCall(RING, (0, 1), 8.0), GroupCall(RING, (1, 2), 8.0)], star(3, bandwidth=1.0), 3
    )
    transfers = np.flatnonzero(joined.schedule.remote)
    joined.schedule.reduces[transfers[4]] = 0
    with pytest.raises(WrongResult, match="call 1, all_reduce: 2 of 4 results are wrong"):
        prove(joined)


@each_case(
    ("call", "message"),
    [
        (GroupCall(RING, (0,), 1.0), "call 0: ranks [0]: a group has 2 or more, each once"),
        (GroupCall(RING, (0, 0), 1.0), "call 0: ranks [0, 0]: a group has 2 or more, each once"),
        (GroupCall(RING, (0, 4), 1.0), "call 0: rank 4: 4 ranks run from 0 to 3"),
        (GroupCall(RING, (0, 1), 1.0, stream=-1), "call 0: stream -1: streams run from 0 to 1023"),
        (GroupCall(RING, (0, 1), 1.0, waits=(0,)), "call 0: it waits for [0]: earlier calls alone"),
        (
            GroupCall(find("parameter_server_apart"), (0, 1), 1.0),
            "call 0: parameter_server_apart needs servers, which a group has not",
        ),
        (
            GroupCall(find("ring:segments=best"), (0, 1), 1.0),
            "ring:segments=best: best is found for a lone collective of `simctl run` and `simctl "
            "sweep`: write a number here",
        ),
    ],
)
def test_calls_that_make_no_sense_are_refused(call: GroupCall, message: str) -> None:
    assert refusal(graph_of, [call], 4) == message
