"""Times beyond what a float holds are refused before a run, by both engines and in the same
words."""

from collections.abc import Callable

import pytest

from grouped_cases import each_case
from refusals import refusal
from simulator.engines import Engine, Sharing, simulate
from simulator.kernels import fair_sharing
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from small_schedules import messages
from topologies.link import Link
from topologies.shapes import ring
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


CASES: dict[str, tuple[Callable[[], Schedule], Callable[[], Topology], str]] = {
    "a link without end": (
        lambda: messages(1e300, 1.0),
        lambda: ring(2, bandwidth=1e-9),
        "1e+300 B from rank 0 to 1",
    ),
    "many latencies": (
        lambda: messages(*[0.0] * 9),
        lambda: ring(2, bandwidth=1.0, latency=2e299),
        "0 B from rank 0",
    ),
    "gaps": (
        lambda: messages(0.0),
        lambda: ring(2, bandwidth=1.0, gap=1e307),
        "0 B from rank 0 to 1, takes 1e+307 s",
    ),
    "a smallest bandwidth": (
        lambda: messages(1e-300, 1e-300),
        lambda: ring(2, bandwidth=5e-324),
        "takes inf s",
    ),
    "computations": (
        lambda: computations(1.0, 1e308, 1e308),
        lambda: ring(2, bandwidth=1.0),
        "operation 1, a comp",
    ),
    "a late message": (
        late_message,
        lambda: ring(2, bandwidth=1.0),
        "operation 0, a computation of rank 0",
    ),
    "merging": (lambda: reduction(1e10), slow_merging, "1e+10 B from rank 0 to 1, takes inf s"),
}


@each_case("sharing", ["fifo", "fair"])
@each_case("case", CASES)
def test_both_engines_refuse_in_the_same_words(case: str, sharing: Sharing) -> None:
    schedule, topology, message = CASES[case]
    engines: tuple[Engine, Engine] = "reference", "compiled"
    messages = [
        refusal(lambda e=e: simulate(schedule(), topology(), e, sharing=sharing)) for e in engines
    ]
    assert messages[0] == messages[1]
    assert message in messages[0]
    assert messages[0].endswith(
        "expected at most 1e+300 s in all, check sizes, bandwidths and latencies"
    )


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
