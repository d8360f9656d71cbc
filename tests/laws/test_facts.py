"""The facts of the design as numbers by hand: time, bytes and memory."""

from collections.abc import Callable

import numpy as np
import pytest

from grouped_cases import each_case
from simulator.analysis import memory
from simulator.collectives import algorithms
from simulator.collectives.direct import naive_all_reduce
from simulator.engines import simulate
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.timeline import Timeline
from topologies.shapes import bus, full_mesh, full_mesh_one_port, ring, star
from topologies.topology import Topology

# The facts of the design, p = 4, V = 8 GB, β = 2 GB/s: V/β = 4 s. Numbers by hand.

P, GB = 4, 1e9
SIZE, BANDWIDTH, ALPHA = 8 * GB, 2 * GB, 0.5
Shape = Callable[..., Topology]


def run(name: str, shape: Shape, latency: float = 0.0, ranks: int = P) -> Timeline:
    algorithm = algorithms()[name]
    topology = shape(ranks + algorithm.servers, bandwidth=BANDWIDTH, latency=latency)
    timelines = [
        simulate(algorithm.build(ranks, SIZE), topology, engine)
        for engine in ("reference", "compiled")
    ]
    assert timelines[0].makespan == timelines[1].makespan
    return timelines[0]


@pytest.mark.parametrize(
    ("name", "shape", "seconds", "gigabytes"),
    [
        pytest.param("naive", bus, 48.0, 96.0, id="naive on a bus: p(p-1)V/β"),
        pytest.param("naive", star, 12.0, 96.0, id="naive through a star: (p-1)V/β"),
        pytest.param(
            "naive", full_mesh_one_port, 12.0, 96.0, id="naive on a mesh with one port: (p-1)V/β"
        ),
        pytest.param("naive", full_mesh, 4.0, 96.0, id="naive on a mesh with a port a peer: V/β"),
        pytest.param("ring_reduce_scatter", ring, 3.0, 24.0, id="ring reduce-scatter: (p-1)V/(pβ)"),
        pytest.param("ring_all_gather", ring, 3.0, 24.0, id="ring all-gather: (p-1)V/(pβ)"),
        pytest.param("ring", ring, 6.0, 48.0, id="ring all-reduce: 2(p-1)V/(pβ)"),
        pytest.param("ring", star, 6.0, 48.0, id="ring all-reduce through a star"),
        pytest.param(
            "parameter_server", star, 24.0, 48.0, id="parameter server among the workers: 2(p-1)V/β"
        ),
        pytest.param(
            "parameter_server",
            full_mesh_one_port,
            24.0,
            48.0,
            id="the same on a mesh with one port",
        ),
        pytest.param(
            "parameter_server_apart", star, 32.0, 64.0, id="parameter server apart: 2pV/β"
        ),
        pytest.param(
            "parameter_server_apart", full_mesh_one_port, 32.0, 64.0, id="the same apart, on a mesh"
        ),
        pytest.param(
            "naive_serial", full_mesh, 16.0, 96.0, id="one root at a time, a port a peer: pV/β"
        ),
    ],
)
def test_the_facts_about_time_and_bytes(
    name: str, shape: Shape, seconds: float, gigabytes: float
) -> None:
    timeline = run(name, shape)
    assert timeline.makespan == seconds
    assert timeline.schedule.volume == gigabytes * GB


@pytest.mark.parametrize(
    ("name", "shape", "seconds"),
    [
        pytest.param("ring", ring, 9.0, id="ring on a ring: + 2(p-1)α"),
        pytest.param("ring", star, 12.0, id="ring through a star: + 4(p-1)α"),
        pytest.param(
            "parameter_server", star, 26.0, id="parameter server: + twice the route's latency"
        ),
        pytest.param(
            "parameter_server", full_mesh_one_port, 25.0, id="parameter server on a mesh: + 2α"
        ),
        pytest.param(
            "parameter_server_apart",
            star,
            34.0,
            id="parameter server apart: + twice the route's latency",
        ),
    ],
)
def test_the_facts_about_latency(name: str, shape: Shape, seconds: float) -> None:
    assert run(name, shape, ALPHA).makespan == seconds


@pytest.mark.parametrize("shape", [star, full_mesh_one_port])
def test_the_order_of_peers_matters_to_the_naive(shape: Shape) -> None:
    """0..p-1: everyone meets at rank 0 first: (2p-3)V/β instead of (p-1)V/β, for p > 2."""
    by_hand = {2: (4.0, 4.0), 3: (8.0, 12.0), 4: (12.0, 20.0), 5: (16.0, 28.0), 8: (28.0, 52.0)}
    for ranks, wanted in by_hand.items():
        topology = shape(ranks, bandwidth=BANDWIDTH)
        schedules = (naive_all_reduce(ranks, SIZE), naive_all_reduce(ranks, SIZE, staggered=False))
        assert tuple(simulate(schedule, topology).makespan for schedule in schedules) == wanted


def test_in_a_ring_reduce_scatter_each_rank_sends_and_receives_its_part() -> None:
    schedule = run("ring_reduce_scatter", ring).schedule
    assert schedule.sent().tolist() == [6 * GB] * P
    assert np.bincount(schedule.peer, schedule.nbytes).tolist() == [6 * GB] * P


def test_a_ring_reduce_scatter_tends_to_v_over_beta() -> None:
    assert [run("ring_reduce_scatter", ring, ranks=ranks).makespan for ranks in (2, 8, 32)] == [
        2.0,
        3.5,
        3.875,
    ]


@each_case("name", ["ring_reduce_scatter", "ring_all_gather", "ring"])
@each_case("ranks", [2, 3, 4, 8, 11])
def test_every_port_of_a_ring_is_busy_all_the_time(name: str, ranks: int) -> None:
    timeline = run(name, ring, ranks=ranks)
    topology = timeline.routed.topology
    busy = dict(zip(topology.medium_names, timeline.utilisation().tolist(), strict=True))
    clockwise = [f"gpu{rank}->gpu{(rank + 1) % ranks}" for rank in range(ranks)]
    assert [busy[port] for port in clockwise] == pytest.approx([1.0] * ranks, rel=1e-12)
    assert not any(busy[port] for port in busy if port not in clockwise)


def test_a_servers_link_carries_what_all_workers_send_and_a_workers_link_only_its_own() -> None:
    timeline = run("parameter_server", star)
    carried = dict(
        zip(timeline.routed.topology.medium_names, timeline.medium_bytes().tolist(), strict=True)
    )
    assert carried["switch->gpu0"] == carried["gpu0->switch"] == 24 * GB
    assert [carried[f"gpu{k}->switch"] for k in (1, 2, 3)] == [8 * GB] * 3
    assert [carried[f"switch->gpu{k}"] for k in (1, 2, 3)] == [8 * GB] * 3


def test_all_roots_at_once_use_p_times_the_links_of_one_at_a_time() -> None:
    """Concurrency (p-1)β against p(p-1)β: time O(p), bandwidth O(p) against O(1), O(p²)."""
    serial, together = run("naive_serial", full_mesh), run("naive", full_mesh)
    assert (serial.makespan, together.makespan) == (16.0, 4.0)
    assert (serial.schedule.volume, together.schedule.volume) == (96 * GB, 96 * GB)
    assert (serial.utilisation().sum(), together.utilisation().sum()) == (3.0, 12.0)


# Memory.


def test_a_reduce_scatter_leaves_p_minus_1_buffers_redundant() -> None:
    timeline = run("ring_reduce_scatter", ring)
    traced = memory.trace(timeline.schedule, timeline)
    assert traced.redundant[-1] == 24 * GB
    assert traced.resident[-1] == 32 * GB
    assert traced.redundant[-1] / P == 6 * GB
    assert traced.peaks.tolist() == [10 * GB] * P


@pytest.mark.parametrize("name", ["ring_all_gather", "ring"])
def test_an_all_gather_leaves_p_minus_1_buffers_redundant(name: str) -> None:
    timeline = run(name, ring)
    assert memory.trace(timeline.schedule, timeline).redundant[-1] == 24 * GB


def truncated_ring(ranks: int, steps: int) -> Schedule:
    """The first steps of a ring reduce-scatter."""
    builder = ScheduleBuilder(ranks, SIZE, slots=ranks)
    rank = np.arange(ranks)
    for step in range(steps):
        builder.reduce(rank, (rank + 1) % ranks, slot=(rank - step - 1) % ranks)
    return builder.build()


@each_case("ranks", [2, 3, 4, 8])
def test_a_ring_has_k_buffers_redundant_after_k_steps(ranks: int) -> None:
    for steps in range(1, ranks):
        schedule = truncated_ring(ranks, steps)
        timeline = simulate(schedule, ring(ranks, bandwidth=BANDWIDTH))
        assert memory.trace(schedule, timeline).redundant[-1] == pytest.approx(
            steps * SIZE, rel=1e-12
        )


@each_case("ranks", [2, 3, 4, 8])
def test_redundancy_grows_by_v_a_step_and_stays_through_the_all_gather(ranks: int) -> None:
    timeline = run("ring", ring, ranks=ranks)
    traced = memory.trace(timeline.schedule, timeline)
    step = SIZE / ranks / BANDWIDTH

    def redundant_at(time: float) -> float:
        return float(traced.redundant[np.searchsorted(traced.times, time, side="right") - 1])

    during = [redundant_at((k + 0.5) * step) / SIZE for k in range(2 * (ranks - 1))]
    assert during == pytest.approx([min(k, ranks - 1) for k in range(1, 2 * ranks - 1)], rel=1e-12)


def test_the_bytes_redundant_after_a_phase_are_the_bytes_that_it_moved() -> None:
    for name in ("ring_reduce_scatter", "ring_all_gather"):
        timeline = run(name, ring)
        assert memory.trace(timeline.schedule, timeline).redundant[-1] == timeline.schedule.volume


def test_busbw_of_the_ring_is_the_links_bandwidth() -> None:
    """nccl-tests' factors are made for that: algbw × 2(p-1)/p = β."""
    for name in ("ring", "ring_reduce_scatter", "ring_all_gather", "shift"):
        for ranks in (2, 3, 8):
            algbw = SIZE / run(name, ring, ranks=ranks).makespan
            assert algbw * algorithms()[name].collective.busbw(ranks) == pytest.approx(BANDWIDTH)
