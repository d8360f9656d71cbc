"""Bruck's algorithms and PAT."""

from collections.abc import Callable

import numpy as np

from grouped_cases import each_case
from simulator.collectives import find
from simulator.collectives.aggregation import (
    bruck_all_gather,
    bruck_all_to_all,
    pat_all_gather,
)
from simulator.engines import simulate
from simulator.schedules.schedule import Schedule
from topologies.shapes import full_mesh, star

Write = Callable[[int, float], Schedule]


@each_case("build", [bruck_all_gather, pat_all_gather])
@each_case(("ranks", "seconds"), [(2, 1.5), (3, 3.0), (5, 5.5), (8, 8.5)])
def test_rounds_by_hand(build: Write, ranks: int, seconds: float) -> None:
    # ⌈log2 p⌉ latencies of 0.5 s, and p - 1 chunks of a second.
    schedule = build(ranks, float(ranks))
    assert simulate(schedule, star(ranks, bandwidth=1.0, latency=0.25)).makespan == seconds


def test_an_all_to_all_moves_half_of_v_in_each_of_log2_p_rounds() -> None:
    schedule = bruck_all_to_all(8, 8.0)
    assert schedule.steps == 3
    assert schedule.sent().tolist() == [12.0] * 8
    assert simulate(schedule, star(8, bandwidth=1.0)).makespan == 12.0


def test_a_radix_of_p_is_one_round_of_all_messages() -> None:
    schedule = bruck_all_to_all(8, 8.0, radix=8)
    assert (schedule.steps, schedule.volume) == (1, 56.0)
    assert simulate(schedule, full_mesh(8, bandwidth=1.0)).makespan == 1.0


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
