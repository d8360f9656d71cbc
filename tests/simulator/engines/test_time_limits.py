"""Times beyond what a float holds are refused before a run; and fair sharing in which flows end at
multiples of a grid step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from refusals import refusal
from simulator.collectives import find
from simulator.collectives.routers import Zipf
from simulator.collectives.uneven import skewed
from simulator.engines import Engine, Sharing, simulate
from simulator.kernels import fair_sharing
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from small_schedules import messages
from topologies.link import Link
from topologies.shapes import SHAPES, ring, star
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder


def computations(*seconds: float) -> Schedule:
    builder = ScheduleBuilder(2, 1.0)
    for each in seconds:
        builder.compute(0, each)
    return builder.build()


def late_message() -> Schedule:
    builder = ScheduleBuilder(2, 1.0)
    builder.signal(0, 1, nbytes=1.0, after=builder.compute(0, 1e307))
    return builder.build()


def slow_merging() -> Topology:
    builder = TopologyBuilder("slow")
    for name in ("a", "b"):
        builder.device(name, reduction=1e300)
    builder.connect("a", "b", Link(1.0))
    return builder.build(["a", "b"])


def reduction(nbytes: float) -> Schedule:
    builder = ScheduleBuilder(2, nbytes)
    builder.reduce(0, 1, slot=0)
    return builder.build()


CASES: dict[str, tuple[Schedule, Topology, str]] = {
    "a link without end": (
        messages(1e300, 1.0),
        ring(2, bandwidth=1e-9),
        "the longest, 1e+300 B from rank 0 to 1, inf s",
    ),
    "many latencies": (
        messages(*[0.0] * 9),
        ring(2, bandwidth=1.0, latency=2e299),
        "the longest, 0 B from rank 0 to 1, 2e+299 s",
    ),
    "gaps": (messages(0.0), ring(2, bandwidth=1.0, gap=1e307), "0 B from rank 0 to 1, 1e+307 s"),
    "a smallest bandwidth": (
        messages(1e-300, 1e-300),
        ring(2, bandwidth=5e-324),
        "1e-300 B from rank 0 to 1, inf s",
    ),
    "computations": (
        computations(1.0, 1e307, 1e308),
        ring(2, bandwidth=1.0),
        "the longest, a computation of rank 0, 1e+308 s",
    ),
    "a late message": (
        late_message(),
        ring(2, bandwidth=1.0),
        "the longest, a computation of rank 0, 1e+307 s",
    ),
    "merging": (reduction(1e10), slow_merging(), "1e+10 B from rank 0 to 1, inf s"),
}


@each_case("sharing", ["fifo", "fair"])
@each_case("engine", ["reference", "compiled"])
@each_case("case", CASES)
def test_both_engines_refuse_times_that_a_float_does_not_hold(
    case: str, engine: Engine, sharing: Sharing
) -> None:
    schedule, topology, longest = CASES[case]
    message = refusal(simulate, schedule, topology, engine, sharing=sharing)
    assert message.startswith("all ")
    assert longest in message
    assert message.endswith("at most 1e+300 s, check sizes, bandwidths and latencies")


@each_case("sharing", ["fifo", "fair"])
@each_case("engine", ["reference", "compiled"])
def test_times_below_the_limit_are_simulated(engine: Engine, sharing: Sharing) -> None:
    timeline = simulate(messages(4e299, 4e299), ring(2, bandwidth=1.0), engine, sharing=sharing)
    assert timeline.makespan == pytest.approx(8e299)
    endless = ring(2, bandwidth=float("inf"), latency=1.0)
    assert simulate(messages(1e308), endless, engine, sharing=sharing).makespan == 1
    empty = ScheduleBuilder(1, 1.0).build()
    assert simulate(empty, ring(2, bandwidth=1.0), engine, sharing=sharing).makespan == 0


def test_a_machine_without_links_is_no_mistake() -> None:
    machine, alone = TopologyBuilder("one"), ScheduleBuilder(1, 1.0)
    machine.device("a")
    alone.compute(0, 2.0)
    assert simulate(alone.build(), machine.build(["a"])).makespan == 2


def test_a_loop_that_cannot_go_on_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "simulator.engines.compiled.compiled", lambda kernel: lambda *_: fair_sharing.STUCK
    )
    with pytest.raises(RuntimeError, match="no time comes next, or no flow ends"):
        simulate(messages(1.0), ring(2, bandwidth=1.0), "compiled", sharing="fair")


UNEVEN = find("posted_all_to_allv")


def test_ends_go_to_the_nearest_point_of_the_grid() -> None:
    """The port of rank 0 is busy for 100 s: the grid is 10 s wide."""
    sends = ScheduleBuilder(3, 100.0, slots=[0.32, 0.68])
    sends.copy(0, [1, 2], slot=[0, 1])
    timeline = simulate(sends.build(), star(3, bandwidth=1.0), sharing="fair", fair_tolerance=0.1)
    # At half the bandwidth each: 32 B end at 64 s, rounded to 60 s; 38 B then end at 98 s.
    assert timeline.grid == 10.0
    assert timeline.finish.tolist() == [60.0, 100.0]
    assert timeline.grid_error == pytest.approx(2.0 + 5.0)


@given(
    shape=st.sampled_from(["star", "ring", "torus"]),
    ranks=st.integers(2, 8),
    exponent=st.floats(0.1, 3.0),
    seed=st.integers(0, 5),
    tolerance=st.sampled_from([1e-4, 1e-3, 1e-2]),
)
def test_the_error_is_reported(
    shape: str, ranks: int, exponent: float, seed: int, tolerance: float
) -> None:
    schedule = skewed(UNEVEN, Zipf(exponent, seed)).build(ranks, 1e9)
    machine = SHAPES[shape](ranks, bandwidth=1e9, latency=1e-6)
    exact = simulate(schedule, machine, "compiled", sharing="fair")
    near = simulate(schedule, machine, "compiled", sharing="fair", fair_tolerance=tolerance)
    assert exact.grid == exact.grid_error == 0.0
    assert near.makespan == pytest.approx(exact.makespan, rel=2 * tolerance)
    assert abs(near.makespan - exact.makespan) <= near.grid_error <= ranks * near.grid
    steps = near.sent / near.grid
    assert np.abs(steps - np.rint(steps)).max() < 1e-6


def test_each_message_of_a_chain_may_end_half_a_step_late() -> None:
    """Links are alike, so a ring that starts from rest sends on at multiples of the step."""
    schedule, machine = find("ring").build(4, 4.0), star(4, bandwidth=1.0)
    exact = simulate(schedule, machine, sharing="fair")
    near = simulate(schedule, machine, sharing="fair", fair_tolerance=0.1)
    assert near.grid == pytest.approx(0.6)
    assert exact.makespan == 6.0
    assert near.makespan == pytest.approx(6 * 1.2)
    assert near.grid_error >= 6 * near.grid / 2


@given(ranks=st.integers(2, 6), seed=st.integers(0, 99))
def test_engines_agree_on_a_grid(ranks: int, seed: int) -> None:
    schedule = skewed(UNEVEN, Zipf(1.2, seed)).build(ranks, 1e9)
    machine = star(ranks, bandwidth=1e9)
    reference, fast = (
        simulate(schedule, machine, engine, sharing="fair", fair_tolerance=0.03)
        for engine in ("reference", "compiled")
    )
    assert fast.finish == pytest.approx(reference.finish, rel=1e-9)
    assert fast.grid == reference.grid
    assert fast.grid_error == pytest.approx(reference.grid_error, rel=1e-6, abs=1e-9)


def test_a_tolerance_has_limits() -> None:
    schedule, machine = find("ring").build(4, 1.0), star(4, bandwidth=1.0)
    assert refusal(simulate, schedule, machine, fair_tolerance=0.01) == (
        "fair_tolerance is 0.01: it goes with fair sharing"
    )
    assert refusal(simulate, schedule, machine, sharing="fair", fair_tolerance=0.2) == (
        "fair_tolerance is 0.2: expected 0 to 0.1, like 1e-3"
    )
