"""One-shot and two-shot all-reduce."""

import pytest

from simulator.collectives import find
from simulator.collectives.direct_reads import one_shot_all_reduce, two_shot_all_reduce
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
