"""Reference and compiled engines agree to the bit: on every algorithm, on random schedules, and
every time."""

from contextlib import suppress
from itertools import cycle, islice
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from law_cases import ANY_NUMBER, NAMES, SOME, a_sixth, build, every_algorithm, orders, tries
from simulator.engines import simulate
from simulator.schedules import semantics
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.timeline import Timeline
from topologies.errors import InputError
from topologies.link import Link
from topologies.shapes import SHAPES
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder

TICK = 2.0**-20


# (5) The engines agree.


def bits(timeline: Timeline) -> dict[str, bytes]:
    columns = ("ready", "finish", "node_start", "node_cause")
    return {name: np.ascontiguousarray(getattr(timeline, name)).tobytes() for name in columns}


def assert_engines_agree(schedule: Schedule, topology: Topology) -> Timeline:
    reference, fast = (simulate(schedule, topology, engine) for engine in ("reference", "compiled"))
    for column in ("ready", "finish", "node_start", "node_cause"):
        mine, theirs = getattr(reference, column), getattr(fast, column)
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs, err_msg=column)
    assert bits(reference) == bits(fast)
    return fast


ticks = st.integers(0, 6).map(lambda count: count * TICK)
free_or_not = st.sampled_from((0.0, TICK, 64 * TICK))
bandwidths = st.integers(-2, 6).map(lambda power: 2.0**power)


parameters = st.fixed_dictionaries(
    {
        "bandwidth": st.integers(8, 14).map(lambda power: 2.0**power),
        "latency": st.integers(0, 2**18).map(lambda count: count * TICK),
        "gap": st.integers(0, 2**18).map(lambda count: count * TICK),
        "reduction": st.integers(0, 2**7).map(lambda count: count * TICK),
    }
)


@every_algorithm
@given(shape=st.sampled_from(ANY_NUMBER), ranks=st.integers(2, 9), numbers=parameters)
@tries(2, many=40)
def test_engines_agree_on_every_algorithm(
    name: str, shape: str, ranks: int, numbers: dict[str, float]
) -> None:
    schedule = build(name, ranks)
    assert_engines_agree(schedule, SHAPES[shape](schedule.ranks, **numbers))


def check_engines(name: str, shape: str, ranks: int, random: Random) -> None:
    schedule = build(name, ranks)
    numbers = {key: random.randrange(8) * 2**14 * TICK for key in ("latency", "gap")}
    topology = SHAPES[shape](
        schedule.ranks,
        bandwidth=2.0 ** random.randrange(8, 14),
        reduction=random.randrange(64) * TICK,
        **numbers,
    )
    assert_engines_agree(schedule, topology)


@pytest.mark.parametrize("name", a_sixth(NAMES, 1))
def test_engines_agree_at_some_counts_on_every_shape(name: str) -> None:
    """The shapes by turns, another first for each algorithm: every one with many."""
    random, first = Random(name), NAMES.index(name)
    for turn in range(len(ANY_NUMBER)):
        check_engines(name, ANY_NUMBER[(first + turn) % len(ANY_NUMBER)], SOME[turn % 6], random)


@pytest.mark.exhaustive
@every_algorithm
def test_engines_agree_at_every_count(name: str) -> None:
    """Each count on two shapes by turns, and 64 ranks on a star."""
    random = Random(name)
    shapes = cycle(ANY_NUMBER)
    for ranks in range(2, 34):
        for shape in islice(shapes, 2):
            check_engines(name, shape, ranks, random)
    check_engines(name, "star", 64, random)


def test_a_free_reduction_waits_for_a_slow_copy_on_its_lane() -> None:
    """One lane a rank merges and copies: γ = 0 does not overtake a local copy of 10 s, nor go
    unnoticed by it."""
    builder = TopologyBuilder("pair")
    names = [builder.device("a", copy=1.0), builder.device("b")]
    builder.connect(names[0], names[1], Link(10.0))
    program = ScheduleBuilder(2, 10.0, scratch=2)
    program.copy(0, 0, slot=0, target=1)
    program.reduce(1, 0, slot=0, target=2)
    timeline = assert_engines_agree(program.build(), builder.build(names))
    assert timeline.finish.tolist() == [10.0, 10.0]


@given(st.sampled_from(NAMES), st.sampled_from(ANY_NUMBER), st.integers(2, 6), st.data())
def test_engines_agree_on_parameters_that_are_no_binary_fractions(
    name: str, shape: str, ranks: int, data: st.DataObject
) -> None:
    number = st.floats(0, 1e-3)
    numbers = {key: data.draw(number, key) for key in ("latency", "gap", "reduction")}
    schedule = build(name, ranks)
    bandwidth = data.draw(st.floats(1e3, 1e9), "bandwidth")
    assert_engines_agree(schedule, SHAPES[shape](schedule.ranks, bandwidth=bandwidth, **numbers))


@st.composite
def machines(draw: st.DrawFn) -> Topology:
    """Devices that merge and copy at a cost, switches between them, shared media, ranks that share
    a device."""
    builder = TopologyBuilder("random")
    count = draw(st.integers(2, 5))
    gpus = [
        builder.device(f"gpu{k}", reduction=draw(free_or_not), copy=draw(free_or_not))
        for k in range(count)
    ]
    devices = gpus + [
        builder.device(f"switch{k}", "switch") for k in range(draw(st.integers(0, 3)))
    ]
    media = [
        builder.medium(f"medium{k}", draw(bandwidths), draw(ticks))
        for k in range(draw(st.integers(0, 3)))
    ]
    ends: set[tuple[str, str]] = set()
    for k in range(1, len(devices)):
        target = devices[draw(st.integers(0, k - 1))]
        ends |= {(devices[k], target), (target, devices[k])}
    pairs = [(source, target) for source in devices for target in devices if source != target]
    ends |= set(draw(st.lists(st.sampled_from(pairs), max_size=6)))
    for source, target in sorted(ends):
        crossed = draw(st.lists(st.sampled_from(media), unique=True, max_size=2)) if media else []
        bandwidth = draw(bandwidths | st.just(float("inf")))
        builder.link(source, target, Link(bandwidth, draw(ticks), draw(ticks)), media=crossed)
    return builder.build(
        draw(st.permutations(gpus)) if draw(st.integers(0, 3)) else [gpus[0], *gpus]
    )


@st.composite
def programs(draw: st.DrawFn, ranks: int, depth: int = 1) -> Schedule:
    """Copies, reductions, local ones, messages, computations on three lanes, and smaller programs
    inlined."""
    slots, size = draw(st.integers(1, 3)), float(draw(st.integers(1, 4)))
    kinds = st.sampled_from(
        ("copy", "reduce", "copy", "reduce", "local", "signal", "compute", *("inline",) * depth)
    )
    ends, first = st.integers(0, ranks - 1), st.integers(0, slots)
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
    schedule = _schedule(ranks, size * slots, slots, calls)
    for kind in draw(st.lists(kinds, max_size=12)):
        count = len(schedule)
        after = draw(st.lists(st.integers(0, count - 1), max_size=2)) if count else []
        width = draw(st.integers(1, 4))
        rank, peer = (
            np.array(draw(st.lists(ends, min_size=width, max_size=width))) for _ in range(2)
        )
        slot, target = (
            np.array(draw(st.lists(first, min_size=width, max_size=width))) for _ in range(2)
        )
        name, options = kind, dict[str, Any](slot=slot, target=target)
        where: tuple[Any, ...] = rank, peer
        if kind == "inline" and ranks > 2:
            where = (draw(programs(2, 0)),)
            options = {"ranks": draw(st.permutations(range(ranks)))[:2]}
            if where[0].slots > slots:
                continue
        elif kind == "signal":
            options = {"nbytes": float(draw(st.integers(0, 2)))}
        elif kind == "compute":
            where, lane = (rank[0], draw(ticks)), draw(st.integers(0, 2))
            writes = draw(st.just(-1) | first)
            options = {"lane": lane, "reads": slot[0], "writes": writes}
        elif kind in ("local", "inline"):
            name, where = "copy", (rank, rank if kind == "local" else peer)
        # Operations that are in each other's way are refused when the schedule is built.
        with suppress(InputError):
            call = name, where, {**options, "after": after}
            schedule = _schedule(ranks, size * slots, slots, [*calls, call])
            calls.append(call)
    return schedule


def _schedule(
    ranks: int, nbytes: float, slots: int, calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]]
) -> Schedule:
    builder = ScheduleBuilder(ranks, nbytes, slots=slots, scratch=1)
    for name, where, options in calls:
        getattr(builder, name)(*where, **options)
    return builder.build()


@st.composite
def runs(draw: st.DrawFn) -> tuple[Schedule, Topology]:
    topology = draw(machines())
    return draw(programs(topology.ranks)), topology


@tries(25, 100)
@given(runs())
def test_engines_agree_on_random_schedules_and_machines(run: tuple[Schedule, Topology]) -> None:
    assert_engines_agree(*run)


@pytest.mark.exhaustive
@settings(max_examples=5000)
@given(runs())
def test_engines_agree_on_many_random_schedules_and_machines(
    run: tuple[Schedule, Topology],
) -> None:
    assert_engines_agree(*run)


@given(runs(), st.integers(0, 3))
def test_a_random_schedule_means_the_same_in_any_order(
    run: tuple[Schedule, Topology], seed: int
) -> None:
    """What the builder derives is enough: no order of service can change what is computed."""
    schedule, topology = run
    data = semantics.inputs(schedule, seed)
    wanted = semantics.run(schedule, data)
    served = np.argsort(simulate(schedule, topology, "reference").finish, kind="stable").astype(
        np.int32
    )
    if len(schedule):
        for order in [*orders(schedule, Random(seed)), served]:
            assert np.array_equal(semantics.run(schedule, data, order), wanted)


@given(runs())
def test_a_run_is_the_same_every_time(run: tuple[Schedule, Topology]) -> None:
    schedule, topology = run
    assert bits(simulate(schedule, topology, "compiled")) == bits(
        simulate(schedule, topology, "compiled")
    )
    assert bits(simulate(schedule, topology, "reference")) == bits(
        simulate(schedule, topology, "auto")
    )
