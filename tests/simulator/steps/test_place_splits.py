"""Places that are split as far as ranks differ."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from law_cases import tries
from random_works import LARGE, SMALL, works
from refusals import refusal
from simulator.collectives import find
from simulator.collectives.collective import Algorithm
from simulator.parallel.degrees import Degrees
from simulator.parallel.passes import COMPUTE
from simulator.parallel.step import Step, write
from simulator.parallel.step_work import Work
from simulator.steps.group_meetings import joint_calls, meetings
from simulator.steps.kinds import RECEIVE, TRANSFER
from simulator.steps.place_splits import classes, expand, in_order, split
from simulator.steps.step_graph import MESSAGE, Call, StepGraph, step_graph
from task_graphs import finish_of
from topologies.topology import Floats


def ordered(step: Step) -> StepGraph:
    """The graph of a step, whose tasks follow each other on their lanes as in the step."""
    return in_order(step.graph, np.lexsort((step.timeline.finish, step.timeline.start)))


def split_by(graph: StepGraph, colour: npt.ArrayLike) -> StepGraph:
    """The graph whose places differ by their colours."""
    return split(graph, classes(graph, colour))


def slower(graph: StepGraph, factors: Floats) -> StepGraph:
    """The graph with computations of each place that take `factors` times as long."""
    graph.seconds[graph.lane == COMPUTE] *= factors[graph.place[graph.lane == COMPUTE]]
    return graph


def graph_of(degrees: Degrees) -> StepGraph:
    """Each place computes, then meets its tp and dp groups, and sends to the next place."""
    pp = degrees.pp
    kinds = ["tp", "dp", *(f"{place} to {place + 1}" for place in range(pp - 1))]
    columns: dict[str, Any] = {"place": [], "peer": [], "lane": [], "call": [], "seconds": []}
    after: list[list[int]] = []
    for place in range(pp):
        calls = [-1, 0, 1, *([2 + place] if place < pp - 1 else [])]
        first = len(after)
        after += [
            [first - 1] if place else [],
            *([row] for row in range(first, first + len(calls) - 1)),
        ]
        columns["place"] += [place] * len(calls)
        columns["peer"] += [-1, -1, -1, place + 1][: len(calls)]
        columns["lane"] += [0, 1, 1, 1][: len(calls)]
        columns["call"] += calls
        columns["seconds"] += [1.0, 0.25, 0.5, 0.125][: len(calls)]
    collectives = ["all_reduce", "all_reduce", *[MESSAGE] * (pp - 1)]
    return step_graph(
        degrees.devices,
        ("compute", "communication"),
        columns,
        after,
        calls=[Call(kind, what, 8.0) for kind, what in zip(kinds, collectives, strict=True)],
        groups={kind: degrees.groups(kind) for kind in kinds},
    )


def test_one_slow_rank_makes_four_places_of_each_device() -> None:
    degrees = Degrees(dp=16, tp=8, pp=8)
    colour = np.arange(degrees.ranks) == 389
    few = split_by(graph_of(degrees), colour)
    assert few.places == 32
    ranks = np.flatnonzero(few.place_of == few.place_of[389])
    assert ranks.tolist() == [389]
    assert sorted(np.bincount(few.place_of).tolist()) == [1] * 8 + [7] * 8 + [15] * 8 + [105] * 8
    assert len(joint_calls(few)) == 4 * 31
    assert split_by(few, np.zeros(degrees.ranks)).places == 32


def test_places_without_a_difference_stay() -> None:
    graph = graph_of(Degrees(dp=4, tp=2, pp=4))
    same = split_by(graph, np.zeros(graph.ranks))
    for name in ("place_of", "place", "peer", "indptr", "indices", "seconds"):
        assert getattr(same, name).tolist() == getattr(graph, name).tolist()


def test_ranks_are_split_as_far_as_they_differ_in_any_order_of_degrees() -> None:
    graph = graph_of(Degrees(dp=4, tp=2, pp=3, order="pp-dp-cp-tp"))
    every = split_by(graph, np.arange(graph.ranks))
    assert every.place_of.tolist() == list(range(24))
    few = split_by(graph, np.arange(24) == 4)
    assert few.places == 12
    # Of each place, all ranks wait for the partners of the same place.
    expected, found = (finish_of(slower(each, np.ones(each.places))) for each in (every, few))
    assert found.max() == expected.max() == 3 * 1.75 + 2 * 0.125


@tries(20, 100)
@given(st.data())
def test_split_places_take_the_times_of_all_ranks(data: st.DataObject) -> None:
    """One or two slow ranks: the coarsest partition has the times of a place for each rank."""
    large = data.draw(st.booleans())
    work: Work = data.draw(works(LARGE, 4) if large else works(SMALL))
    graph = ordered(write(work))
    slow = data.draw(
        st.dictionaries(
            st.integers(0, graph.ranks - 1), st.sampled_from((0.5, 1.5, 3.0)), max_size=2
        )
    )
    factors = np.array([slow.get(rank, 1.0) for rank in range(graph.ranks)])
    few, every = split_by(graph, factors), split_by(graph, np.arange(graph.ranks))
    leader = np.unique(few.place_of, return_index=True)[1]
    found, expected = finish_of(slower(few, factors[leader])), finish_of(slower(every, factors))
    for rank, place in enumerate(few.place_of.tolist()):
        assert found[few.place == place] == pytest.approx(expected[every.place == rank], rel=1e-9)


@tries(10, 50)
@given(works(SMALL))
def test_a_straggler_that_is_not_slower_changes_nothing(work: Work) -> None:
    step = write(work)
    graph = ordered(step)
    few = split_by(graph, np.arange(graph.ranks) == 1)
    assert few.places >= graph.places + 1
    assert finish_of(few).max() == pytest.approx(step.timeline.makespan, rel=1e-9)


def test_groups_whose_places_differ_in_their_calls_are_refused() -> None:
    graph = graph_of(Degrees(dp=2, tp=2, pp=2))
    few = split_by(graph, np.arange(8) == 1)
    few.call[np.flatnonzero(few.call == 0)[-1]] = -1
    assert "differ in their calls" in refusal(joint_calls, few)


def test_tasks_of_a_lane_follow_each_other_in_an_order() -> None:
    places = np.array([0, 0, 1, 1])
    free = step_graph(places, ("compute",), {"place": [0, 0, 1], "kind": [0, 1, 2]}, [[], [], []])
    graph = in_order(free, np.array([1, 2, 0]))
    assert graph.kind.tolist() == [1, 2, 0]
    assert [graph.predecessors(task).tolist() for task in range(3)] == [[], [], [0]]


def test_two_devices_that_share_gradients_make_one_call() -> None:
    degrees = Degrees(dp=2, pp=2)
    graph = step_graph(
        np.array([0, 0, 1, 1]),
        ("compute", "tied"),
        {"place": [0, 1, 0, 1, 0], "lane": [0, 0, 1, 1, 1], "call": [-1, -1, 0, 0, 1]},
        [[], [], [0], [1], [2]],
        calls=[Call("0 to 1", "all_reduce", 8.0), Call("0 to 1", MESSAGE, 8.0)],
        groups={"0 to 1": degrees.groups("0 to 1")},
    )
    assert joint_calls(graph).tolist() == [0, 1, 2, 2, 4]


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
