"""Broadcasts by a scatter and an all-gather."""

import pytest

from simulator.collectives import find
from simulator.collectives.van_de_geijn import scatter_doubling_broadcast, scatter_ring_broadcast
from simulator.engines import simulate
from topologies.shapes import star


@pytest.mark.parametrize("build", [scatter_doubling_broadcast, scatter_ring_broadcast])
def test_long_messages_cross_a_port_twice(build: object) -> None:
    assert callable(build)
    schedule = build(8, 8.0)
    assert simulate(schedule, star(8, bandwidth=1.0)).makespan == 14.0


def test_short_messages_take_the_latencies_of_both_phases() -> None:
    topology = star(8, bandwidth=float("inf"), latency=0.5)
    assert simulate(scatter_doubling_broadcast(8, 1.0), topology).makespan == 6.0
    assert simulate(scatter_ring_broadcast(8, 1.0), topology).makespan == 10.0


def test_ranks_that_fold_get_v_at_the_end() -> None:
    assert simulate(scatter_doubling_broadcast(5, 4.0), star(5, bandwidth=1.0)).makespan == 10.0


def test_nobody_gets_a_chunk_twice() -> None:
    schedule = scatter_ring_broadcast(4, 4.0)
    # Rank 0 has all four chunks before the ring, rank 2 has two.
    assert (schedule.source < 0).sum() == 3 + 1
    assert schedule.volume == 12.0


def test_a_binomial_tree_is_better_for_short_messages_alone() -> None:
    topology = star(16, bandwidth=1e9, latency=1e-6)

    def seconds(name: str, nbytes: float) -> float:
        return simulate(find(name).build(16, nbytes), topology).makespan

    assert seconds("tree_broadcast", 1e3) < seconds("scatter_allgather_broadcast", 1e3)
    assert seconds("tree_broadcast", 1e7) > seconds("scatter_allgather_broadcast", 1e7)
