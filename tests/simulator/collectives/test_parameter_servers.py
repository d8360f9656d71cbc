"""Parameter servers, map-reduce, direct reads, and all-to-alls by pairs."""

import numpy as np
import pytest

from grouped_cases import each_case
from refusals import refusal
from simulator.collectives import find
from simulator.collectives.collective import ALL_REDUCE
from simulator.collectives.direct import two_shot_all_reduce
from simulator.collectives.parameter_servers import byteps_all_reduce, cpu_and_worker_shares
from simulator.cost_models.servers import byteps
from simulator.engines import simulate
from simulator.schedules import semantics
from simulator.schedules.schedule import COMPUTE
from topologies.shapes import star


def optimum(workers: int, servers: int) -> float:
    """BytePS, OSDI 2020, in V/β."""
    return 2 * workers * (workers - 1) / (workers**2 + servers * workers - 2 * servers)


@each_case("workers", [2, 4, 5])
@each_case("servers", [1, 2])
@each_case("segments", [1, 3])
def test_cpu_machines_and_workers_add_up_all(workers: int, servers: int, segments: int) -> None:
    schedule = byteps_all_reduce(workers, 64.0, servers=servers, segments=segments)
    semantics.check(schedule, ALL_REDUCE)
    volume = byteps(servers, segments).volume(workers) * 64.0
    assert schedule.volume == pytest.approx(volume)


@pytest.mark.parametrize(
    ("workers", "servers"),
    [(4, 4), (8, 8), pytest.param(16, 1, marks=pytest.mark.exhaustive), (8, 2)],
)
def test_the_published_optimum_is_reached_within_the_fill(workers: int, servers: int) -> None:
    """Pulls begin when the first segment is pushed. CPU machines alone serve where there are as
    many as workers: then the fill is all that is lost."""
    schedule = byteps_all_reduce(workers, 1.0, servers=servers, segments=32)
    time = simulate(schedule, star(workers + servers, bandwidth=1.0)).makespan
    lost = time / optimum(workers, servers)
    assert lost == pytest.approx(1 + 1 / 32) if workers == servers else 1 <= lost < 1.12


@each_case(("workers", "servers"), [(4, 0), (4, 2), (7, 7), (8, 3)])
def test_shares_add_up_to_all(workers: int, servers: int) -> None:
    cpu, worker = cpu_and_worker_shares(workers, servers)
    assert servers * cpu + workers * worker == pytest.approx(1.0)


def test_more_cpu_machines_than_workers_are_refused() -> None:
    message = "servers is 5: at most as many as the 4 workers"
    assert refusal(find("byteps:servers=5").build, 4, 1.0) == message
    assert find("byteps:servers=5").servers == 5


@each_case("shards", [1, 2, 3, 4])
def test_some_workers_serve(shards: int) -> None:
    server = find(f"sharded_parameter_server:shards={shards}")
    schedule = server.build(4, 12.0)
    semantics.check(schedule, ALL_REDUCE)
    assert schedule.volume == 2 * 3 * 12.0


def test_a_reduce_waits_for_the_last_map() -> None:
    schedule = find("map_reduce:map_us=500,reduce_us=200").build(4, 4.0)
    assert schedule.phases == ("map", "shuffle", "reduce")
    slow = np.flatnonzero((schedule.kind == COMPUTE) & (schedule.phase == 0))[2]
    schedule.seconds[slow] = 3e-3
    timeline = simulate(schedule, star(4, bandwidth=1e9))
    reducing = schedule.phase == schedule.phases.index("reduce")
    last = timeline.finish[slow]
    assert last == 3e-3
    assert (timeline.start[reducing] >= last).all()
    assert timeline.makespan > last + 200e-6


def test_maps_and_reduces_are_part_of_the_formula() -> None:
    algorithm = find("map_reduce:map_us=500,reduce_us=200")
    assert algorithm.build(4, 4.0).seconds.max() == 500e-6
    assert "t_m = 500 us, t_r = 200 us" in algorithm.cost.assumes


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
