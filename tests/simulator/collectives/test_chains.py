"""Chains, alone and along rings, and scans."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.collectives import find
from simulator.collectives.chains import (
    chain_broadcast,
    chain_reduce,
    chains_broadcast,
    chains_reduce,
)
from simulator.collectives.roots import from_root
from simulator.cost_models import neighbors
from simulator.cost_models.fabric import observe
from simulator.engines import simulate
from simulator.schedules import semantics
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
def test_every_chain_has_equally_many_pieces(name: str) -> None:
    # Three pieces over two chains: two each, of a quarter of V.
    schedule = ALONG_RINGS[name](3, 12.0, np.array([[0, 1, 2], [2, 1, 0]]), segments=3)
    assert set(schedule.nbytes.tolist()) == {3.0}
    assert np.bincount(schedule.lane).tolist() == [4, 4]


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


def test_the_chains_of_a_cube_mesh_take_all_nvlinks() -> None:
    # find_rings: 120 GB/s together on a DGX-1, where one chain crosses PCIe.
    fitted = find("chains_broadcast").on(cluster("dgx1"), 8, 2.0**30)
    seconds = simulate(fitted.schedule, fitted.topology).makespan
    assert 2.0**30 / 120e9 < seconds < 1.15 * 2.0**30 / 120e9


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
