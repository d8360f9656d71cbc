"""Broadcast, reduce and both down and up a binary tree, in pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from simulator.analysis import memory
from simulator.collectives import find
from simulator.collectives.binary_tree import (
    binary_tree_all_reduce,
    binary_tree_broadcast,
    binary_tree_reduce,
)
from simulator.cost_models import trees
from simulator.cost_models.fabric import observe
from simulator.engines import simulate
from simulator.schedules import semantics
from topologies.shapes import full_mesh, star

BUILDS = {
    "binary_tree": binary_tree_all_reduce,
    "binary_tree_reduce": binary_tree_reduce,
    "binary_tree_broadcast": binary_tree_broadcast,
}


@pytest.mark.parametrize("name", BUILDS)
@given(ranks=st.integers(1, 20), pieces=st.integers(1, 12))
def test_any_number_of_ranks_and_pieces_keeps_its_promise(
    name: str, ranks: int, pieces: int
) -> None:
    semantics.check(BUILDS[name](ranks, 1e6, segments=pieces), find(name).collective)


@given(
    ranks=st.integers(2, 40), pieces=st.integers(1, 20), latency=st.sampled_from([0.0, 1e-6, 1e-3])
)
def test_a_broadcast_takes_what_its_closed_form_says(
    ranks: int, pieces: int, latency: float
) -> None:
    timeline = simulate(
        binary_tree_broadcast(ranks, 1e6, segments=pieces),
        star(ranks, bandwidth=1e9, latency=latency, gap=1e-6),
    )
    time = trees.binary_tree_broadcast(pieces).time(observe(timeline.routed), ranks, 1e6)
    assert timeline.makespan == pytest.approx(time, rel=1e-9)


def test_seven_ranks_and_four_pieces_by_hand() -> None:
    # Routes of 1 s, pieces of 10 s. The root sends 8, the last is through at 81 s; rank 2 passes it
    # on to 5, then to 6.
    schedule = binary_tree_broadcast(7, 40.0, segments=4)
    assert simulate(schedule, star(7, bandwidth=1.0, latency=0.5)).makespan == 81.0 + 20.0 + 1.0


def test_the_root_of_a_reduce_takes_in_twice_what_there_is() -> None:
    # However long it is, a tree's time goes by 2 V, and a chain's by V.
    for ranks in (7, 31):
        times = [
            simulate(binary_tree_reduce(ranks, v, segments=64), star(ranks, bandwidth=1.0)).makespan
            for v in (1, 2)
        ]
        assert times[1] == pytest.approx(2 * times[0])
        assert 2.0 <= times[0] < 2.4


@each_case("name", BUILDS)
@each_case("ranks", [2, 3, 4, 8])
def test_each_moves_and_holds_what_its_closed_form_says(name: str, ranks: int) -> None:
    schedule, cost = find(name).build(ranks, 3360.0), find(name).cost
    usage = memory.trace(schedule, simulate(schedule, full_mesh(ranks, bandwidth=1.0)))
    assert schedule.volume == pytest.approx(cost.volume(ranks) * 3360.0)
    assert schedule.steps == cost.steps(ranks)
    assert usage.peak == pytest.approx(cost.peak(ranks) * 3360.0)
    assert usage.peak_redundant == pytest.approx(cost.redundant(ranks) * 3360.0)


def test_nothing_is_broadcast_before_all_is_reduced() -> None:
    schedule = binary_tree_all_reduce(6, 8.0, segments=8)
    timeline = simulate(schedule, star(6, bandwidth=1.0))
    assert timeline.finish[schedule.reduces].max() <= timeline.start[~schedule.reduces].min()
