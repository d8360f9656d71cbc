"""Tasks that wait for each other: computations, calls and messages of ranks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refusal
from simulator.analysis import memory
from simulator.collectives import find
from simulator.collectives.joined_calls import Call, join
from simulator.collectives.task_graph import GroupCall, Message, Task, TaskGraph, write
from simulator.engines import simulate
from topologies.catalogue import find as machine
from topologies.shapes import full_mesh, star
from topologies.topology import Floats, Topology

RING = find("ring")


def times(graph: TaskGraph, topology: Topology) -> tuple[Floats, Floats]:
    """When each task starts and ends, by both engines."""
    written = write(graph, topology)
    timeline = simulate(written.schedule, written.topology, "reference")
    again = simulate(written.schedule, written.topology, "compiled")
    assert np.array_equal(timeline.finish, again.finish)
    return timeline.start[written.first], timeline.finish[written.last]


@given(st.data())
def test_tasks_wait_for_tasks_and_the_ranks_of_a_call_for_each_other(data: st.DataObject) -> None:
    ranks = data.draw(st.integers(2, 4))
    tasks, calls, messages = list[Task](), list[GroupCall](), list[Message]()

    def add(rank: int, lane: int) -> int:
        before = [k for k, task in enumerate(tasks) if task.rank == rank]
        after = tuple(
            data.draw(st.lists(st.sampled_from(before or [0]), max_size=2 * bool(before)))
        )
        seconds = data.draw(st.sampled_from([0.0, 1.0, 2.5]))
        tasks.append(Task("task", rank, lane, after, seconds))
        return len(tasks) - 1

    for _ in range(data.draw(st.integers(1, 8))):
        what = data.draw(st.sampled_from(["compute", "call", "message"]))
        some = data.draw(st.permutations(range(ranks)))
        if what == "compute":
            add(some[0], 0)
        elif what == "message":
            messages.append(Message(add(some[0], 1), add(some[1], 1), 3.0))
        else:
            members = sorted(some[: data.draw(st.integers(2, ranks))])
            group = ",".join(map(str, members))
            calls.append(GroupCall(tuple(add(rank, 1) for rank in members), RING, 8.0, group))
    start, end = times(TaskGraph(ranks, tasks, calls, messages), star(ranks, bandwidth=1.0))
    for number, task in enumerate(tasks):
        assert all(end[before] <= start[number] for before in task.after)
        assert end[number] >= start[number]
    for call in calls:
        assert end[list(call.tasks)].min() >= start[list(call.tasks)].max()
    for message in messages:
        assert end[message.receive] >= start[message.send] + 3.0


@pytest.mark.parametrize("name", ["ring", "tree", "halving_doubling", "rings", "nvls"])
def test_calls_of_a_group_take_what_joined_calls_take(name: str) -> None:
    """They share their buffers, and joined calls have buffers of their own."""
    algorithm = find(name)
    topology = machine("hgx_h100:nodes=1").build(8)
    groups = {"first": (0, 1, 2, 3), "second": (4, 5, 6, 7)}
    calls, tasks, graph_calls = list[Call](), list[Task](), list[GroupCall]()
    for nbytes in (1e6, 2e6, 1e6):
        for group, members in groups.items():
            calls.append(Call(algorithm, members, nbytes))
            numbers = range(len(tasks), len(tasks) + len(members))
            tasks += [Task("call", rank, 0) for rank in members]
            graph_calls.append(GroupCall(tuple(numbers), algorithm, nbytes, group))
    joined = join(calls, topology, 8)
    expected = simulate(joined.schedule, joined.topology).makespan
    _, end = times(TaskGraph(8, tasks, graph_calls), topology)
    assert end.max() == pytest.approx(expected, rel=1e-12)


def test_a_message_does_not_wait_for_its_receiver() -> None:
    tasks = [Task("send", 0, 1), Task("busy", 1, 0, seconds=9.0), Task("receive", 1, 1, (1,))]
    graph = TaskGraph(2, tasks, messages=[Message(0, 2, 4.0)])
    start, end = times(graph, full_mesh(2, bandwidth=1.0))
    assert end.tolist() == [4.0, 9.0, 9.0]
    assert start[2] == 9.0


def test_tasks_in_a_circle_are_refused() -> None:
    circle = [Task("first", 0, 0, (1,)), Task("second", 0, 0, (0,))]
    text = refusal(write, TaskGraph(2, circle), star(2, bandwidth=1.0))
    assert "2 tasks wait for each other in a circle: 'first' of rank 0, 'second' of rank 0" in text
    crossed = [Task("a", 0, 0), Task("b", 0, 0, (0,)), Task("b", 1, 0), Task("a", 1, 0, (2,))]
    calls = [GroupCall((0, 3), RING, 8.0, "1"), GroupCall((1, 2), RING, 8.0, "2")]
    assert "in a circle" in refusal(write, TaskGraph(2, crossed, calls), star(2, bandwidth=1.0))


def test_more_operations_than_fit_are_refused(free: Callable[[float], None]) -> None:
    free(1e6)
    tasks = [Task("sum", rank, 0) for rank in range(64)]
    graph = TaskGraph(64, tasks, [GroupCall(tuple(range(64)), RING, 8.0, "all")])
    topology = star(64, bandwidth=1.0)
    assert "the tasks have 8.13e+03 operations" in refusal(write, graph, topology)
    assert len(write(graph, topology, force=True).schedule) > 8000


def test_groups_hold_the_buffer_of_their_largest_call() -> None:
    tasks = [Task("sum", rank, 0) for rank in (0, 1, 0, 1)]
    calls = [GroupCall((0, 1), RING, 8.0, "all"), GroupCall((2, 3), RING, 40.0, "all")]
    written = write(TaskGraph(3, tasks, calls), star(3, bandwidth=1.0))
    resident = memory.trace(written.schedule, simulate(written.schedule, written.topology))
    alone = RING.build(2, 40.0)
    peak = memory.trace(alone, simulate(alone, star(2, bandwidth=1.0))).peak
    assert resident.peaks.tolist() == [peak, peak, 0.0]
