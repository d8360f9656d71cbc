"""The critical path: why a run takes as long as it takes, to the last bit of it."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import cache
from math import fsum
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from random_machines import Draw, Parameters, irregular, random_machine
from random_schedules import Mixture, random_schedule
from simulator.builder import ScheduleBuilder
from simulator.collectives import algorithms, find
from simulator.critical_path import (
    PARTS,
    Path,
    Segment,
    critical_path,
    parts,
    sensitivities,
    trace_back,
    worth,
)
from simulator.engines import simulate
from simulator.schedule import Schedule
from simulator.timeline import Sharing, Timeline
from small_machines import Wire, merge, route_of
from small_schedules import messages
from topologies import shapes
from topologies._compile import compiled
from topologies.builder import TopologyBuilder
from topologies.topology import Floats, Topology


def nonzero(path: list[Segment]) -> dict[str, float]:
    """The parts that take any time."""
    return {part: seconds for part, seconds in parts(path).items() if seconds}


def story(timeline: Timeline) -> list[tuple[str, float, int, bool]]:
    """The segments from the end to the start, without those of no time: part, seconds, operation, whether another one
    waited for it."""
    return [(s.part, s.seconds, s.operation, s.waiter != s.operation) for s in critical_path(timeline) if s.seconds]


# Parts, by hand.


def test_a_message_alone_is_latency_gap_and_the_bytes_on_its_slowest_wire() -> None:
    # 8/4 + 1 = 3 s on the first wire, 8/2 + 2 = 6 s on the second.
    timeline = simulate(messages(8.0), route_of(Wire(4, 2, 1), Wire(2, 3, 2)))
    assert timeline.makespan == 2 + 6 + 3
    assert story(timeline) == [
        ("latency", 3, 0, False),
        ("serialisation", 4, 0, False),
        ("gap", 2, 0, False),
        ("latency", 2, 0, False),
    ]


def test_on_a_slow_first_wire_the_path_leaves_out_what_the_faster_ones_do_meanwhile() -> None:
    timeline = simulate(messages(8.0), route_of(Wire(1, 1), Wire(8, 2), Wire(2, 3)))
    assert nonzero(critical_path(timeline)) == {"latency": 6, "serialisation": 8}
    assert [(s.part, s.where) for s in critical_path(timeline) if s.seconds] == [
        ("latency", 2),
        ("latency", 1),
        ("latency", 0),
        ("serialisation", 0),
    ]


def test_waiting_behind_a_message_of_the_same_rank_counts_as_what_that_message_does() -> None:
    # The second message waits 5 + 1 s, then takes 3 + 1 s and 2 s of latency.
    timeline = simulate(messages(10.0, 6.0), route_of(Wire(2, 2, 1)))
    path = critical_path(timeline)
    assert nonzero(path) == {"latency": 2, "serialisation": 3 + 5, "gap": 1 + 1}
    assert {part: seconds for part, seconds in worth(path).items() if seconds} == nonzero(path)
    assert story(timeline) == [
        ("latency", 2, 1, False),
        ("serialisation", 3, 1, False),
        ("gap", 1, 1, False),
        ("serialisation", 5, 0, True),
        ("gap", 1, 0, True),
    ]


def test_the_last_of_an_incast_waited_for_all_before_it() -> None:
    # Heads at the switch at 1, 4 s each: the last is there from 9 to 13, and arrives at 14.
    schedule = ScheduleBuilder(4, 1.0)
    schedule.signal([1, 2, 3], [0, 0, 0], nbytes=4.0)
    timeline = simulate(schedule.build(), shapes.star(4, bandwidth=1.0, latency=1.0))
    assert story(timeline) == [
        ("latency", 1, 2, False),
        ("serialisation", 4, 2, False),
        ("serialisation", 4, 1, True),
        ("serialisation", 4, 0, True),
        ("latency", 1, 0, False),
    ]
    assert nonzero(critical_path(timeline)) == {"latency": 2, "serialisation": 4, "contention": 8}
    assert worth(critical_path(timeline))["serialisation"] == 12


def test_a_queue_that_costs_nothing_is_not_on_the_path() -> None:
    # Rank 0's head waits at the switch until 5, but its last byte leaves rank 0 at 10: the wire is all that counts.
    schedule = ScheduleBuilder(3, 1.0)
    schedule.signal(1, 2, nbytes=20.0)
    schedule.signal(0, 2, nbytes=10.0)
    timeline = simulate(schedule.build(), merge())
    assert story(timeline) == [("serialisation", 10, 1, False)]


def test_reductions_queue_for_the_receiver() -> None:
    # Both arrive at 4; merged 4..7 and 7..10: the path is 4 s on the wire, 3 s in the queue, 3 s of merging.
    schedule = ScheduleBuilder(3, 4.0)
    schedule.reduce([1, 2], 0, slot=0)
    timeline = simulate(schedule.build(), shapes.full_mesh(3, bandwidth=1.0, reduction=0.75))
    assert story(timeline) == [
        ("reduction", 3, 1, False),
        ("reduction", 3, 0, True),
        ("serialisation", 4, 0, False),
    ]
    assert parts(critical_path(timeline))["contention"] == 3, "rank 2's sum behind rank 1's"


def test_computations_count_and_queue_for_their_lane() -> None:
    # 3 s, then 5 s on the same lane, then 2 bytes.
    schedule = ScheduleBuilder(2, 1.0)
    schedule.compute(0, 3.0)
    last = schedule.compute(0, 5.0)
    schedule.signal(0, 1, nbytes=2.0, after=last)
    timeline = simulate(schedule.build(), route_of(Wire(1, 1)))
    assert story(timeline) == [
        ("latency", 1, 2, False),
        ("serialisation", 2, 2, False),
        ("compute", 5, 1, False),
        ("compute", 3, 0, True),
    ]


def test_local_copies_count_at_their_rank() -> None:
    builder = TopologyBuilder("local")
    ends = [builder.device("a"), builder.device("b", copy=0.5)]
    builder.connect(*ends, bandwidth=1.0)
    schedule = ScheduleBuilder(2, 4.0, scratch=1)
    schedule.copy(0, 1, slot=0, target=1)
    schedule.copy(1, 1, slot=1, target=0)
    timeline = simulate(schedule.build(), builder.build(ends))
    assert story(timeline) == [("copy", 2, 1, False), ("serialisation", 4, 0, False)]
    assert sensitivities(timeline).copy.tolist() == [0, 4]


def test_the_path_goes_through_the_slowest_of_several_media() -> None:
    builder = TopologyBuilder("media")
    ends = [builder.device("a"), builder.device("b")]
    bus, port = builder.medium("bus", 4.0, gap=3.0), builder.medium("port", 2.0)
    builder.link("a", "b", bandwidth=8.0, media=(bus, port))
    topology = builder.build(ends)
    # 4 bytes: 1 + 3 on the bus, 2 through the port. 40 bytes: 10 + 3 on the bus, 20 through the port.
    assert nonzero(critical_path(simulate(messages(4.0), topology))) == {"serialisation": 1, "gap": 3}
    assert nonzero(critical_path(simulate(messages(40.0), topology))) == {"serialisation": 20}
    # Both: the large one waits 4 s for the bus, though the port is free at 2.
    assert nonzero(critical_path(simulate(messages(4.0, 40.0), topology))) == {"serialisation": 20 + 1, "gap": 3}


def test_of_equally_slow_media_the_first_is_on_the_path() -> None:
    builder = TopologyBuilder("equal media")
    ends = [builder.device("a"), builder.device("b")]
    media = [builder.medium(name, 2.0) for name in ("bus", "port")]
    builder.link("a", "b", bandwidth=4.0, media=media)
    topology = builder.build(ends)
    (segment,) = [s for s in critical_path(simulate(messages(8.0), topology)) if s.seconds]
    assert segment[:2] == ("serialisation", 4.0)
    assert topology.medium_names[segment.where] == "bus"


def test_no_time_has_no_path() -> None:
    assert critical_path(simulate(ScheduleBuilder(2, 1.0).build(), shapes.line(2, bandwidth=1.0))) == []
    instant = simulate(messages(5.0), shapes.line(2, bandwidth=float("inf")))
    assert critical_path(instant) == []
    assert set(parts([])) == set(PARTS)
    assert sum(parts([]).values()) == 0


# Counts.


@pytest.mark.parametrize("ranks", [2, 3, 5, 8, 16])
def test_a_ring_waits_for_2p_minus_2_latencies_and_as_many_chunks(ranks: int) -> None:
    nbytes = 1e6
    topology = shapes.ring(ranks, bandwidth=1e9, latency=1e-6, gap=1e-7, reduction=1e-10)
    timeline = simulate(find("ring").build(ranks, nbytes), topology)
    worths = sensitivities(timeline)
    assert worths.latency.sum() == 2 * (ranks - 1)
    assert worths.gap.sum() == 2 * (ranks - 1)
    assert worths.inverse_bandwidth.sum() == pytest.approx(2 * (ranks - 1) * nbytes / ranks, rel=1e-12)
    assert worths.reduction.sum() == pytest.approx((ranks - 1) * nbytes / ranks, rel=1e-12)
    assert worths.copy.sum() == 0


def test_through_a_star_a_ring_waits_for_twice_as_many_latencies() -> None:
    timeline = simulate(find("ring").build(6, 6e6), shapes.star(6, bandwidth=1e9, latency=1e-6))
    assert sensitivities(timeline).latency.sum() == 4 * 5
    assert sensitivities(timeline).inverse_bandwidth.sum() == pytest.approx(2 * 5 * 1e6)


def test_sensitivities_of_a_path_at_hand_are_the_same() -> None:
    timeline = simulate(find("tree").build(5, 1e6), shapes.star(5, bandwidth=1e9, latency=1e-6))
    given_path, own = sensitivities(timeline, critical_path(timeline)), sensitivities(timeline)
    assert given_path.latency.tolist() == own.latency.tolist()
    assert own.latency.shape == (10,)
    assert own.gap.shape == own.inverse_bandwidth.shape == (10,)
    assert own.reduction.shape == own.copy.shape == (5,)


# Laws.

SHAPES: list[Callable[..., Topology]] = [shape for name, shape in shapes.SHAPES.items() if name != "hypercube"]
NAMES = tuple(name for name, algorithm in algorithms().items() if not algorithm.build(2, 1.0).switches)


def without_ties(topology: Topology, seed: int) -> Topology:
    """The same machine with parameters among which there are no ties; to copy takes about as long as to reduce."""
    rng = np.random.default_rng(seed)
    changed = irregular(topology, rng)
    return replace(changed, copy=topology.reduction * rng.uniform(0.5, 1.5, len(topology.reduction)))


@cache
def built(name: str, ranks: int, nbytes: float) -> Schedule:
    return find(name).build(ranks, nbytes)


def check_sums(name: str, shape: Callable[..., Topology], ranks: int) -> None:
    algorithm = find(name)
    regular = shape(ranks + algorithm.servers, bandwidth=1e9, latency=1e-6, gap=3e-7, reduction=2e-10)
    for topology in (regular, without_ties(regular, ranks)):
        timeline = simulate(built(name, ranks, 1e5), topology)
        path = critical_path(timeline)
        assert fsum(segment.seconds for segment in path) == pytest.approx(timeline.makespan, rel=1e-12)
        assert all(segment.seconds >= 0 for segment in path)
        assert fsum(parts(path).values()) == pytest.approx(timeline.makespan, rel=1e-12)
        assert fsum(worth(path).values()) == pytest.approx(timeline.makespan, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_the_path_of_every_algorithm_adds_up_to_its_makespan(name: str) -> None:
    """Ranks and shapes by turns: with another algorithm a shape has other ranks."""
    for turn, shape in enumerate(SHAPES, NAMES.index(name)):
        check_sums(name, shape, (2, 3, 5, 8)[turn % 4])


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_the_path_of_every_algorithm_adds_up_on_every_shape(
    name: str, shape: Callable[..., Topology], ranks: int
) -> None:
    check_sums(name, shape, ranks)


def some(low: float, high: float) -> Draw:
    return lambda random: random.uniform(low, high)


def some_or_none(low: float, high: float) -> Draw:
    return lambda random: 0.0 if random.random() < 0.3 else random.uniform(low, high)


NO_TIES = Parameters(
    reduction=some(0.1, 0.6),
    copy=some(0.1, 0.6),
    shared_bandwidth=some(1, 2),
    shared_gap=some(0.1, 0.5),
    bandwidth=some(1, 3),
    latency=some(0.1, 2.0),
    gap=some(0.1, 0.5),
    together=False,
)
SOME_ZEROS = Parameters(
    reduction=some_or_none(0.1, 0.6),
    copy=some_or_none(0.1, 0.6),
    shared_bandwidth=some(1, 2),
    shared_gap=some_or_none(0.1, 0.5),
    bandwidth=lambda random: random.choice((1.0, 2.0, float("inf"))),
    latency=some_or_none(0.1, 2.0),
    gap=some_or_none(0.1, 0.5),
)
SCHEDULES = Mixture(some(0, 4), some(0, 2))


def drawn(random: Random, ranks: int, *, zeros: bool) -> tuple[Schedule, Topology]:
    """With or without ties of all sorts."""
    return random_schedule(random, ranks, SCHEDULES), random_machine(random, ranks, SOME_ZEROS if zeros else NO_TIES)


RULES = ("fifo", "store-and-forward", "fair")


def under(rule: str, schedule: Schedule, topology: Topology) -> Timeline:
    """The reference engine under one of the rules of time."""
    sharing: Sharing = "fair" if rule == "fair" else "fifo"
    return simulate(schedule, topology, "reference", sharing=sharing, store_and_forward=rule == "store-and-forward")


@given(st.integers(0, 2**32), st.integers(2, 5), st.booleans(), st.sampled_from(RULES))
def test_the_path_of_any_schedule_adds_up_to_its_makespan(seed: int, ranks: int, zeros: bool, rule: str) -> None:
    random = Random(seed)
    timeline = under(rule, *drawn(random, ranks, zeros=zeros))
    path = critical_path(timeline)
    assert fsum(segment.seconds for segment in path) == pytest.approx(timeline.makespan, rel=1e-12)
    assert all(segment.seconds >= 0 for segment in path)


def assert_same(one: Path, other: Path) -> None:
    for column in fields(Path):
        mine, yours = getattr(one, column.name), getattr(other, column.name)
        assert mine.dtype == yours.dtype, column.name
        assert mine.tobytes() == yours.tobytes(), column.name


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 5), st.booleans(), st.sampled_from(RULES))
def test_the_walk_is_the_same_compiled_or_not(seed: int, ranks: int, zeros: bool, rule: str) -> None:
    random = Random(seed)
    timeline = under(rule, *drawn(random, ranks, zeros=zeros))
    with patch("simulator.critical_path.kernel", lambda function, _: function):
        plain = trace_back(timeline)
    with patch("simulator.critical_path.kernel", lambda function, _: compiled(function)):
        fast = trace_back(timeline)
    assert_same(plain, fast)
    assert_same(Path.of(plain), plain)
    assert len(plain) == len(list(plain))


@given(st.integers(0, 2**32), st.integers(2, 5), st.sampled_from(RULES))
def test_the_path_goes_back_in_time_without_a_gap(seed: int, ranks: int, rule: str) -> None:
    """What an operation on the path does is done by the time that the segments after it have counted down to."""
    random = Random(seed)
    timeline = under(rule, *drawn(random, ranks, zeros=True))
    now = timeline.makespan
    for segment in critical_path(timeline):
        assert now <= timeline.finish[segment.operation] + 1e-9
        now -= segment.seconds
        waited = segment.waiter != segment.operation
        assert now >= (-1e-9 if waited else timeline.ready[segment.operation] - 1e-9)
    assert now == pytest.approx(0, abs=1e-9)


@given(st.integers(0, 2**32), st.integers(2, 5))
def test_amounts_times_parameters_are_the_seconds(seed: int, ranks: int) -> None:
    random = Random(seed)
    timeline = simulate(*drawn(random, ranks, zeros=True), "reference")
    topology, worths, path = timeline.routed.topology, sensitivities(timeline), critical_path(timeline)
    seconds = {
        "latency": worths.latency @ topology.latency,
        "gap": worths.gap @ topology.medium_gap,
        "serialisation": worths.inverse_bandwidth @ (1 / topology.medium_bandwidth),
        "reduction": worths.reduction @ timeline.routed.reduction,
        "copy": worths.copy @ timeline.routed.copy,
    }
    for part, value in worth(path).items():
        if part != "compute":
            assert value == pytest.approx(seconds[part], rel=1e-12, abs=1e-15)


STEP = 2.0**-26


def nudged(topology: Topology) -> Iterator[tuple[str, int, Topology]]:
    """The machine with one parameter a little higher, for each of them."""

    def up(values: Floats, index: int) -> Floats:
        higher = values.copy()
        higher[index] += STEP
        return higher

    for link in range(len(topology.latency)):
        yield "latency", link, replace(topology, latency=up(topology.latency, link))
    for medium in range(len(topology.medium_gap)):
        yield "gap", medium, replace(topology, medium_gap=up(topology.medium_gap, medium))
        bandwidth = topology.medium_bandwidth.copy()
        bandwidth[medium] = 1 / (1 / bandwidth[medium] + STEP)
        yield "inverse_bandwidth", medium, replace(topology, medium_bandwidth=bandwidth)
    for rank, device in enumerate(topology.placement):
        yield "reduction", rank, replace(topology, reduction=up(topology.reduction, int(device)))
        yield "copy", rank, replace(topology, copy=up(topology.copy, int(device)))


def check_differences(schedule: Schedule, topology: Topology, rule: str = "fifo") -> int:
    """Compare with finite differences wherever the order of service stays; returns how many there were."""
    timeline = under(rule, schedule, topology)
    worths, compared = sensitivities(timeline), 0
    for name, index, machine in nudged(topology):
        other = under(rule, schedule, machine)
        if (other.node_cause != timeline.node_cause).any() or np.argmax(other.finish) != np.argmax(timeline.finish):
            continue
        difference = (other.makespan - timeline.makespan) / STEP
        assert getattr(worths, name)[index] == pytest.approx(difference, rel=1e-5, abs=1e-5), (name, index)
        compared += 1
    return compared


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(2, 4), st.sampled_from(RULES[:2]))
def test_sensitivities_are_the_differences_of_the_makespan(seed: int, ranks: int, rule: str) -> None:
    random = Random(seed)
    schedule, topology = drawn(random, ranks, zeros=False)
    everything = 2 * ranks + len(topology.latency) + 2 * len(topology.medium_gap)
    assert check_differences(schedule, topology, rule) >= everything - 2, "there are hardly ever near ties"


def check_sensitivities(name: str, shape: Callable[..., Topology], ranks: int) -> None:
    regular = shape(ranks + find(name).servers, bandwidth=1.0, latency=1.0, gap=1.0, reduction=0.3)
    assert check_differences(built(name, ranks, 20.0), without_ties(regular, seed=7)) > 4 * ranks


SIMPLE = (shapes.ring, shapes.star, shapes.bus, shapes.full_mesh_one_port)


@pytest.mark.parametrize("name", NAMES)
def test_sensitivities_of_every_algorithm_are_the_differences_of_its_makespan(name: str) -> None:
    for turn, ranks in enumerate((2, 3, 4, 5), NAMES.index(name)):
        check_sensitivities(name, SIMPLE[turn % 4], ranks)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", SIMPLE)
def test_sensitivities_of_every_algorithm_are_those_on_every_shape(name: str, shape: Callable[..., Topology]) -> None:
    check_sensitivities(name, shape, 5)
