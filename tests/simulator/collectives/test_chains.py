"""Chains, scans, scatter, gather, van de Geijn's broadcast, and barriers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from simulator.collectives import find, of_collective
from simulator.collectives.chains import (
    chain_broadcast,
    chain_reduce,
    chains_broadcast,
    chains_reduce,
)
from simulator.collectives.roots import from_root
from simulator.collectives.scatter_gather import BARRIER, scatter_ring_broadcast
from simulator.cost_models import neighbors
from simulator.cost_models.fabric import observe
from simulator.engines import simulate
from simulator.schedules import semantics
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.semantics import absent
from topologies.clusters import cluster
from topologies.shapes import ring, star

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


ALONG_RINGS = {"chains_broadcast": chains_broadcast, "chains_reduce": chains_reduce}
CHAIN = {"chains_broadcast": "chain_broadcast", "chains_reduce": "chain_reduce"}


@pytest.mark.parametrize("name", ALONG_RINGS)
@given(
    seed=st.integers(0, 2**32 - 1),
    ranks=st.integers(2, 9),
    chains=st.integers(1, 4),
    pieces=st.integers(1, 12),
)
def test_any_orders_compute_what_the_collective_promises(
    name: str, seed: int, ranks: int, chains: int, pieces: int
) -> None:
    rng = np.random.default_rng(seed)
    orders = np.array([rng.permutation(ranks) for _ in range(chains)])
    schedule = ALONG_RINGS[name](ranks, 1024.0, orders, segments=pieces)
    semantics.check(schedule, find(name).collective, seed % 1000)
    assert schedule.volume == pytest.approx((ranks - 1) * 1024.0)
    assert schedule.steps == ranks - 1


@pytest.mark.parametrize("name", ALONG_RINGS)
def test_one_chain_in_rank_order_is_the_chain(name: str) -> None:
    one, plain = ALONG_RINGS[name](6, 600.0, segments=64), find(CHAIN[name]).build(6, 600.0)
    for column in ("rank", "peer", "source", "target", "nbytes", "lane", "indptr", "indices"):
        assert np.array_equal(getattr(one, column), getattr(plain, column)), column


@pytest.mark.parametrize("name", ALONG_RINGS)
def test_both_ways_round_a_ring_double_the_bandwidth(name: str) -> None:
    # p = 4, V = 80 B, 1 B/s: each direction carries 4 pieces of 10 s one after the other, and the
    # last of them takes 2 more sends of 10 s and 3 links of 0.5 s.
    both_ways = find(f"{name}:segments=8")
    fitted = both_ways.on(ring(4, bandwidth=1.0, latency=0.5), 4, 80.0)
    assert len(fitted.chosen) == 2
    assert simulate(fitted.schedule, fitted.topology).makespan == 3 * 0.5 + (4 + 2) * 10.0


@pytest.mark.parametrize("name", ALONG_RINGS)
def test_a_star_has_one_chain_and_its_closed_form(name: str) -> None:
    fitted = find(f"{name}:segments=64").on(star(5, bandwidth=1.0), 5, 10.0)
    assert fitted.chosen == ("channel 0: 0 1 2 3 4",)
    assert fitted.cost.latex == find(CHAIN[name]).cost.latex


@pytest.mark.parametrize("name", ALONG_RINGS)
@pytest.mark.parametrize("root", [0, 5])
def test_all_nics_of_a_node_carry_a_share(name: str, root: int) -> None:
    """V leaves the first node through all its NICs, whichever rank has it."""
    machine = cluster("mn5_acc", 2)
    fitted = from_root(find(name), root).on(machine, 8, 2.0**30)
    semantics.check(fitted.schedule, from_root(find(name), root).collective)
    alone = from_root(find(CHAIN[name]), root).on(machine, 8, 2.0**30)
    several, one = (simulate(each.schedule, each.topology).makespan for each in (fitted, alone))
    assert several < one / 3


@pytest.mark.parametrize("name", ALONG_RINGS)
def test_the_root_does_not_change_the_rings(name: str) -> None:
    machine = cluster("hgx_h100", 2)
    here, there = (from_root(find(name), root).on(machine, 16, 2.0**30) for root in (0, 9))
    orders = [
        {tuple(int(rank) for rank in line.split()[2:]) for line in fitted.chosen[:8]}
        for fitted in (here, there)
    ]
    assert there.chosen[8:] == ("here, ranks are numbered from the root on",)
    assert orders[0] == {tuple((rank + 9) % 16 for rank in order) for order in orders[1]}


@pytest.mark.parametrize("name", ["chain_scan:segments=1", "doubling_scan"])
def test_an_inclusive_scan_adds_up_to_its_own_rank(name: str) -> None:
    schedule = find(name).build(5, 40.0)
    data = np.zeros((5, schedule.slots), dtype=np.uint64)
    data[:, 0] = [1, 2, 3, 4, 5]
    assert semantics.run(schedule, data)[:, 0].tolist() == [1, 3, 6, 10, 15]


def test_an_exclusive_scan_leaves_its_own_rank_out() -> None:
    schedule = find("chain_exscan:segments=1").build(5, 40.0)
    data = np.zeros((5, schedule.slots), dtype=np.uint64)
    data[:, 0] = [1, 2, 3, 4, 5]
    assert semantics.run(schedule, data)[1:, 0].tolist() == [1, 3, 6, 10]
    assert not find("chain_exscan").collective.postcondition(data, None)[0][0].any()


@pytest.mark.parametrize("name", ["scatter", "gather"])
def test_a_tree_saves_latency_and_crosses_the_root_as_often(name: str) -> None:
    """log2 p messages in turn, not p - 1; the root's port carries 7/8 of V in both."""

    def seconds(kind: str, **machine: float) -> float:
        return simulate(find(f"{kind}_{name}").build(8, 8.0), star(8, **machine)).makespan

    assert seconds("linear", bandwidth=1.0) == seconds("binomial", bandwidth=1.0) == 7.0
    assert seconds("linear", bandwidth=1e9, gap=1.0) == pytest.approx(7.0)
    assert seconds("binomial", bandwidth=1e9, gap=1.0) == pytest.approx(3.0)


@each_case(("ranks", "chunks"), [(2, 1), (3, 2), (5, 5), (8, 12)])
def test_a_chunk_crosses_a_link_for_every_binary_one_of_its_rank(ranks: int, chunks: int) -> None:
    for name in ("binomial_scatter", "binomial_gather"):
        assert find(name).build(ranks, float(ranks)).volume == chunks


def test_a_subtree_that_is_ready_first_is_served_first() -> None:
    """Of five ranks, rank 4 alone is a subtree: its chunk does not wait for that of ranks 2 and
    3."""
    schedule = find("binomial_gather").build(5, 5.0)
    timeline = simulate(schedule, star(5, bandwidth=1.0))
    arrived = dict(zip(schedule.rank.tolist(), timeline.finish.tolist(), strict=True))
    assert arrived == {1: 1.0, 3: 1.0, 4: 2.0, 2: 4.0}


def test_nobody_gets_a_chunk_twice() -> None:
    schedule = scatter_ring_broadcast(4, 4.0)
    # Rank 0 has all four chunks before the ring, rank 2 has two.
    assert (schedule.source < 0).sum() == 3 + 1
    assert schedule.volume == 12.0


NAMES = [algorithm.name for algorithm in of_collective("barrier")]


@each_case("name", NAMES)
@each_case("ranks", [2, 3, 5, 8, 9])
def test_dropping_any_message_is_caught(name: str, ranks: int) -> None:
    schedule = find(name).build(ranks, 1.0)
    every = np.arange(len(schedule), dtype=np.int32)
    semantics.check(schedule, BARRIER)
    for dropped in every:
        with pytest.raises(semantics.WrongResult, match=r"barrier: rank \d may leave before rank"):
            semantics.check(schedule, BARRIER, order=np.delete(every, dropped))


def test_a_message_to_another_rank_tells_nothing() -> None:
    """Rank 0 waits for a message from rank 1 to rank 2, which it cannot see."""
    barrier = ScheduleBuilder(3, 1.0)
    sent = barrier.signal(1, 2)
    barrier.signal(0, 2, after=sent)
    barrier.signal(2, 0)
    assert [ranks.tolist() for ranks in absent(barrier.build())] == [[1], [0, 2], []]


@each_case("name", ["ring", "bruck_all_gather", "pairwise", "tree"])
def test_collectives_that_need_all_data_are_barriers_too(name: str) -> None:
    semantics.check(find(name).build(6, 6.0), BARRIER)


@each_case("name", ["tree_broadcast", "tree_reduce", "shift", "chain_scan"])
def test_others_are_not(name: str) -> None:
    with pytest.raises(semantics.WrongResult):
        semantics.check(find(name).build(6, 6.0), BARRIER)


@pytest.mark.parametrize("name", NAMES)
def test_a_barrier_takes_as_long_whatever_the_size(name: str) -> None:
    machine = star(5, bandwidth=1.0, latency=0.5, gap=0.25)
    times = {simulate(find(name).build(5, size), machine).makespan for size in (1.0, 1e9)}
    gaps = {"central_barrier": 8, "tree_barrier": 5}.get(name, 3)
    assert times == {find(name).cost.steps(5) * 1.0 + gaps * 0.25}
