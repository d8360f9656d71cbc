"""Direct reads, and all-to-alls by pairs."""

import pytest

from simulator.collectives import find
from simulator.collectives.direct import two_shot_all_reduce
from simulator.engines import simulate
from topologies.shapes import star


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


def test_linear_begins_with_the_rank_before() -> None:
    schedule = find("linear_all_to_all").build(4, 4.0)
    first = schedule.peer[schedule.rank == 0][:3].tolist()
    assert first == [3, 2, 1]
