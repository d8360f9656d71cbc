"""Binary, split binary and k-nomial trees."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.collectives import find
from simulator.collectives.binary_trees import (
    binary_tree_all_reduce,
    binary_tree_broadcast,
    binary_tree_reduce,
    children,
    split_binary_broadcast,
)
from simulator.cost_models import trees
from simulator.cost_models.fabric import observe
from simulator.engines import simulate
from simulator.schedules import semantics
from topologies.shapes import full_mesh, star
from topologies.topology import Topology

BUILDS = {
    "binary_tree": binary_tree_all_reduce,
    "binary_tree_reduce": binary_tree_reduce,
    "binary_tree_broadcast": binary_tree_broadcast,
    "split_binary_broadcast": split_binary_broadcast,
}


@pytest.mark.parametrize("name", BUILDS)
@given(ranks=st.integers(1, 30), pieces=st.integers(1, 12))
def test_any_number_of_ranks_and_pieces_keeps_its_promise(
    name: str, ranks: int, pieces: int
) -> None:
    semantics.check(BUILDS[name](ranks, 1e6, segments=pieces), find(name).collective)


@pytest.mark.parametrize(
    ("name", "shape"), [("binary_tree_broadcast", star), ("split_binary_broadcast", full_mesh)]
)
@given(
    ranks=st.integers(2, 40), pieces=st.integers(1, 20), latency=st.sampled_from([0.0, 1e-6, 1e-3])
)
def test_a_broadcast_takes_what_its_closed_form_says(
    name: str, shape: Callable[..., Topology], ranks: int, pieces: int, latency: float
) -> None:
    machine = shape(ranks, bandwidth=1e9, latency=latency, gap=1e-6)
    timeline = simulate(BUILDS[name](ranks, 1e6, segments=pieces), machine)
    time = getattr(trees, name)(pieces).time(observe(timeline.routed), ranks, 1e6)
    assert timeline.makespan == pytest.approx(time, rel=1e-9)


def test_the_root_of_a_reduce_takes_in_twice_what_there_is() -> None:
    # However long it is, a tree's time goes by 2 V, and a chain's by V.
    for ranks in (7, 31):
        times = [
            simulate(binary_tree_reduce(ranks, v, segments=64), star(ranks, bandwidth=1.0)).makespan
            for v in (1, 2)
        ]
        assert times[1] == pytest.approx(2 * times[0])
        assert 2.0 <= times[0] < 2.4


def test_a_rank_with_children_sends_a_half_to_each_and_one_to_its_pair() -> None:
    schedule = split_binary_broadcast(7, 4.0, segments=2)
    assert schedule.sent().tolist() == [4.0, 6.0, 6.0, 2.0, 2.0, 2.0, 2.0]


def test_a_radix_beyond_the_ranks_is_a_linear_tree() -> None:
    for radix in (6, 10**12):
        ((parent, below),) = children(6, radix)
        assert (parent, below.tolist()) == (0, [1, 2, 3, 4, 5])
