"""Memory over time: by hand, laws, and a reference that replays events in dictionaries."""

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from law_cases import a_sixth, counts
from memory_steps import at, steps
from memory_steps import memory as memory_of
from simulator.analysis import memory
from simulator.analysis.memory import Changes, trace
from simulator.collectives import algorithms, find
from simulator.engines import simulate
from simulator.kernels.cells import mix
from simulator.schedules.schedule import COMPUTE, Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.timeline import Sharing, Timeline
from simulator.training.asgd import ASGD
from simulator.training.conditions import Conditions, Failure
from simulator.training.data_parallel import DataParallel
from simulator.training.ddp import DDP
from simulator.training.footprint import footprint
from simulator.training.local_sgd import LocalSGD
from simulator.training.plan import Setting
from simulator.training.plan_simulation import train
from simulator.training.ssgd import SSGD
from simulator.training.strategy import SERVERS, Strategy
from small_machines import DYADIC_MACHINE, IRREGULAR_MACHINE, Parameters, random_machine
from synchronous_servers import MODEL
from topologies import shapes
from topologies.errors import InputError
from topologies.topology import Floats, Topology

Cell = tuple[int, int]
Term = tuple[Any, Any]
Value = frozenset[tuple[Term, int]]
"""What was added up: which inputs and results of computations, how often; the same from the
same."""
seeds = st.integers(0, 2**32)


@dataclass
class Version:
    cell: Cell
    value: Value
    begin: float
    end: float = np.inf
    read: bool = False


@dataclass
class Replay:
    """Versions of cells in memory, the last read of every value, and when every cell was in
    use."""

    memory: int
    """Ranks before the switches."""
    versions: list[Version] = field(default_factory=list)
    current: dict[Cell, Version] = field(default_factory=dict)
    last_read: dict[Value, float] = field(default_factory=dict)
    uses: dict[Cell, list[float]] = field(default_factory=dict)

    def hold(self, cell: Cell, value: Value, begin: float) -> None:
        if cell[0] < self.memory:
            self.current[cell] = Version(cell, value, begin)
            self.versions.append(self.current[cell])


def replay(schedule: Schedule, timeline: Timeline) -> Replay:
    state = Replay(schedule.ranks - schedule.switches)
    content: dict[Cell, Counter[Term]] = {
        (rank, slot): Counter({(rank, slot): 1} if rank < state.memory else {})
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
                if origin in state.current:
                    state.current[origin].read = True
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
                if goal in state.current:
                    old = state.current[goal]
                    old.end = end if old.read or schedule.reduces[i] else old.begin
                state.hold(goal, value(goal), end)
    return state


def expected(
    schedule: Schedule, timeline: Timeline, state: Replay, time: float
) -> tuple[float, Floats]:
    """Bytes of distinct live values, and bytes resident on each rank."""
    shares = np.broadcast_to(schedule.shares, (schedule.ranks, schedule.slots))
    size = shares * schedule.nbytes_total
    buffers = {(rank, slot) for rank in range(schedule.workers) for slot in range(schedule.buffer)}
    resident = np.zeros(schedule.ranks)
    live_cells = {
        cell
        for cell, uses in state.uses.items()
        if cell[0] < state.memory and min(uses) <= time < max(uses)
    } | buffers
    for rank, slot in live_cells:
        resident[rank] += size[rank, slot]
    for i in np.flatnonzero(schedule.remote & (schedule.reduces == 1)):
        if timeline.start[i] <= time < timeline.finish[i] and schedule.peer[i] < state.memory:
            resident[schedule.peer[i]] += schedule.nbytes[i]
    live = {
        version.value: size[version.cell]
        for version in state.versions
        if version.cell in live_cells
        and version.begin <= time < min(version.end, state.last_read.get(version.value, np.inf))
    }
    return sum(live.values()), resident


def added(changes: Changes, time: float, ranks: int) -> Floats:
    """What has appeared at each rank until a time."""
    past = changes.times <= time
    return np.bincount(changes.rank[past], changes.nbytes[past], ranks).astype(np.float64)


def check(timeline: Timeline, holdings: Changes | None = None, live: Changes | None = None) -> None:
    """Memory is what the replay says between all events, also of each rank, and at its peaks."""
    schedule, none = timeline.schedule, Changes(np.zeros(0), np.zeros(0), np.zeros(0, np.int32))
    usage, state = trace(schedule, timeline, holdings, live), replay(schedule, timeline)
    holdings, live, ranks = holdings or none, live or none, schedule.ranks
    moments = [np.zeros(1), timeline.start, timeline.finish, holdings.times, live.times]
    events = np.unique(np.concatenate(moments))
    events = events[np.isfinite(events)]
    events = events[np.diff(events, prepend=-1) > 1e-9 * max(1.0, timeline.makespan)]
    peaks = np.zeros(ranks)
    for time in np.concatenate(((events[:-1] + events[1:]) / 2, [events[-1] + 1])):
        distinct, resident = expected(schedule, timeline, state, time)
        resident += added(holdings, time, ranks)
        redundant = resident.sum() - distinct - added(live, time, ranks).sum()
        rounding = 1e-9 * max(1.0, resident.sum())
        assert at(usage, time) == pytest.approx((resident.sum(), redundant), abs=rounding), time
        for rank in range(ranks):
            times, nbytes = usage.of(rank)
            step = int(np.searchsorted(times, time, side="right"))
            received = nbytes[step - 1] if step else 0.0
            assert received == pytest.approx(resident[rank], abs=rounding)
        peaks = np.maximum(peaks, resident)
    assert usage.peaks == pytest.approx(peaks, rel=1e-9, abs=1e-9)
    assert usage.peak == pytest.approx(max(peaks))
    assert usage.peak_redundant == usage.redundant.max()
    assert (np.diff(usage.times) > 0).all()


def reducing(topology: Topology) -> Topology:
    """The same machine, of which every device can reduce."""
    return replace(topology, in_network=np.ones_like(topology.in_network))


def drawn_schedule(
    random: Random, ranks: int, servers: int, switches: int, signals: bool = True
) -> Schedule:
    """Operations of one slot or two, on buffers, scratch and unordered scratch."""
    scratch, everyone = random.randint(0, 2), ranks + servers + switches
    builder = ScheduleBuilder(
        ranks,
        16.0,
        slots=random.choice((2, 4)),
        scratch=scratch,
        unordered=random.randint(0, scratch),
        servers=servers,
        switches=switches,
    )
    for number in range(random.randint(1, 24)):
        after = random.sample(range(number), min(number, random.choice((0, 0, 1, 2))))
        source, peer = random.randrange(everyone), random.randrange(everyone)
        slot, target = random.sample(range(len(builder.slots)), 2)
        fits = source != peer and max(slot, target) + 2 <= len(builder.slots)
        count = random.randint(1, 2) if fits else 1
        match random.randrange(7):
            case 0 | 1 | 2:
                builder.copy(source, peer, slot=slot, target=target, count=count, after=after)
            case 3 | 4:
                builder.reduce(source, peer, slot=slot, target=target, count=count, after=after)
            case 5:
                builder.signal(source, peer, nbytes=signals * random.randint(0, 2), after=after)
            case _:
                seconds = random.choice((0.0, 1.0, random.random()))
                reads, writes = random.choice((-1, slot)), random.choice((-1, target))
                builder.compute(source, seconds, reads=reads, writes=writes, after=after)
    return builder.build()


@given(
    st.integers(0, 2**32),
    st.integers(2, 4),
    st.integers(0, 1),
    st.integers(0, 1),
    st.sampled_from([DYADIC_MACHINE, IRREGULAR_MACHINE]),
    st.sampled_from(("fifo", "fair")),
)
def test_drawn_schedules(
    seed: int, ranks: int, servers: int, switches: int, parameters: Parameters, sharing: Sharing
) -> None:
    random = Random(seed)
    schedule = drawn_schedule(random, ranks, servers, switches)
    machine = reducing(random_machine(random, schedule.ranks, parameters))
    check(simulate(schedule, machine, "reference", sharing=sharing))


@given(st.integers(0, 2**32), st.integers(2, 4), st.integers(0, 6))
def test_changes_of_other_memory(seed: int, ranks: int, number: int) -> None:
    random, rng = Random(seed), np.random.default_rng(seed)
    schedule = drawn_schedule(random, ranks, 0, 0)
    timeline = simulate(schedule, random_machine(random, ranks, DYADIC_MACHINE), "reference")

    def drawn() -> Changes:
        ends = np.append(timeline.finish, [0.0, 0.1 * timeline.makespan, np.inf])
        rank = rng.integers(ranks, size=number).astype(np.int32)
        return Changes(
            rng.choice(ends, number), rng.integers(-4, 9, number).astype(np.float64), rank
        )

    check(timeline, drawn(), drawn())
    check(timeline, None, drawn())


@pytest.mark.parametrize("sharing", ["fifo", pytest.param("fair", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", a_sixth(algorithms(), 4))
def test_every_algorithm(name: str, sharing: Sharing) -> None:
    for ranks in counts(name, (2, 3, 5, 8)):
        schedule = algorithms()[name].build(ranks, ranks * 64.0)
        for latency, reduction in ((0.0, 0.0), (0.25, 0.125)):
            machine = shapes.star(
                schedule.ranks, bandwidth=16.0, latency=latency, reduction=reduction
            )
            check(simulate(schedule, reducing(machine), "reference", sharing=sharing))


@pytest.mark.parametrize("name", a_sixth(algorithms(), 5))
def test_compiled_kernels_follow_every_algorithm_alike(name: str) -> None:
    ranks = counts(name)[-1]
    schedule = algorithms()[name].build(ranks, ranks * 64.0)
    machine = reducing(shapes.ring(schedule.ranks, bandwidth=16.0, latency=0.3))
    timeline = simulate(schedule, machine)
    with patch.object(memory, "pays", return_value=False):
        plain = trace(schedule, timeline)
    with patch.object(memory, "pays", return_value=True):
        compiled = trace(schedule, timeline)
    for name in ("times", "resident", "redundant", "peaks"):
        assert getattr(compiled, name).tolist() == getattr(plain, name).tolist()


@pytest.mark.parametrize("failing", [False, True], ids=["calm", "failing"])
@pytest.mark.parametrize(
    "strategy",
    [
        DDP(bucket=8.0),
        DDP(bucket=0.0, algo="halving_doubling", streams=2),
        LocalSGD(every=2),
        DataParallel(),
        *(ASGD(server=server) for server in SERVERS),
        *(SSGD(server) for server in SERVERS),
    ],
    ids=repr,
)
def test_training(strategy: Strategy, failing: bool) -> None:
    ranks, failure = 4, Failure(1, 1, restart=1.0) if failing else None
    topology = shapes.star(ranks + strategy.servers(ranks), bandwidth=2.0, latency=0.25)
    setting = Setting(topology, ranks, 3, Conditions(failure=failure))
    try:
        plan = strategy.plan(MODEL, setting)
    except InputError:
        pytest.skip("this strategy cannot go on after a failure")
    with patch.object(memory, "trace", wraps=memory.trace) as follow:
        footprint(plan, train(plan))
    _, timeline, holdings, live = follow.call_args.args
    check(timeline, holdings, live)


@given(seeds, st.integers(2, 4), st.integers(0, 1))
def test_nothing_less_than_the_workers_buffers_is_ever_resident(
    seed: int, ranks: int, servers: int
) -> None:
    random = Random(seed)
    schedule = drawn_schedule(random, ranks, servers, 0)
    machine = random_machine(random, schedule.ranks, IRREGULAR_MACHINE)
    usage = trace(schedule, simulate(schedule, machine))
    assert (usage.resident >= ranks * 16.0 - 1e-9).all()
    assert usage.resident[-1] == pytest.approx(ranks * 16.0), "in the end all else is given up"
    assert (usage.peaks[:ranks] >= 16.0 - 1e-9).all()
    assert (usage.redundant >= -1e-9).all(), "no more is live than is resident"
    assert usage.times[0] == 0


@given(seeds, st.integers(2, 4), st.integers(-8, 8))
def test_both_traces_scale_with_the_size(seed: int, ranks: int, power: int) -> None:
    schedule = drawn_schedule(Random(seed), ranks, 0, 0, signals=False)
    timeline = simulate(schedule, shapes.star(ranks, bandwidth=1.0, latency=0.5))
    larger = schedule.scaled(16.0 * 2.0**power)
    same_times = simulate(larger, shapes.star(ranks, bandwidth=2.0**power, latency=0.5))
    assert same_times.finish.tolist() == timeline.finish.tolist()
    small, large = trace(schedule, timeline), trace(larger, same_times)
    assert large.times.tolist() == small.times.tolist()
    for name in ("resident", "redundant", "peaks"):
        assert getattr(large, name).tolist() == (getattr(small, name) * 2.0**power).tolist()


# By hand.


def test_a_ring_all_reduce_over_time() -> None:
    # p = 4, V = 4 bytes at 1 B/s: a step a second, of four chunks of 1 byte. In every
    # reduce-scatter step there are 4 bytes in inboxes; after it, 4 more values have been merged
    # elsewhere. In the all-gather nothing changes: copies replace what is dead already.
    usage = memory_of(find("ring").build(4, 4.0), shapes.ring(4, bandwidth=1.0))
    assert steps(usage) == [(0, 20, 0 + 4), (1, 20, 4 + 4), (2, 20, 8 + 4), (3, 16, 12)]
    assert usage.peaks.tolist() == [5] * 4, "V + V/p"
    assert usage.peak == 5
    assert usage.peak_redundant == 12


def test_scratch_is_held_from_its_first_use_to_its_last() -> None:
    # 0 computes 1 s, sends for 4 s into scratch of 1, which reads it after another 3 s, for 2 s.
    schedule = ScheduleBuilder(2, 4.0, scratch=2)
    pause = schedule.compute(0, 1.0)
    sent = schedule.copy(0, 1, slot=0, target=2, after=pause)
    schedule.compute(1, 2.0, reads=2, after=schedule.compute(1, 3.0, after=sent))
    usage = memory_of(schedule.build(), shapes.line(2, bandwidth=1.0))
    assert steps(usage) == [(0, 8, 0), (1, 12, 4), (10, 8, 0)]
    assert usage.peaks.tolist() == [4, 8]


def test_memory_of_a_run_of_no_time_is_one_step() -> None:
    usage = memory_of(find("ring").build(4, 4.0), shapes.ring(4, bandwidth=float("inf")))
    assert steps(usage) == [(0, 16, 12)]


def test_values_of_computations_differ_from_all_that_they_read() -> None:
    numbers = [0, 1, 2, 2**61, 2**62 - 1]
    assert len({*numbers, *map(mix, numbers)}) == 2 * len(numbers)
    assert all(0 <= mix(number) < 2**62 for number in numbers)
