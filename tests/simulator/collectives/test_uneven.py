"""Chunks and blocks of unequal sizes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from refusals import refusal
from simulator.analysis.bounds import best_bound, bounds
from simulator.collectives import find
from simulator.collectives.routers import RAMP, Router, SizeTable, Zipf
from simulator.collectives.uneven import ALGORITHMS, skewed
from simulator.engines import simulate
from simulator.schedules import semantics
from topologies.shapes import star

NAMES = [algorithm.name for algorithm in ALGORITHMS]
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
