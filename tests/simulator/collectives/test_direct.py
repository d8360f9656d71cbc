"""Direct reads, and all-to-alls by pairs."""

from __future__ import annotations

import pytest

from simulator.collectives import find
from simulator.collectives.direct import one_shot_all_reduce, two_shot_all_reduce
from simulator.collectives.pairwise_sync import pairwise_sync_all_to_all
from simulator.engines import simulate
from topologies.shapes import full_mesh, star


def test_shots_by_hand() -> None:
    # 4 ranks, a port each: flags and reads take 1 s of latency each; V = 4 s.
    topology = star(4, bandwidth=1.0, latency=0.5)
    assert simulate(one_shot_all_reduce(4, 4.0), topology).makespan == 2 + 12
    assert simulate(two_shot_all_reduce(4, 4.0), topology).makespan == 4 + 6


def test_with_a_port_for_each_peer_all_is_read_at_once() -> None:
    topology = full_mesh(4, bandwidth=1.0, latency=1.0)
    assert simulate(one_shot_all_reduce(4, 4.0), topology).makespan == 2 + 4
    assert simulate(two_shot_all_reduce(4, 4.0), topology).makespan == 4 + 2


@pytest.mark.parametrize("ranks", [3, 4, 8])
def test_two_shots_pay_from_the_published_size_on(ranks: int) -> None:
    """The start-up of a phase is a = 2α. The sizes cross at a p β / ((p - 1)(p - 2))."""
    latency, bandwidth = 1e-6, 1e9
    topology = star(ranks, bandwidth=bandwidth, latency=latency / 2)
    crossing = 2 * latency * ranks * bandwidth / (ranks - 1) / (ranks - 2)

    def seconds(name: str, nbytes: float) -> float:
        return simulate(find(name).build(ranks, nbytes), topology).makespan

    assert seconds("one_shot", crossing / 1.1) < seconds("two_shot", crossing / 1.1)
    assert seconds("one_shot", crossing * 1.1) > seconds("two_shot", crossing * 1.1)


def test_nobody_reads_before_all_flags_are_there() -> None:
    schedule = two_shot_all_reduce(3, 3.0)
    flags = (schedule.source < 0) & schedule.remote
    assert flags.sum() == 2 * 3 * 2


def test_waiting_costs_a_latency_a_step() -> None:
    topology = star(9, bandwidth=1e9, latency=1e-6)
    fast, slow = (
        simulate(find(name).build(9, 9.0), topology).makespan
        for name in ("pairwise", "pairwise_sync")
    )
    assert fast == pytest.approx(2e-6 + 8e-9)
    assert slow == pytest.approx(8 * (2e-6 + 1e-9))


def test_a_window_of_all_messages_waits_for_none() -> None:
    topology = star(7, bandwidth=1.0, latency=0.5)
    windowed = pairwise_sync_all_to_all(7, 7.0, window=6)
    assert simulate(windowed, topology).makespan == 7.0
    # One by one, each of six messages takes 1 s for the route and 1 s for its bytes.
    assert simulate(pairwise_sync_all_to_all(7, 7.0), topology).makespan == 12.0


def test_linear_begins_with_the_rank_before() -> None:
    schedule = find("linear_all_to_all").build(4, 4.0)
    first = schedule.peer[schedule.rank == 0][:3].tolist()
    assert first == [3, 2, 1]
