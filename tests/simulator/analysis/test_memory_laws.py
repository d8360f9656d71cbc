"""Laws of memory over time, and a reference that replays events in dictionaries."""

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from law_cases import NAMES, a_sixth
from memory_steps import at, memory
from simulator.analysis.memory import trace
from simulator.collectives import find
from simulator.engines import simulate
from simulator.schedules.schedule import COMPUTE, Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.timeline import Timeline
from topologies import shapes
from topologies.link import Link
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder

Cell = tuple[int, int]
Term = tuple[Any, Any]
Value = frozenset[tuple[Term, int]]
"""What was added up: which inputs and results of computations, how often; the same from the
same."""


@dataclass
class Version:
    cell: Cell
    value: Value
    begin: float
    end: float = np.inf
    read: bool = False


@dataclass
class Replay:
    """Versions of cells, the last read of every value, and when every cell was in use."""

    versions: list[Version] = field(default_factory=list)
    held: dict[Cell, Version] = field(default_factory=dict)
    last_read: dict[Value, float] = field(default_factory=dict)
    uses: dict[Cell, list[float]] = field(default_factory=dict)

    def hold(self, cell: Cell, value: Value, begin: float) -> None:
        self.held[cell] = Version(cell, value, begin)
        self.versions.append(self.held[cell])


def replay(schedule: Schedule, timeline: Timeline) -> Replay:
    state = Replay()
    content: dict[Cell, Counter[Term]] = {
        (rank, slot): Counter({(rank, slot): 1})
        for rank in range(schedule.ranks)
        for slot in range(schedule.slots)
    }

    def value(cell: Cell) -> Value:
        return frozenset(content[cell].items())

    for rank in range(schedule.workers):
        for slot in range(schedule.buffer):
            state.hold((rank, slot), value((rank, slot)), 0.0)
    for i in sorted(range(len(schedule)), key=lambda i: (timeline.finish[i], i)):
        begin, end = float(timeline.start[i]), float(timeline.finish[i])
        for j in range(schedule.count[i]):
            origin = (int(schedule.rank[i]), int(schedule.source[i]) + j)
            goal = (int(schedule.peer[i]), int(schedule.target[i]) + j)
            if schedule.source[i] >= 0:
                state.uses.setdefault(origin, []).extend((begin, end))
                if origin in state.held:
                    state.held[origin].read = True
                    state.last_read[value(origin)] = end if schedule.reduces[i] else np.inf
            if schedule.target[i] >= 0:
                state.uses.setdefault(goal, []).extend((begin, end))
                if schedule.kind[i] == COMPUTE:
                    content[goal] = Counter(
                        {("f", value(origin) if schedule.source[i] >= 0 else (i, j)): 1}
                    )
                else:
                    content[goal] = content[origin] + (
                        content[goal] if schedule.reduces[i] else Counter()
                    )
                if goal in state.held:
                    old = state.held[goal]
                    old.end = end if old.read or schedule.reduces[i] else old.begin
                state.hold(goal, value(goal), end)
    return state


def expected(
    schedule: Schedule, timeline: Timeline, state: Replay, time: float
) -> tuple[float, float, list[float]]:
    """Bytes resident in all, bytes redundant in all, and bytes resident on each rank."""
    shares = np.broadcast_to(schedule.shares, (schedule.ranks, schedule.slots))
    size = shares * schedule.nbytes_total
    buffers = {(rank, slot) for rank in range(schedule.workers) for slot in range(schedule.buffer)}
    resident = [0.0] * schedule.ranks
    live_cells = {
        cell for cell, uses in state.uses.items() if min(uses) <= time < max(uses)
    } | buffers
    for rank, slot in live_cells:
        resident[rank] += size[rank, slot]
    for i in np.flatnonzero(schedule.remote & (schedule.reduces == 1)):
        if timeline.start[i] <= time < timeline.finish[i]:
            resident[schedule.peer[i]] += schedule.nbytes[i]
    live = {
        version.value: size[version.cell]
        for version in state.versions
        if version.cell in live_cells
        and version.begin <= time < min(version.end, state.last_read.get(version.value, np.inf))
    }
    return sum(resident), sum(resident) - sum(live.values()), resident


def random_machine(random: Random, ranks: int) -> Topology:
    """A tree of devices and switches with irregular parameters."""
    builder = TopologyBuilder("random")
    names = [
        builder.device(
            f"d{k}", reduction=random.choice((0.0, random.random())), copy=random.choice((0.0, 0.3))
        )
        for k in range(ranks + random.randint(0, 2))
    ]
    for k in range(1, len(names)):
        bandwidth, latency = (
            random.choice((1.0, 2.0, float("inf"))),
            random.choice((0.0, 1.0, random.random())),
        )
        builder.connect(names[random.randrange(k)], names[k], Link(bandwidth, latency))
    return builder.build(names[:ranks])


def random_schedule(random: Random, ranks: int, *, scratch: int, servers: int) -> Schedule:
    """Copies, reductions of one or two slots, and computations that read and write."""
    builder = ScheduleBuilder(ranks, 12.0, slots=3, scratch=scratch, servers=servers)
    slots = 3 + scratch
    for number in range(random.randint(1, 12)):
        source, peer = random.randrange(ranks + servers), random.randrange(ranks + servers)
        after = random.sample(range(number), min(number, random.choice((0, 0, 1, 2))))
        slot, target = random.sample(range(slots), 2)
        count = (
            2 if source != peer and max(slot, target) + 2 <= slots and random.random() < 0.5 else 1
        )
        match random.randrange(5):
            case 0 | 1:
                builder.copy(source, peer, slot=slot, target=target, count=count, after=after)
            case 2 | 3:
                builder.reduce(source, peer, slot=slot, target=target, count=count, after=after)
            case _:
                builder.compute(
                    source,
                    random.random(),
                    reads=slot,
                    writes=random.choice((-1, target)),
                    after=after,
                )
    return builder.build()


def check_against_replay(schedule: Schedule, topology: Topology) -> None:
    timeline = simulate(schedule, topology, "reference")
    usage, state = trace(schedule, timeline), replay(schedule, timeline)
    events = np.unique(np.concatenate(([0.0], timeline.start, timeline.finish)))
    events = events[np.concatenate(([True], np.diff(events) > 1e-9))]
    peaks = np.zeros(schedule.ranks)
    for time in np.concatenate(((events[:-1] + events[1:]) / 2, [events[-1] + 1])):
        resident, redundant, ranks = expected(schedule, timeline, state, time)
        assert at(usage, time) == pytest.approx((resident, redundant), abs=1e-9), time
        peaks = np.maximum(peaks, ranks)
    assert usage.peaks == pytest.approx(peaks, abs=1e-9)
    assert usage.peak == pytest.approx(max(peaks))
    assert usage.peak_redundant == usage.redundant.max()


@given(st.integers(0, 2**32), st.integers(2, 4))
def test_among_buffers_memory_is_what_a_replay_of_the_events_says(seed: int, ranks: int) -> None:
    random = Random(seed)
    check_against_replay(
        random_schedule(random, ranks, scratch=0, servers=0), random_machine(random, ranks)
    )


@given(st.integers(0, 2**32), st.integers(2, 4), st.integers(0, 1))
def test_with_scratch_and_servers_memory_is_what_a_replay_of_the_events_says(
    seed: int, ranks: int, servers: int
) -> None:
    random = Random(seed)
    schedule = random_schedule(random, ranks, scratch=2, servers=servers)
    check_against_replay(schedule, random_machine(random, ranks + servers))


@pytest.mark.parametrize("name", a_sixth(NAMES, 0))
def test_every_algorithm_needs_what_a_replay_of_the_events_says(name: str) -> None:
    algorithm = find(name)
    for ranks in (2, 3, 4, 6):
        shape = shapes.star(ranks + algorithm.servers, bandwidth=1.0, latency=0.25, reduction=0.25)
        check_against_replay(algorithm.build(ranks, 12.0), shape)


@given(st.integers(0, 2**32), st.integers(2, 4), st.integers(0, 2), st.integers(0, 1))
def test_nothing_less_than_the_workers_buffers_is_ever_resident(
    seed: int, ranks: int, scratch: int, servers: int
) -> None:
    random = Random(seed)
    schedule = random_schedule(random, ranks, scratch=scratch, servers=servers)
    usage = memory(schedule, random_machine(random, ranks + servers))
    assert (usage.resident >= ranks * 12.0 - 1e-9).all()
    assert usage.resident[-1] == pytest.approx(ranks * 12.0), "in the end all else is given up"
    assert (usage.peaks[:ranks] >= 12.0 - 1e-9).all()
    assert (np.diff(usage.times) > 0).all()
    assert usage.times[0] == 0


@given(st.integers(0, 2**32), st.integers(2, 4), st.integers(0, 2), st.integers(0, 1))
def test_no_more_is_live_than_is_resident(
    seed: int, ranks: int, scratch: int, servers: int
) -> None:
    random = Random(seed)
    schedule = random_schedule(random, ranks, scratch=scratch, servers=servers)
    usage = memory(schedule, random_machine(random, ranks + servers))
    assert (usage.redundant >= -1e-9).all()


@given(st.integers(0, 2**32), st.integers(2, 4), st.integers(-8, 8))
def test_both_traces_scale_with_the_size(seed: int, ranks: int, power: int) -> None:
    random = Random(seed)
    schedule = random_schedule(random, ranks, scratch=1, servers=0)
    timeline = simulate(schedule, shapes.star(ranks, bandwidth=1.0, latency=0.5))
    larger = schedule.scaled(12.0 * 2.0**power)
    same_times = simulate(larger, shapes.star(ranks, bandwidth=2.0**power, latency=0.5))
    assert same_times.finish.tolist() == timeline.finish.tolist()
    small, large = trace(schedule, timeline), trace(larger, same_times)
    assert large.times.tolist() == small.times.tolist()
    assert large.resident.tolist() == (small.resident * 2.0**power).tolist()
    assert large.redundant.tolist() == (small.redundant * 2.0**power).tolist()
    assert large.peaks.tolist() == (small.peaks * 2.0**power).tolist()
