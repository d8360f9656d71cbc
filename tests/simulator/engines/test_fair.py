"""Max-min fair sharing, in numbers small enough to follow with a finger; every story is run on both
engines, and on the kernel as it is."""

from collections.abc import Callable

import numpy as np
import pytest

from simulator.analysis.critical_path import critical_path, sensitivities
from simulator.collectives import find
from simulator.engines import Engine, simulate
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.timeline import Timeline
from small_machines import route_of
from small_schedules import between, messages
from topologies import jit, shapes
from topologies.errors import InputError
from topologies.link import Link
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder

Run = Callable[[Schedule, Topology], Timeline]


@pytest.fixture(params=["reference", "compiled", "as it is"])
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Run:
    engine: Engine = "reference" if request.param == "reference" else "compiled"
    if request.param == "as it is":
        monkeypatch.setattr("simulator.engines.compiled.compiled", lambda kernel: kernel)
    return lambda schedule, topology: simulate(schedule, topology, engine, sharing="fair")


def fair(schedule: Schedule, topology: Topology, engine: Engine = "reference") -> Timeline:
    return simulate(schedule, topology, engine, sharing="fair")


# Rates.


def test_two_flows_share_a_wire_and_the_one_that_remains_has_it_all(run: Run) -> None:
    # 2 B/s: each 1 B/s until 4, then the second one's other 4 bytes at 2 B/s.
    assert run(messages(4.0, 8.0), route_of(Link(2))).finish.tolist() == [4, 6]


def crossing_twice() -> Topology:
    """a -> b -> c: both wires hang on one bus of 4 B/s; d -> e hangs on it too."""
    builder = TopologyBuilder("twice")
    names = [builder.device(name) for name in "abcde"]
    bus = builder.medium("bus", 4.0)
    for source, target in ("ab", "bc", "de"):
        builder.link(source, target, Link(float("inf")), media=(bus,))
    return builder.build(names)


def test_a_route_that_crosses_a_medium_twice_counts_twice_there(run: Run) -> None:
    # Alone 2 B/s. Beside d -> e 4/3 B/s each: 2 * 4/3 + 4/3 = 4.
    assert run(between((0, 2, 4.0)), crossing_twice()).finish.tolist() == [2]
    assert run(between((0, 2, 4.0), (3, 4, 4.0)), crossing_twice()).finish.tolist() == [3, 3]
    # d -> e is sent at 3/4; a -> c has sent as much, and has 2 B/s for the rest.
    assert run(between((0, 2, 4.0), (3, 4, 1.0)), crossing_twice()).finish.tolist() == [
        0.75 + 1.5,
        0.75,
    ]


# Gaps, latencies, what needs no bandwidth.


# The rest is as it was.


def test_what_ends_together_does_so_in_spite_of_rounding(run: Run) -> None:
    # 0.1 + 0.1 + 0.1 s and 0.3 s, which are not the same number: the lower index is merged first.
    schedule = ScheduleBuilder(3, 1.0, slots=(0.3, 0.1, 0.6))
    first = schedule.signal(1, 0, nbytes=0.1)
    second = schedule.signal(1, 0, nbytes=0.1, after=first)
    schedule.reduce(1, 0, slot=1, after=second)
    schedule.reduce(2, 0, slot=0)
    timeline = run(schedule.build(), shapes.full_mesh(3, bandwidth=1.0, reduction=1.0))
    assert timeline.sent[2] == timeline.sent[3] == pytest.approx(0.3)
    assert timeline.finish[2:] == pytest.approx([0.4, 0.7])


def test_what_ends_with_a_computation_does_so_in_spite_of_rounding(run: Run) -> None:
    # The wire of 3 B/s has sent 4 and 5 bytes at 3, in numbers that are no thirds a little later;
    # rank 1 has computed then. What has arrived has the lower index, and is merged first.
    schedule = ScheduleBuilder(3, 10.0, slots=2)
    schedule.signal(0, 1, nbytes=4.0)
    schedule.signal(1, 2, nbytes=1.0)
    schedule.reduce(0, 1, slot=0)
    schedule.reduce(1, 1, slot=1, target=0, after=schedule.compute(1, 3.0))
    timeline = run(schedule.build(), shapes.line(3, bandwidth=3.0, reduction=1.0))
    assert timeline.finish.tolist() == [pytest.approx(8 / 3), pytest.approx(1 / 3), 8, 3, 13]


def test_computations_and_local_work_know_nothing_of_it(run: Run) -> None:
    builder = TopologyBuilder("local")
    names = [builder.device(name, reduction=1.0, copy=0.5) for name in ("a", "b")]
    builder.connect(names[0], names[1], Link(1.0))
    schedule = ScheduleBuilder(2, 4.0, scratch=2)
    schedule.copy(0, 0, slot=0, target=1)
    schedule.reduce(0, 0, slot=1, target=0)
    schedule.compute(0, np.array([3.0, 5.0]))
    timeline = run(schedule.build(), builder.build(names))
    assert timeline.finish.tolist() == [2, 6, 3, 8]
    assert timeline.node_cause.tolist() == [-1, -1, -1, 2]


def test_a_flow_too_short_to_take_time_ends_after_all_that_was_ready(run: Run) -> None:
    # At 1 rank 1 is ready to compute for 5 s. The message that arrives just then lets it compute
    # for 3 s after that.
    schedule = ScheduleBuilder(2, 1.0)
    first = schedule.compute([0, 1], 1.0)
    signal = schedule.signal(0, 1, nbytes=1e-20, after=first[:1])
    schedule.compute(1, 3.0, after=signal)
    schedule.compute(1, 5.0, after=first[1:])
    assert run(schedule.build(), shapes.line(2, bandwidth=1.0)).finish.tolist() == [1, 1, 1, 9, 6]


def test_a_flow_that_ends_as_another_starts_is_over_first(run: Run) -> None:
    # Message 0 has a gap of 1 s. At 1 it starts, message 1 ends, and what waits for message 1 goes
    # before operation 4.
    builder = TopologyBuilder("gap")
    names = [builder.device(name) for name in ("a", "b", "c")]
    builder.connect(names[0], names[1], Link(1.0, gap=1.0))
    builder.connect(names[1], names[2], Link(1.0))
    schedule = ScheduleBuilder(3, 1.0)
    schedule.signal(0, 1, nbytes=1.0)
    signal = schedule.signal(1, 2, nbytes=1.0)
    schedule.compute(2, 3.0, after=signal)
    early = schedule.compute(0, 1.0)
    schedule.compute(2, 5.0, after=early)
    assert run(schedule.build(), builder.build(names)).finish.tolist() == [2, 1, 4, 1, 9]


def test_an_empty_schedule_takes_no_time(run: Run) -> None:
    assert run(ScheduleBuilder(2, 1.0).build(), shapes.star(2, bandwidth=1.0)).makespan == 0


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(InputError, match="sharing is 'equal': it is fifo or fair"):
        simulate(messages(1.0), route_of(Link(1)), sharing="equal")  # type: ignore[arg-type]


# Collectives.


def test_much_that_meets_is_left_to_the_compiled_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def pays(work: int) -> bool:
        asked.append(work)
        return True

    monkeypatch.setattr(jit, "pays", pays)
    everyone, topology = find("naive").build(24, 1e6), shapes.star(24, bandwidth=1e9)
    fifo, shared = simulate(everyone, topology), simulate(everyone, topology, sharing="fair")
    assert fifo.makespan == pytest.approx(shared.makespan, rel=1e-9)
    assert asked[-1] > 20 * asked[0]


# What is read off.


def test_a_flow_that_crosses_a_medium_twice_is_twice_as_long_on_it() -> None:
    path = critical_path(fair(between((0, 2, 4.0), (3, 4, 4.0)), crossing_twice()))
    assert [(s.part, s.seconds, s.amount, s.contended) for s in path if s.seconds] == [
        ("serialisation", 2, 8, False),
        ("serialisation", 1, 4, True),
    ]


def test_counts_of_the_path_are_no_gradient() -> None:
    with pytest.raises(InputError, match="sharing is 'fair': sensitivities are counts of a path"):
        sensitivities(fair(messages(1.0), route_of(Link(1))))


def test_a_medium_is_used_for_what_it_could_carry() -> None:
    # Two flows of 4 bytes into a port of 2 B/s: half of what their own wires could carry.
    timeline = fair(between((1, 0, 4.0), (2, 0, 4.0)), shapes.star(3, bandwidth=2.0))
    occupancy = timeline.occupancy
    assert occupancy.start.tolist() == [0] * 4
    assert occupancy.seconds.tolist() == [4] * 4, "together, all the time"
    names = timeline.routed.topology.medium_names
    used = {names[k]: share for k, share in enumerate(timeline.utilisation().tolist()) if share}
    assert used == {"gpu1->switch": 0.5, "gpu2->switch": 0.5, "switch->gpu0": 1.0}
    assert timeline.medium_bytes().sum() == 16
