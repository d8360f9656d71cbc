"""Exchanges of chunks: neighbour exchange, recursive doubling and halving, ring exchange."""

from collections import Counter

import numpy as np

from grouped_cases import each_case
from simulator.analysis.bounds import best_bound
from simulator.collectives import find
from simulator.collectives.recursive_doubling import (
    chunks,
    recursive_doubling_all_gather,
    recursive_halving_reduce_scatter,
)
from simulator.collectives.ring import ring_all_gather
from simulator.collectives.ring_steps import neighbor_exchange_all_gather
from simulator.engines import simulate
from topologies.shapes import ring, star

BUILDS = {
    "recursive_doubling_all_gather": recursive_doubling_all_gather,
    "recursive_halving_reduce_scatter": recursive_halving_reduce_scatter,
    "neighbor_exchange": neighbor_exchange_all_gather,
}


@each_case("name", ["recursive_doubling_all_gather", "recursive_halving_reduce_scatter"])
@each_case(("ranks", "seconds"), [(4, 3.0), (8, 7.0), (3, 6.0), (5, 11.0), (6, 13.0), (7, 14.0)])
def test_chunks_on_the_longest_way_by_hand(name: str, ranks: int, seconds: float) -> None:
    # A chunk a second. p = 3: 2 in the exchange; 5: 2 + 3; 6: 2 + 4; 7: 2 + 4; and p + 1 to fold
    # and unfold.
    schedule = BUILDS[name](ranks, float(ranks))
    assert simulate(schedule, star(ranks, bandwidth=1.0)).makespan == seconds
    assert find(name).cost.steps(ranks) == schedule.steps


def test_chunks_of_powers_of_two_are_one_each() -> None:
    assert chunks(8).tolist() == list(range(9))
    assert chunks(7).tolist() == [0, 2, 4, 6, 7]
    assert chunks(1).tolist() == [0, 1]


def test_neighbours_exchange_one_chunk_then_two_at_a_time() -> None:
    schedule = neighbor_exchange_all_gather(8, 8.0)
    assert Counter(schedule.nbytes.tolist()) == {1.0: 8, 2.0: 24}
    assert set(((schedule.peer - schedule.rank) % 8).tolist()) == {1, 7}
    assert [(schedule.peer[k::8] - schedule.rank[k::8]).tolist() for k in (0, 1)] == [
        [1, 7, 1, 7],
        [-1, 1, -1, 1],
    ]


def test_an_odd_number_of_neighbours_is_a_ring() -> None:
    odd, ring = neighbor_exchange_all_gather(7, 7.0), ring_all_gather(7, 7.0)
    assert np.array_equal(odd.peer, ring.peer)
    assert np.array_equal(odd.source, ring.source)


def test_every_rank_meets_every_block() -> None:
    schedule = find("ring_exchange").build(5, 1.0)
    holding, met = list(range(5)), [{rank} for rank in range(5)]
    for step in range(4):
        assert schedule.phases[step] == f"step {step}"
        senders = np.flatnonzero(schedule.remote & (schedule.phase == step))
        moved = {schedule.peer[i]: holding[schedule.rank[i]] for i in senders}
        holding = [moved[rank] for rank in range(5)]
        for rank in range(5):
            met[rank].add(holding[rank])
    assert met == [{*range(5)}] * 5


def test_a_one_way_ring_has_twice_the_bound_of_a_two_way_machine() -> None:
    algorithm, machine = find("ring_exchange"), ring(6, bandwidth=1.0)
    makespan = simulate(algorithm.build(6, 8.0), machine).makespan
    assert makespan == 40.0
    assert best_bound(algorithm.collective, machine, 6, 8.0).seconds == 20.0
