"""Graphs of tasks with all transfers: computations, calls and messages of ranks."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refusal
from simulator.analysis import memory
from simulator.collectives import find
from simulator.engines import simulate
from simulator.steps.group_calls import GroupCall
from simulator.steps.group_calls import graph_of as graph_of_calls
from simulator.steps.group_meetings import meetings
from simulator.steps.kinds import CALL
from simulator.steps.step_graph import MESSAGE, Call, StepGraph, step_graph
from simulator.steps.written import write
from task_graphs import Task, graph_of
from topologies.catalogue import find as machine
from topologies.shapes import full_mesh, star
from topologies.topology import Floats, Topology

RING = find("ring")


def times(graph: StepGraph, topology: Topology) -> tuple[Floats, Floats]:
    """When each task starts and ends, by both engines."""
    written = write(graph, topology)
    timeline = simulate(written.schedule, written.topology, "reference")
    again = simulate(written.schedule, written.topology, "compiled")
    assert np.array_equal(timeline.finish, again.finish)
    return timeline.start[written.first], timeline.finish[written.last]


def summed(group: str, nbytes: float = 8.0) -> Call:
    return Call(group, "all_reduce", nbytes, RING)


@given(st.data())
def test_tasks_wait_for_tasks_and_the_ranks_of_a_call_for_each_other(data: st.DataObject) -> None:
    ranks = data.draw(st.integers(2, 4))
    tasks, groups = list[Task](), dict[str, list[int]]()

    def add(rank: int, lane: int, call: Call | None = None) -> None:
        before = [k for k, task in enumerate(tasks) if task.rank == rank]
        after = tuple(
            data.draw(st.lists(st.sampled_from(before or [0]), max_size=2 * bool(before)))
        )
        seconds = 0.0 if call else data.draw(st.sampled_from([0.0, 1.0, 2.5]))
        tasks.append(Task("task", rank, lane, after, seconds, call))

    for _ in range(data.draw(st.integers(1, 8))):
        what = data.draw(st.sampled_from(["compute", "call", "message"]))
        some = data.draw(st.permutations(range(ranks)))
        if what == "compute":
            add(some[0], 0)
            continue
        members = (
            some[:2] if what == "message" else sorted(some[: data.draw(st.integers(2, ranks))])
        )
        group = f"{what} {members}"
        groups[group] = members
        call = Call(group, MESSAGE, 3.0) if what == "message" else summed(group)
        for rank in members:
            add(rank, 1, call)
    graph = graph_of(ranks, tasks, groups)
    start, end = times(graph, star(ranks, bandwidth=1.0))
    for number, task in enumerate(tasks):
        assert all(end[before] <= start[number] for before in task.after)
        assert end[number] >= start[number]
    for call, _, members_of in meetings(graph):
        if call.is_message:
            assert end[members_of[1]] >= start[members_of[0]] + 3.0
        else:
            assert end[members_of].min() >= start[members_of].max()


@pytest.mark.parametrize("name", ["ring", "tree", "halving_doubling", "rings", "nvls"])
def test_calls_of_a_group_take_what_calls_with_buffers_of_their_own_take(name: str) -> None:
    algorithm = find(name)
    topology = machine("hgx_h100:nodes=1").build(8)
    groups = {"first": (0, 1, 2, 3), "second": (4, 5, 6, 7)}
    calls, tasks = list[GroupCall](), list[Task]()
    for nbytes in (1e6, 2e6, 1e6):
        for group, members in groups.items():
            calls.append(GroupCall(algorithm, members, nbytes))
            call = Call(group, "all_reduce", nbytes, algorithm)
            tasks += [Task("call", rank, call=call) for rank in members]
    joined = write(graph_of_calls(calls, 8), topology, distinct=True)
    expected = simulate(joined.schedule, joined.topology).makespan
    _, end = times(graph_of(8, tasks, groups), topology)
    assert end.max() == pytest.approx(expected, rel=1e-12)


def test_a_message_does_not_wait_for_its_receiver() -> None:
    sent = Call("0 to 1", MESSAGE, 4.0)
    tasks = [
        Task("send", 0, 1, call=sent),
        Task("busy", 1, seconds=9.0),
        Task("receive", 1, 1, (1,), call=sent),
    ]
    start, end = times(graph_of(2, tasks, {"0 to 1": [0, 1]}), full_mesh(2, bandwidth=1.0))
    assert end.tolist() == [4.0, 9.0, 9.0]
    assert start[2] == 9.0


def test_the_root_of_a_call_plays_rank_0() -> None:
    broadcast = Call("all", "broadcast", 8.0, find("tree_broadcast"), root=1)
    graph = graph_of(2, [Task("b", rank, call=broadcast) for rank in range(2)], {"all": [0, 1]})
    assert write(graph, star(2, bandwidth=1.0)).schedule.sent().tolist() == [0.0, 8.0]


def test_tasks_in_a_circle_are_refused() -> None:
    circle = [Task("first", 0, 0, (1,)), Task("second", 0, 0, (0,))]
    text = refusal(write, graph_of(2, circle), star(2, bandwidth=1.0))
    assert "2 tasks wait for each other in a circle: 'first' of rank 0, 'second' of rank 0" in text
    a, b = summed("a"), summed("b")
    crossed = [
        Task("a", 0, call=a),
        Task("b", 0, 0, (0,), call=b),
        Task("b", 1, call=b),
        Task("a", 1, 0, (2,), call=a),
    ]
    graph = graph_of(2, crossed, {"a": [0, 1], "b": [0, 1]})
    assert "in a circle" in refusal(write, graph, star(2, bandwidth=1.0))


def test_ranks_that_differ_in_their_calls_are_refused() -> None:
    graph = graph_of(2, [Task("sum", 0, call=summed("all"))], {"all": [0, 1]})
    assert "the ranks of group 'all' differ in their calls, like rank 0 in 'sum'" in refusal(
        write, graph, star(2, bandwidth=1.0)
    )
    tasks = [Task("sum", rank, call=summed("all", 8.0 + rank)) for rank in range(2)]
    assert "differ in their calls" in refusal(
        write, graph_of(2, tasks, {"all": [0, 1]}), star(2, bandwidth=1.0)
    )
    stranger = graph_of(3, [Task("sum", 2, call=summed("all"))], {"all": [0, 1]})
    assert refusal(meetings, stranger) == "rank 2 is not in group 'all'"


def test_more_operations_than_fit_are_refused(free: Callable[[float], None]) -> None:
    free(1e6)
    ranks = range(64)
    graph = graph_of(64, [Task("sum", rank, call=summed("all")) for rank in ranks], {"all": ranks})
    topology = star(64, bandwidth=1.0)
    assert "the tasks have 8.13e+03 operations" in refusal(write, graph, topology)
    assert len(write(graph, topology, force=True).schedule) > 8000


def test_groups_hold_the_buffer_of_their_largest_call() -> None:
    tasks = [
        Task("sum", rank, call=summed("all", nbytes)) for nbytes in (8.0, 40.0) for rank in (0, 1)
    ]
    written = write(graph_of(3, tasks, {"all": [0, 1]}), star(3, bandwidth=1.0))
    resident = memory.trace(written.schedule, simulate(written.schedule, written.topology))
    alone = RING.build(2, 40.0)
    peak = memory.trace(alone, simulate(alone, star(2, bandwidth=1.0))).peak
    assert resident.peaks.tolist() == [peak, peak, 0.0]


def test_operations_that_bounds_miss_are_counted_before_they_are_written(
    free: Callable[[float], None],
) -> None:
    """The volume of an all-gather over all NICs is no count of its operations."""
    algorithm = find("rings_all_gather")
    ranks = range(16)
    gather = Call("all", "all_gather", 1e6, algorithm)
    graph = graph_of(16, [Task("gather", rank, call=gather) for rank in ranks], {"all": ranks})
    topology = machine("hgx_h100:nodes=2").build(16)
    written = write(graph, topology)
    count = len(written.schedule) - 2 * 16
    free(count * 250.0)
    assert "operations: this takes about" in refusal(write, graph, topology)


def test_a_task_may_wait_for_thousands() -> None:
    """Its waits take memory for themselves alone, and not for each task."""
    count = 20_000
    tasks = [Task("compute", 0, seconds=1.0) for _ in range(count)]
    tasks.append(Task("last", 0, 0, tuple(range(count)), 1.0))
    written = write(graph_of(2, tasks), star(2, bandwidth=1.0))
    assert len(written.schedule.predecessors(count)) == count
    assert len(written.schedule.indices) == count


def test_groups_that_lie_on_nodes_otherwise_are_fitted_for_themselves() -> None:
    """The second group crosses two nodes, and the first one does not."""
    topology = machine("hgx_h100:nodes=2").build(16)
    groups = np.array([[0, 1, 2, 3], [6, 7, 8, 9]], dtype=np.int32)
    for name in ("double_tree", "nvls_tree"):
        call = Call("all", "all_reduce", 1e6, find(name))
        columns: dict[str, Any] = {
            "place": groups.ravel(),
            "call": np.zeros(8),
            "kind": np.full(8, CALL),
        }
        graph = step_graph(
            np.arange(16),
            ("compute",),
            columns,
            [[] for _ in range(8)],
            calls=[call],
            groups={"all": groups},
        )
        placed = write(graph, topology).calls
        for each, group in zip(placed, groups, strict=True):
            alone = find(name).on(
                replace(topology, placement=topology.placement[group]), len(group), 1e6
            )
            assert np.array_equal(each.fitted.schedule.peer, alone.schedule.peer)
