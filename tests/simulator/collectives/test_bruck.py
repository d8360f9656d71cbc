"""Bruck's all-gather and all-to-all."""

from grouped_cases import each_case
from simulator.collectives import find
from simulator.collectives.bruck import bruck_all_gather, bruck_all_to_all
from simulator.cost_models import log2_ceil
from simulator.engines import simulate
from topologies.shapes import full_mesh, star


@each_case("ranks", range(2, 34))
def test_no_all_gather_has_fewer_steps_or_moves_less(ranks: int) -> None:
    schedule = bruck_all_gather(ranks, float(ranks))
    assert schedule.steps == log2_ceil(ranks)
    assert schedule.sent().tolist() == [ranks - 1.0] * ranks


@each_case(("ranks", "seconds"), [(2, 1.5), (3, 3.0), (5, 5.5), (8, 8.5)])
def test_rounds_by_hand(ranks: int, seconds: float) -> None:
    # ⌈log2 p⌉ latencies of 0.5 s, and p - 1 chunks of a second.
    schedule = bruck_all_gather(ranks, float(ranks))
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


def test_bruck_is_faster_than_pairwise_for_short_messages_alone() -> None:
    topology = star(32, bandwidth=1e9, latency=1e-6, gap=1e-6)

    def seconds(name: str, nbytes: float) -> float:
        return simulate(find(name).build(32, nbytes), topology).makespan

    assert seconds("bruck_all_to_all", 1e3) < seconds("pairwise", 1e3)
    assert seconds("bruck_all_to_all", 1e7) > seconds("pairwise", 1e7)
