"""Chunks and blocks of unequal sizes."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from refusals import refusal
from simulator.analysis.bounds import best_bound, bounds
from simulator.collectives import find
from simulator.collectives.collective import DECLARED
from simulator.collectives.routers import RAMP, TOKENS, Returned, Router, SizeTable, Tokens, Zipf
from simulator.collectives.uneven import skewed
from simulator.engines import simulate
from simulator.schedules import semantics
from topologies.clusters import cluster
from topologies.shapes import star

NAMES = list(DECLARED["simulator.collectives.uneven"])
every_uneven = pytest.mark.parametrize("name", NAMES)
routers = st.just(RAMP) | st.builds(Zipf, st.floats(0.0, 4.0), st.integers(0, 9))


@each_case("router", [RAMP, Zipf(1.2), Zipf(0.0, seed=3)])
@each_case("ranks", [1, 2, 7])
def test_shares_add_up(router: Router, ranks: int) -> None:
    assert router.chunks(ranks).sum() == pytest.approx(1)
    assert router.matrix(ranks).sum() == pytest.approx(ranks)


@every_uneven
@given(router=routers, ranks=st.integers(2, 9))
def test_any_sizes_are_proven_timed_and_bounded(name: str, router: Router, ranks: int) -> None:
    algorithm = skewed(find(name), router)
    schedule = algorithm.build(ranks, 1e6)
    semantics.check(schedule, algorithm.collective)
    machine = star(ranks, bandwidth=1e9, latency=1e-6)
    makespan = simulate(schedule, machine).makespan
    assert schedule.volume == pytest.approx(algorithm.cost.volume(ranks) * 1e6, rel=1e-9)
    for bound in bounds(algorithm.collective, machine, ranks, 1e6):
        assert makespan >= bound.seconds * (1 - 1e-9), bound


@every_uneven
def test_equal_sizes_take_the_time_of_the_even_collective(name: str) -> None:
    even = {
        "ring_all_gatherv": "ring_all_gather",
        "ring_reduce_scatterv": "ring_reduce_scatter",
        "linear_gatherv": "gloo_gather",
        "linear_scatterv": "gloo_scatter",
        "linear_all_gatherv": "ring_all_gather",
        "linear_reduce_scatterv": "ring_reduce_scatter",
        "ring_gatherv": "linear_gather",
        "ring_scatterv": "linear_scatter",
        "posted_all_to_allv": "pairwise",
        "forwarded_all_to_allv": "pairwise",
    }[name]
    machine = star(6, bandwidth=1e9)
    algorithm = skewed(find(name), Zipf(0.0))
    times = [simulate(each.build(6, 6e6), machine).makespan for each in (algorithm, find(even))]
    assert times[0] == pytest.approx(times[1], rel=1e-12)
    limits = [
        best_bound(each.collective, machine, 6, 6e6).seconds for each in (algorithm, find(even))
    ]
    assert limits[0] == pytest.approx(limits[1], rel=1e-12)


def test_a_router_sends_more_to_popular_experts() -> None:
    chunks = np.sort(Zipf(1.2, seed=5).chunks(8))[::-1]
    assert chunks[0] / chunks[1] == pytest.approx(2**1.2)
    assert Zipf(1.2, 1).chunks(8).tolist() != Zipf(1.2, 2).chunks(8).tolist()


def test_a_table_gives_blocks_and_v() -> None:
    table = SizeTable("m.csv", ((0.0, 6.0, 2.0), (1.0, 0.0, 0.0), (0.0, 3.0, 0.0)))
    algorithm = skewed(find("posted_all_to_allv"), table)
    schedule = algorithm.build(3, table.nbytes)
    assert table.nbytes == 4.0
    pairs = zip(schedule.rank, schedule.peer, schedule.nbytes, strict=True)
    assert {(int(a), int(b)): float(n) for a, b, n in pairs} == pytest.approx(
        {(0, 1): 6.0, (0, 2): 2.0, (1, 0): 1.0, (2, 1): 3.0}
    )
    assert simulate(schedule, star(3, bandwidth=1.0)).makespan == pytest.approx(9.0)


def test_tables_of_another_shape_are_refused() -> None:
    table = SizeTable("m.csv", ((1.0, 2.0),))
    assert table.chunks(2).tolist() == pytest.approx([1 / 3, 2 / 3])
    assert refusal(table.chunks, 3) == "m.csv: 1 row of 2 numbers, and 3 chunks need 1 row of 3"
    assert refusal(table.matrix, 2) == "m.csv: 1 row of 2 numbers, and 2 ranks need 2 of 2"
    assert refusal(skewed, find("ring"), RAMP) == (
        f"ring has parts of equal sizes: choose one of {', '.join(NAMES)}"
    )


@every_uneven
def test_sizes_go_to_other_processes(name: str) -> None:
    algorithm = skewed(find(name), Zipf(1.2, 3))
    again = pickle.loads(pickle.dumps(algorithm))
    assert again.build(4, 1.0).nbytes.tolist() == algorithm.build(4, 1.0).nbytes.tolist()


FORWARDED, POSTED = "forwarded_all_to_allv", "posted_all_to_allv"


def copies_across(name: str, router: Tokens) -> float:
    """How often a token crosses the network, on 64 ranks in nodes of 8."""
    schedule = skewed(find(name), router).build(64, 64.0)
    across = schedule.rank // 8 != schedule.peer // 8
    return float(schedule.nbytes[across].sum()) / 64 / (64.0 / router.top)


def test_a_token_crosses_the_network_at_most_once_for_each_node() -> None:
    # DeepSeek-V3: 8 experts in at most 4 nodes. 1 of 8 experts is at home without a forward.
    assert copies_across(POSTED, Tokens(0.0, 0, 8, 4)) == pytest.approx(7, rel=0.01)
    assert 3 < copies_across(FORWARDED, Tokens(0.0, 0, 8, 4)) <= 4
    assert copies_across(FORWARDED, Tokens(0.0, 0, 8)) > 4
    assert 0.8 < copies_across(FORWARDED, Tokens(0.0, 0, 8, 1)) <= 1


@given(
    st.builds(Tokens, st.floats(0.0, 3.0), st.integers(0, 9), st.integers(1, 4), st.integers(2, 4)),
    st.integers(4, 12),
)
def test_tokens_go_to_as_many_experts_and_nodes_as_they_may(router: Tokens, ranks: int) -> None:
    router = Tokens(router.exponent, router.seed, router.top, router.nodes, per_node=2)
    if ranks < 2 * router.nodes or (router.nodes - 1) * 2 + ranks % 2 < router.top:
        return
    counts, nodes = router.counts(ranks), router.node_counts(ranks)
    assert (counts.sum(axis=1) == router.top * TOKENS).all()
    assert (counts <= TOKENS).all()
    assert (nodes.sum(axis=1) <= router.nodes * TOKENS).all()
    assert router.matrix(ranks).sum() == pytest.approx(ranks)
    assert router.chunks(ranks).sum() == pytest.approx(1)


def test_ranks_with_several_experts_need_a_token_once() -> None:
    router = Tokens(0.5, 0, top=4, nodes=1, per_node=2, experts=3, tokens=64)
    copies, needed = router.expert_counts(4), router.counts(4)
    assert copies.shape == (4, 12)
    assert (copies.sum(axis=1) == 4 * 64).all()
    by_rank = copies.reshape(4, 4, 3).sum(axis=2)
    assert (needed <= np.minimum(by_rank, 64)).all()
    assert (router.node_counts(4).sum(axis=1) <= 64).all()
    assert router.matrix(4) == pytest.approx(by_rank / 256)
    assert Returned(router).matrix(4) == pytest.approx(by_rank.T / 256)
    assert Returned(router).chunks(4) == pytest.approx(by_rank.sum(axis=1) / 1024)
    algorithm = skewed(find(FORWARDED), router)
    semantics.check(algorithm.build(4, 1e6), algorithm.collective)


@given(st.integers(0, 9), st.integers(1, 4), st.integers(1, 2))
def test_tokens_are_proven_and_beat_no_bound(seed: int, top: int, nodes: int) -> None:
    algorithm = skewed(find(FORWARDED), Tokens(1.0, seed, top, nodes, per_node=4))
    schedule = algorithm.build(8, 1e6)
    semantics.check(schedule, algorithm.collective)
    assert schedule.volume == pytest.approx(algorithm.cost.volume(8) * 1e6, rel=1e-9)
    machine = star(8, bandwidth=1e9, latency=1e-6)
    makespan = simulate(schedule, machine).makespan
    for bound in bounds(algorithm.collective, machine, 8, 1e6):
        assert makespan >= bound.seconds * (1 - 1e-9), bound


def test_stages_by_hand() -> None:
    # Nodes of 3. Rank 0 has 4 B for rank 3 and 2 B for rank 4: 6 B to rank 3, and 2 B onwards.
    rows = [[0.0] * 9 for _ in range(9)]
    rows[0][3:5] = [4.0, 2.0]
    table = SizeTable("m.csv", tuple(map(tuple, rows)))
    schedule = skewed(find(FORWARDED), table).build(9, table.nbytes)
    moved = zip(schedule.rank, schedule.peer, schedule.nbytes, strict=True)
    assert [(int(a), int(b), round(float(n), 9)) for a, b, n in moved if a != b] == [
        (0, 3, 6.0),
        (3, 4, 2.0),
    ]


def test_nodes_that_do_not_fit_are_refused() -> None:
    assert refusal(Tokens(1.0, 0, 8, 1, per_node=4).matrix, 8) == (
        "--skew: top is 8, and nodes=1 of 8 ranks may have only 4 experts: take a lower top, or "
        "more nodes or ranks"
    )
    algorithm = skewed(find(FORWARDED), Tokens(1.0, 0, 2, 2, per_node=4))
    assert refusal(algorithm.build, 6, 1.0) == (
        "forwarded_all_to_allv: 6 ranks are not full nodes of 4: take a multiple"
    )
    assert refusal(algorithm.on, cluster("hgx_h100", 2), 16, 1.0) == (
        "forwarded_all_to_allv: the router has nodes of 4 ranks, the machine of 8: write "
        "per_node=8 in --skew"
    )
    assert np.ptp(Tokens(0.0, 0, 2, 2, per_node=2).counts(4).sum(axis=0)) < TOKENS / 2
