"""Barriers: who may leave before whom has entered."""

from __future__ import annotations

import numpy as np
import pytest

from grouped_cases import each_case
from simulator.collectives import find, of_collective
from simulator.collectives.barriers import BARRIER
from simulator.engines import simulate
from simulator.schedules import semantics
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.semantics import absent
from topologies.shapes import star

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
