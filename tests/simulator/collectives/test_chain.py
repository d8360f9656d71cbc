"""Broadcast and reduce along a row of ranks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.collectives import find
from simulator.collectives.chain import chain_broadcast, chain_reduce
from simulator.cost_models import neighbors
from simulator.cost_models.fabric import observe
from simulator.engines import simulate
from simulator.schedules import semantics
from topologies.shapes import star

BUILDS = {"chain_broadcast": chain_broadcast, "chain_reduce": chain_reduce}


@pytest.mark.parametrize("name", BUILDS)
@given(
    ranks=st.integers(2, 12), pieces=st.integers(1, 20), gamma=st.sampled_from([0.0, 1e-10, 3e-9])
)
def test_any_number_of_pieces_keeps_its_promise_and_its_time(
    name: str, ranks: int, pieces: int, gamma: float
) -> None:
    schedule = BUILDS[name](ranks, 1e6, segments=pieces)
    semantics.check(schedule, find(name).collective)
    cost = getattr(neighbors, name)(pieces)
    timeline = simulate(
        schedule, star(ranks, bandwidth=1e9, latency=1e-5, gap=1e-6, reduction=gamma)
    )
    assert timeline.makespan == pytest.approx(
        cost.time(observe(timeline.routed), ranks, 1e6), rel=1e-9
    )


@pytest.mark.parametrize("name", BUILDS)
def test_five_ranks_and_four_pieces_by_hand(name: str) -> None:
    # 4 routes of 1 s; V = 40 B in pieces of 10 s at 1 B/s, 4 + 3 of them one after the other.
    schedule = BUILDS[name](5, 40.0, segments=4)
    assert simulate(schedule, star(5, bandwidth=1.0, latency=0.5)).makespan == 4 * 1.0 + 7 * 10.0


def test_a_reduction_slower_than_the_wire_sets_the_pace() -> None:
    # 3 ranks, 2 pieces of 10 s to send and 30 s to merge: 2 (10 + 30) until the first is through,
    # 30 for the other.
    schedule = chain_reduce(3, 20.0, segments=2)
    assert simulate(schedule, star(3, bandwidth=1.0, reduction=3.0)).makespan == 110.0


@pytest.mark.parametrize("name", BUILDS)
def test_small_messages_take_a_latency_a_rank(name: str) -> None:
    for ranks in (2, 3, 9, 33):
        schedule = BUILDS[name](ranks, 1e-9)
        assert simulate(
            schedule, star(ranks, bandwidth=1.0, latency=0.5)
        ).makespan == pytest.approx(ranks - 1)
