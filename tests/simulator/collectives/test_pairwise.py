"""All-to-all by pairs, with and without waiting for each step."""

import pytest

from simulator.collectives import find
from simulator.collectives.pairwise_sync import pairwise_sync_all_to_all
from simulator.engines import simulate
from topologies.shapes import star


def test_waiting_costs_a_latency_a_step() -> None:
    topology = star(9, bandwidth=1e9, latency=1e-6)
    fast, slow = (
        simulate(find(name).build(9, 9.0), topology).makespan
        for name in ("pairwise", "pairwise_sync")
    )
    assert fast == pytest.approx(2e-6 + 8e-9)
    assert slow == pytest.approx(8 * (2e-6 + 1e-9))


def test_a_window_of_all_messages_waits_for_none() -> None:
    topology = star(7, bandwidth=1.0, latency=0.5)
    windowed = pairwise_sync_all_to_all(7, 7.0, window=6)
    assert simulate(windowed, topology).makespan == 7.0
    # One by one, each of six messages takes 1 s for the route and 1 s for its bytes.
    assert simulate(pairwise_sync_all_to_all(7, 7.0), topology).makespan == 12.0


def test_linear_begins_with_the_rank_before() -> None:
    schedule = find("linear_all_to_all").build(4, 4.0)
    first = schedule.peer[schedule.rank == 0][:3].tolist()
    assert first == [3, 2, 1]
