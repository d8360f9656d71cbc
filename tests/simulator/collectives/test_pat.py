"""PAT: logarithmic steps with aggregated messages, far peers first."""

import numpy as np

from grouped_cases import each_case
from simulator.collectives import find
from simulator.collectives.pat import pat_all_gather, pat_reduce_scatter
from simulator.cost_models import log2_ceil
from simulator.engines import simulate
from topologies.shapes import star


@each_case("build", [pat_all_gather, pat_reduce_scatter])
@each_case("ranks", [2, 3, 7, 8, 13, 33])
def test_no_algorithm_has_fewer_steps_or_moves_less(build: object, ranks: int) -> None:
    assert callable(build)
    schedule = build(ranks, float(ranks))
    assert schedule.steps == log2_ceil(ranks)
    assert schedule.sent().tolist() == [ranks - 1.0] * ranks


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


def test_rounds_by_hand() -> None:
    # Three latencies of 1 s, 7 chunks of a second.
    topology = star(8, bandwidth=1.0, latency=0.5)
    assert simulate(pat_all_gather(8, 8.0), topology).makespan == 10.0
