"""Memory that is followed once, against the union of the intervals in which copies live."""

from dataclasses import replace
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from law_cases import a_sixth, counts
from memory_by_intervals import trace_intervals
from random_machines import DYADIC_MACHINE, IRREGULAR_MACHINE, Parameters, random_machine
from simulator.analysis import memory
from simulator.analysis.memory import Changes, trace
from simulator.collectives import algorithms
from simulator.engines import simulate
from simulator.schedules.schedule import Schedule
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
from synchronous_servers import MODEL
from topologies import shapes
from topologies.errors import InputError
from topologies.topology import Topology

SHARINGS: tuple[Sharing, ...] = ("fifo", "fair")


def check(timeline: Timeline, holdings: Changes | None = None, live: Changes | None = None) -> None:
    usage = trace(timeline.schedule, timeline, holdings, live)
    expected = trace_intervals(timeline.schedule, timeline, holdings, live)
    rounding = 1e-12 * expected.resident.max()
    assert usage.times.tolist() == expected.times.tolist()
    assert usage.resident == pytest.approx(expected.resident, rel=1e-12, abs=rounding)
    assert usage.redundant == pytest.approx(expected.redundant, rel=1e-12, abs=rounding)
    assert usage.peaks == pytest.approx(expected.peaks, rel=1e-12, abs=rounding)
    assert usage.holdings.times.tolist() == expected.holdings.times.tolist()
    assert usage.holdings.rank.tolist() == expected.holdings.rank.tolist()
    assert usage.holdings.nbytes == pytest.approx(expected.holdings.nbytes, rel=1e-12, abs=rounding)


def reducing(topology: Topology) -> Topology:
    """The same machine, of which every device can reduce."""
    return replace(topology, in_network=np.ones_like(topology.in_network))


def drawn_schedule(random: Random, ranks: int, servers: int, switches: int) -> Schedule:
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
                builder.signal(source, peer, nbytes=random.randint(0, 2), after=after)
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
    st.sampled_from(SHARINGS),
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
