"""The ranks of a node, and operations that are numbered by their places."""

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from folded import assert_alike, groups
from grouped_cases import each_case
from simulator.collectives import Algorithm, algorithms
from simulator.collectives.layouts import by_place, ranks_of_a_node, ranks_of_each_node
from simulator.engines import Engine, simulate
from simulator.schedules.folded_routes import NotSymmetric
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import fold, rotations
from topologies.clusters import cluster
from topologies.shapes import nodes, star
from topologies.variants import placed

BY_PLACE = [algorithm for algorithm in algorithms().values() if algorithm.by_place]


def test_ranks_of_a_node() -> None:
    assert ranks_of_a_node(star(4, bandwidth=1e9), 4) == 1
    assert ranks_of_a_node(cluster("hgx_h100", 2), 16) == 8
    assert ranks_of_a_node(cluster("hgx_h100", 2), 4) == 4


def test_ranks_of_each_node() -> None:
    machine = cluster("hgx_h100", 3)
    assert [ranks_of_each_node(machine, ranks) for ranks in (4, 8, 12, 16, 24)] == [4, 8, 1, 8, 8]
    assert ranks_of_each_node(placed(machine, "round-robin"), 24) == 1
    assert ranks_of_each_node(star(4, bandwidth=1e9), 4) == 1


def test_all_ranks_are_there_once() -> None:
    builder = ScheduleBuilder(12, 1.0)
    assert by_place(builder, 4).tolist() == [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]
    assert by_place(builder, 1).tolist() == [[*range(12)]]
    folded = ScheduleBuilder(fold(12, rotations(12, 4)), 1.0)
    assert by_place(folded, 4).tolist() == [[0], [1], [2], [3]]
    for stride in (1, 2, 6):
        with pytest.raises(NotSymmetric, match="other places"):
            by_place(ScheduleBuilder(fold(12, rotations(12, stride)), 1.0), 4)


def waits(schedule: Schedule) -> dict[tuple[int, ...], set[tuple[int, ...]]]:
    """What each operation waits for. Here operations are told by what they do."""
    names = "rank", "peer", "source", "target", "count", "phase"
    rows = np.stack([getattr(schedule, name) for name in names], axis=1).tolist()
    keys = [tuple(row) for row in rows]
    assert len({*keys}) == len(keys)
    return {
        key: {keys[other] for other in schedule.predecessors(number).tolist()}
        for number, key in enumerate(keys)
    }


@each_case("algorithm", BY_PLACE)
@each_case(("ranks", "per_node"), [(4, 2), (8, 4), (12, 2), (12, 4)])
def test_places_change_the_numbers_alone(algorithm: Algorithm, ranks: int, per_node: int) -> None:
    topology = nodes(ranks, bandwidth=1.0, per_node=per_node)
    on_machine = algorithm.on(topology, ranks, 4.0 * ranks).schedule
    assert waits(on_machine) == waits(algorithm.build(ranks, 4.0 * ranks))


@given(algorithm=st.sampled_from(BY_PLACE), data=st.data())
def test_ranks_of_a_node_stand_for_those_of_all(algorithm: Algorithm, data: st.DataObject) -> None:
    """They share a port, and meet there."""
    per_node = data.draw(st.sampled_from((1, 2, 3, 4)))
    ranks = per_node * data.draw(st.integers(2, 6))
    topology = nodes(
        ranks,
        bandwidth=2.0,
        latency=data.draw(st.sampled_from((0.0, 0.5))),
        per_node=per_node,
        reduction=data.draw(st.sampled_from((0.0, 0.25))),
    )
    engine: Engine = data.draw(st.sampled_from(("reference", "compiled")))
    group = data.draw(st.sampled_from([None, *groups(algorithm.shifts(ranks))]))
    if group is None:
        return
    try:
        fitted = algorithm.on(topology, ranks, 4.0 * ranks, group)
        folded = simulate(fitted.schedule, topology, engine)
    except NotSymmetric:
        event("refused")
        return
    event("folded")
    whole = simulate(algorithm.on(topology, ranks, 4.0 * ranks).schedule, topology, engine)
    assert_alike(whole, folded)
