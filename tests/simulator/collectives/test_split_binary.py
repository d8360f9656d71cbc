"""Broadcast down a split binary tree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.collectives import find
from simulator.collectives.split_binary import split_binary_broadcast
from simulator.cost_models import trees
from simulator.cost_models.fabric import observe
from simulator.engines import simulate
from simulator.schedules import semantics
from topologies.shapes import full_mesh, star


@given(ranks=st.integers(1, 40), pieces=st.integers(1, 12))
def test_any_number_of_ranks_and_pieces_keeps_its_promise(ranks: int, pieces: int) -> None:
    schedule = split_binary_broadcast(ranks, 1e6, segments=pieces)
    semantics.check(schedule, find("split_binary_broadcast").collective)


@given(
    ranks=st.integers(2, 40), pieces=st.integers(1, 20), latency=st.sampled_from([0.0, 1e-6, 1e-3])
)
def test_it_takes_what_its_closed_form_says(ranks: int, pieces: int, latency: float) -> None:
    timeline = simulate(
        split_binary_broadcast(ranks, 1e6, segments=pieces),
        full_mesh(ranks, bandwidth=1e9, latency=latency, gap=1e-6),
    )
    time = trees.split_binary_broadcast(pieces).time(observe(timeline.routed), ranks, 1e6)
    assert timeline.makespan == pytest.approx(time, rel=1e-9)


def test_a_rank_with_children_sends_a_half_to_each_and_one_to_its_pair() -> None:
    schedule = split_binary_broadcast(7, 4.0, segments=2)
    assert schedule.sent().tolist() == [4.0, 6.0, 6.0, 2.0, 2.0, 2.0, 2.0]


def test_the_root_of_long_data_sends_half_as_much_as_in_a_binary_tree() -> None:
    # V = 64 s: the root of a binary tree sends 2 V, here V. Then half of V is exchanged.
    topology = star(63, bandwidth=1.0)
    times = [
        simulate(find(f"{name}_broadcast:segments=1000").build(63, 64.0), topology).makespan
        for name in ("split_binary", "binary_tree")
    ]
    assert times == pytest.approx([96.0, 128.0], rel=0.02)
