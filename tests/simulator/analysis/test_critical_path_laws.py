"""Laws of the critical path: it adds up to the makespan, and its derivatives are finite
differences."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import cache
from itertools import product
from math import fsum
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from law_cases import NAMES, a_sixth, tries
from simulator.analysis.critical_path import (
    CriticalPath,
    MachineCosts,
    critical_path,
    parts,
    sensitivities,
    worth,
)
from simulator.collectives import find
from simulator.engines import simulate
from simulator.schedules.schedule import Schedule
from simulator.schedules.timeline import Sharing, Timeline
from small_machines import Draw, Parameters, irregular, random_machine
from small_schedules import Mixture, random_schedule
from topologies import shapes
from topologies.jit import compiled
from topologies.topology import Floats, Topology

SHAPES: list[Callable[..., Topology]] = [
    shape for name, shape in shapes.SHAPES.items() if name != "hypercube"
]


def without_ties(topology: Topology, seed: int) -> Topology:
    """The same machine with parameters among which there are no ties; to copy takes about as long
    as to reduce."""
    rng = np.random.default_rng(seed)
    changed = irregular(topology, rng)
    return replace(
        changed, copy=topology.reduction * rng.uniform(0.5, 1.5, len(topology.reduction))
    )


@cache
def built(name: str, ranks: int, nbytes: float) -> Schedule:
    return find(name).build(ranks, nbytes)


def check_sums(name: str, shape: Callable[..., Topology], ranks: int) -> None:
    algorithm = find(name)
    regular = shape(
        ranks + algorithm.servers, bandwidth=1e9, latency=1e-6, gap=3e-7, reduction=2e-10
    )
    for topology in (regular, without_ties(regular, ranks)):
        timeline = simulate(built(name, ranks, 1e5), topology)
        path = critical_path(timeline)
        assert fsum(segment.seconds for segment in path) == pytest.approx(
            timeline.makespan, rel=1e-12
        )
        assert all(segment.seconds >= 0 for segment in path)
        assert fsum(parts(path).values()) == pytest.approx(timeline.makespan, rel=1e-12)
        assert fsum(worth(path).values()) == pytest.approx(timeline.makespan, rel=1e-12)


@pytest.mark.parametrize("name", a_sixth(NAMES, 1))
def test_the_path_of_every_algorithm_adds_up_to_its_makespan(name: str) -> None:
    """Ranks and shapes by turns: with another algorithm a shape has other ranks."""
    for turn, shape in enumerate(SHAPES, NAMES.index(name)):
        check_sums(name, shape, (2, 3, 5, 8)[turn % 4])


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_the_path_of_every_algorithm_adds_up_on_every_shape(name: str) -> None:
    for shape, ranks in product(SHAPES, (2, 5, 8)):
        check_sums(name, shape, ranks)


def uniform(low: float, high: float) -> Draw:
    return lambda random: random.uniform(low, high)


def zero_or_uniform(low: float, high: float) -> Draw:
    return lambda random: 0.0 if random.random() < 0.3 else random.uniform(low, high)


NO_TIES = Parameters(
    reduction=uniform(0.1, 0.6),
    copy=uniform(0.1, 0.6),
    shared_bandwidth=uniform(1, 2),
    shared_gap=uniform(0.1, 0.5),
    bandwidth=uniform(1, 3),
    latency=uniform(0.1, 2.0),
    gap=uniform(0.1, 0.5),
    together=False,
)
SOME_ZEROS = Parameters(
    reduction=zero_or_uniform(0.1, 0.6),
    copy=zero_or_uniform(0.1, 0.6),
    shared_bandwidth=uniform(1, 2),
    shared_gap=zero_or_uniform(0.1, 0.5),
    bandwidth=lambda random: random.choice((1.0, 2.0, float("inf"))),
    latency=zero_or_uniform(0.1, 2.0),
    gap=zero_or_uniform(0.1, 0.5),
)
SCHEDULES = Mixture(uniform(0, 4), uniform(0, 2))


def drawn(random: Random, ranks: int, *, zeros: bool) -> tuple[Schedule, Topology]:
    """With or without ties of all sorts."""
    return random_schedule(random, ranks, SCHEDULES), random_machine(
        random, ranks, SOME_ZEROS if zeros else NO_TIES
    )


RULES = ("fifo", "store-and-forward", "fair")


def under(rule: str, schedule: Schedule, topology: Topology) -> Timeline:
    """The reference engine under one of the rules of time."""
    sharing: Sharing = "fair" if rule == "fair" else "fifo"
    return simulate(
        schedule,
        topology,
        "reference",
        sharing=sharing,
        store_and_forward=rule == "store-and-forward",
    )


@given(st.integers(0, 2**32), st.integers(2, 5), st.booleans(), st.sampled_from(RULES))
def test_the_path_of_any_schedule_adds_up_to_its_makespan(
    seed: int, ranks: int, zeros: bool, rule: str
) -> None:
    random = Random(seed)
    timeline = under(rule, *drawn(random, ranks, zeros=zeros))
    path = critical_path(timeline)
    assert fsum(segment.seconds for segment in path) == pytest.approx(timeline.makespan, rel=1e-12)
    assert all(segment.seconds >= 0 for segment in path)


def assert_same(path: CriticalPath, reference: CriticalPath) -> None:
    for column in fields(CriticalPath):
        mine, yours = getattr(path, column.name), getattr(reference, column.name)
        assert mine.dtype == yours.dtype, column.name
        assert mine.tobytes() == yours.tobytes(), column.name


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 5), st.booleans(), st.sampled_from(RULES))
def test_the_walk_is_the_same_compiled_or_not(
    seed: int, ranks: int, zeros: bool, rule: str
) -> None:
    random = Random(seed)
    timeline = under(rule, *drawn(random, ranks, zeros=zeros))
    with patch("simulator.analysis.critical_path.kernel", lambda function, _: function):
        plain = critical_path(timeline)
    with patch("simulator.analysis.critical_path.kernel", lambda function, _: compiled(function)):
        fast = critical_path(timeline)
    assert_same(plain, fast)
    assert_same(CriticalPath.joined([plain]), plain)
    assert len(plain) == len(list(plain))


@given(st.integers(0, 2**32), st.integers(2, 5), st.sampled_from(RULES))
def test_the_path_goes_back_in_time_without_a_gap(seed: int, ranks: int, rule: str) -> None:
    """What an operation on the path does is done by the time that the segments after it have
    counted down to."""
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
    topology, worths, path = (
        timeline.routed.topology,
        sensitivities(timeline),
        critical_path(timeline),
    )
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


@given(st.integers(0, 2**32), st.integers(2, 5))
def test_several_machines_take_what_each_takes(seed: int, ranks: int) -> None:
    schedule, topology = drawn(Random(seed), ranks, zeros=False)
    worths = sensitivities(simulate(schedule, topology))
    rng = np.random.default_rng(seed)
    larger = [
        simulate(schedule.scaled(3.0 * schedule.nbytes_total), irregular(topology, rng)).routed
        for _ in range(3)
    ]
    together = worths.seconds_of(MachineCosts.of(larger), 3.0 * schedule.nbytes_total)
    assert together == pytest.approx([worths.seconds(routed) for routed in larger], rel=1e-12)


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
    """Compare with finite differences wherever the order of service stays; returns how many there
    were."""
    timeline = under(rule, schedule, topology)
    worths, compared = sensitivities(timeline), 0
    for name, index, machine in nudged(topology):
        changed = under(rule, schedule, machine)
        if (changed.node_cause != timeline.node_cause).any() or np.argmax(
            changed.finish
        ) != np.argmax(timeline.finish):
            continue
        difference = (changed.makespan - timeline.makespan) / STEP
        assert getattr(worths, name)[index] == pytest.approx(difference, rel=1e-5, abs=1e-5), (
            name,
            index,
        )
        compared += 1
    return compared


@tries(10, 40)
@given(st.integers(0, 2**32), st.integers(2, 4), st.sampled_from(RULES[:2]))
def test_sensitivities_are_the_differences_of_the_makespan(
    seed: int, ranks: int, rule: str
) -> None:
    random = Random(seed)
    schedule, topology = drawn(random, ranks, zeros=False)
    parameters = 2 * ranks + len(topology.latency) + 2 * len(topology.medium_gap)
    assert check_differences(schedule, topology, rule) >= parameters - 2, (
        "there are hardly ever near ties"
    )


def check_sensitivities(name: str, shape: Callable[..., Topology], ranks: int) -> None:
    regular = shape(ranks + find(name).servers, bandwidth=1.0, latency=1.0, gap=1.0, reduction=0.3)
    assert check_differences(built(name, ranks, 20.0), without_ties(regular, seed=7)) > 4 * ranks


SIMPLE = (shapes.ring, shapes.star, shapes.bus, shapes.full_mesh_one_port)


@pytest.mark.parametrize("name", a_sixth(NAMES, 2))
def test_sensitivities_of_every_algorithm_are_the_differences_of_its_makespan(name: str) -> None:
    for turn, ranks in enumerate((2, 3), NAMES.index(name)):
        check_sensitivities(name, SIMPLE[turn % 4], ranks)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", SIMPLE)
def test_sensitivities_of_every_algorithm_are_those_on_every_shape(
    name: str, shape: Callable[..., Topology]
) -> None:
    check_sensitivities(name, shape, 5)
