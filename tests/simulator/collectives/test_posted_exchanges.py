"""Exchanges of chunks, exchanges by patterns, and gossip."""

from collections import Counter
from collections.abc import Callable
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from simulator.analysis.bounds import best_bound
from simulator.collectives import find
from simulator.collectives import posted_exchanges as patterns
from simulator.collectives.collective import Pairs
from simulator.collectives.posted_exchanges import exchange, exponential_steps, places, ring_steps
from simulator.collectives.recursive_doubling import (
    chunks,
    recursive_doubling_all_gather,
    recursive_halving_reduce_scatter,
)
from simulator.collectives.ring import ring_all_gather
from simulator.collectives.ring_steps import neighbor_exchange_all_gather
from simulator.collectives.roots import from_root
from simulator.engines import simulate
from simulator.schedules import semantics
from topologies.shapes import SHAPES, nodes, ring, star

PATTERNS = (
    *(patterns.next_rank, patterns.permutation, patterns.incast, patterns.bisection),
    *(patterns.ping_pong, patterns.halo, patterns.torus_neighbors, patterns.stages),
)
every_pattern = pytest.mark.parametrize("pattern", PATTERNS)


def listed(pairs: Pairs) -> list[tuple[int, int]]:
    return list(zip(pairs.source.tolist(), pairs.target.tolist(), strict=True))


@every_pattern
@each_case("ranks", [1, 2, 3, 4, 6, 7, 9, 12, 64])
def test_pairs_are_two_ranks_once_each(pattern: Callable[[int], Pairs], ranks: int) -> None:
    pairs = pattern(ranks)
    assert len({*listed(pairs)}) == len(pairs.source)
    assert all(a != b and min(a, b) >= 0 and max(a, b) < ranks for a, b in listed(pairs))
    sent = np.bincount(pairs.source, pairs.share, ranks)
    assert sent.max(initial=0.0) <= 1 + 1e-12


@every_pattern
@given(ranks=st.integers(2, 40))
def test_every_slot_has_one_pair(pattern: Callable[[int], Pairs], ranks: int) -> None:
    pairs = pattern(ranks)
    place = places(pairs, ranks)
    sent = {*zip(pairs.source.tolist(), place.sent.tolist(), strict=True)}
    received = {*zip(pairs.target.tolist(), place.received.tolist(), strict=True)}
    assert len(sent) == len(received) == len(pairs.source)
    assert not sent & received
    assert place.shares.sum() == pytest.approx(2 * pairs.share.sum())


def test_patterns_of_six_ranks() -> None:
    assert listed(patterns.next_rank(6)) == [(0, 1)]
    assert listed(patterns.incast(4)) == [(1, 0), (2, 0), (3, 0)]
    assert listed(patterns.bisection(5)) == [(0, 2), (1, 3), (2, 0), (3, 1)]
    assert listed(patterns.ping_pong(6)) == [(0, 3), (4, 1), (2, 5)]
    assert listed(patterns.ping_pong(7)) == listed(patterns.ping_pong(6))
    assert listed(patterns.stages(3)) == [(0, 1), (1, 2), (1, 0), (2, 1)]
    # 0 1 2
    # 3 4 5
    neighbors = {(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)}
    both_ways = neighbors | {(b, a) for a, b in neighbors}
    assert {*listed(patterns.halo(6))} == both_ways
    round_the_ends = {(0, 2), (2, 0), (3, 5), (5, 3)}
    assert {*listed(patterns.torus_neighbors(6))} == both_ways | round_the_ends


def test_a_permutation_is_one_cycle_and_has_a_seed() -> None:
    follows = dict(listed(patterns.permutation(9)))
    rank, seen = 0, set[int]()
    while rank not in seen:
        seen.add(rank)
        rank = follows[rank]
    assert len(seen) == 9
    assert listed(patterns.permutation(9, seed=1)) != listed(patterns.permutation(9))


def test_other_slots_than_those_of_the_pattern_are_refused() -> None:
    collective = exchange("stages", patterns.stages)
    with pytest.raises(ValueError, match="3 slots: the pattern has 4"):
        collective.postcondition(np.zeros((4, 3), dtype=np.uint64), None)


def test_a_push_from_another_root_goes_to_the_next_rank() -> None:
    schedule = from_root(find("push"), 3).build(4, 10.0)
    assert (schedule.rank.tolist(), schedule.peer.tolist()) == ([3], [0])
    assert schedule.shares.tolist() == [[0, 1], [0, 0], [0, 0], [1, 0]]


@pytest.mark.parametrize("name", ["halo", "neighbors"])
def test_neighbors_on_their_own_grid_wait_for_nobody(name: str) -> None:
    machine = SHAPES["torus" if name == "neighbors" else "grid"](16, bandwidth=1.0)
    algorithm = find(name)
    makespan = simulate(algorithm.build(16, 16.0), machine).makespan
    assert makespan == best_bound(algorithm.collective, machine, 16, 16.0).seconds == 4.0


def test_a_bisection_loads_the_trunk() -> None:
    """On a line of four, both messages of each half cross the middle wire."""
    machine = SHAPES["line"](4, bandwidth=1.0)
    algorithm = find("bisection")
    assert simulate(algorithm.build(4, 8.0), machine).makespan == 16.0
    assert best_bound(algorithm.collective, machine, 4, 8.0).seconds == 16.0


@given(nbytes=st.floats(1.0, 1e9), bandwidth=st.floats(1e3, 1e12), latency=st.floats(0.0, 1e-3))
def test_a_ping_pong_of_one_pair_is_a_shift(
    nbytes: float, bandwidth: float, latency: float
) -> None:
    machine = nodes(2, per_node=1, bandwidth=bandwidth, latency=latency)
    ping_pong, shift = (
        simulate(find(name).build(2, nbytes), machine).makespan for name in ("ping_pong", "shift")
    )
    assert ping_pong == pytest.approx(shift, rel=1e-12)


@pytest.mark.parametrize("pairs", [1, 2, 3, 4, 5, 8])
def test_pairs_that_ping_pong_share_the_port_of_their_node(pairs: int) -> None:
    """Every other pair sends back, and takes nothing from those that send forward."""
    machine = nodes(2 * pairs, per_node=pairs, bandwidth=1.0)
    algorithm = find("ping_pong")
    makespan = simulate(algorithm.build(2 * pairs, 10.0), machine).makespan
    assert makespan == 10.0 * ceil(pairs / 2)
    assert best_bound(algorithm.collective, machine, 2 * pairs, 10.0).seconds == makespan


def test_the_neighbors_in_a_ring_count() -> None:
    schedule = find("gossip_ring").build(5, 1.0)
    data = np.zeros((5, schedule.slots), dtype=np.uint64)
    data[:, 0] = [1, 10, 100, 1000, 10000]
    assert semantics.run(schedule, data)[:, 0].tolist() == [10011, 111, 1110, 11100, 11001]


def test_neighbors_count_once() -> None:
    assert (ring_steps(1), ring_steps(2), ring_steps(3)) == ([], [1], [1, 2])
    assert exponential_steps(1) == []
    assert find("gossip_exponential").build(8, 8.0).sent().tolist() == [24.0] * 8


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


def messages(name: str) -> list[tuple[int, float]]:
    """Distance and chunks of the messages of rank 0, in order."""
    schedule = find(name).build(16, 16.0)
    chosen = (schedule.rank == 0) & schedule.remote
    distance = (schedule.peer - schedule.rank) % 16
    near = np.minimum(distance, 16 - distance)[chosen]
    return list(zip(near.tolist(), schedule.nbytes[chosen].tolist(), strict=True))


def test_large_messages_stay_near() -> None:
    assert messages("pat_all_gather") == [(8, 1.0), (4, 2.0), (2, 4.0), (1, 8.0)]
    assert messages("pat_reduce_scatter") == [(1, 8.0), (2, 4.0), (4, 2.0), (8, 1.0)]


def test_a_small_buffer_needs_more_messages() -> None:
    small = messages("pat_all_gather:chunks=2")
    assert small == [(8, 1.0), (4, 2.0), *[(2, 2.0)] * 2, *[(1, 2.0)] * 4]
