"""Scatter, gather, van de Geijn's broadcast, and barriers."""

import numpy as np
import pytest

from grouped_cases import each_case
from simulator.collectives import find, of_collective
from simulator.collectives.scatter_gather import BARRIER, scatter_ring_broadcast
from simulator.engines import simulate
from simulator.schedules import semantics
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.semantics import absent
from topologies.shapes import star


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
