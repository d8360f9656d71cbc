"""Collectives that are timed once: the same times as with all of their transfers, to the bit."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddp_steps import MODEL, quiet, star
from law_cases import tries
from simulator.analysis.critical_path import critical_path, parts, waits
from simulator.collectives import find as find_algorithm
from simulator.kernels.repeats import Parts
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.timeline import Timeline
from simulator.steps.kinds import ALL_REDUCE, BACKWARD, Label
from simulator.training.communicator import Communicator
from simulator.training.conditions import Conditions
from simulator.training.ddp import DDP
from simulator.training.explanation import explanation_of
from simulator.training.local_sgd import LocalSGD
from simulator.training.measures import measure
from simulator.training.plan import Plan, Setting
from simulator.training.plan_simulation import TrainingRules, train
from simulator.training.replay import Replay, Replayed
from simulator.training.strategy import Strategy
from simulator.training.trainer import Trainer
from topologies.catalogue import find
from topologies.jit import compiled
from topologies.topology import Topology

ALGORITHMS = ["ring", "rings", "tree", "naive", "halving_doubling", "parameter_server"]


def outlined(
    strategy: Strategy, ranks: int, topology: Topology, *, steps: int = 1, **conditions: object
) -> tuple[Plan, Plan]:
    """The plan with all transfers, and its outline."""
    setting = Setting(topology, ranks, steps, Conditions(**conditions))  # type: ignore[arg-type]
    outline = replace(setting, outline_beyond=0)
    return strategy.plan(MODEL, setting), strategy.plan(MODEL, outline)


def compared(
    strategy: Strategy, ranks: int, topology: Topology, *, steps: int = 1, **conditions: object
) -> Replay:
    """Time a run in both ways, and compare."""
    return agreed(*outlined(strategy, ranks, topology, steps=steps, **conditions))


def agreed(full: Plan, outline: Plan) -> Replay:
    """Time both plans, and compare."""
    expected, timeline = train(full), train(outline)
    assert isinstance(timeline, Replayed)
    assert timeline.replay is not None
    for operations in ("first", "last"):
        of_full, of_outline = (getattr(plan, operations) for plan in (full, outline))
        for name in ("ready", "start", "finish"):
            times = getattr(timeline, name)[of_outline]
            assert np.array_equal(times, getattr(expected, name)[of_full]), name
    assert np.array_equal(timeline.finish[outline.ends], expected.finish[full.ends])
    assert measured(outline, timeline) == measured(full, expected)
    explained(full, expected, outline, timeline)
    return timeline.replay


def explained(full: Plan, expected: Timeline, outline: Plan, timeline: Replayed) -> None:
    """Compare bubbles by cause, and the critical path."""
    near = 1e-12 * expected.makespan
    before, after = measure(full, expected), measure(outline, timeline)
    assert after.bubbles == pytest.approx(before.bubbles, rel=0, abs=near)
    path = explanation_of(timeline).path(after.window.last)
    whole = critical_path(expected, before.window.last)
    assert parts(path) == pytest.approx(parts(whole), rel=0, abs=near)
    phases = [
        [run.schedule.phases[phase] for phase in run.schedule.phase[row.operation]]
        for run, row in (
            (run, row.take((row.part == 0) & (row.seconds > 0)))
            for run, row in ((timeline, path), (expected, whole))
        )
    ]
    assert phases[0] == phases[1]
    behind = [
        waits(run, row.take(row.contended)) for run, row in ((timeline, path), (expected, whole))
    ]
    assert [wait[:3] for wait in behind[0]] == [wait[:3] for wait in behind[1]]


def measured(plan: Plan, timeline: object) -> list[list[float]]:
    """What needs no transfers."""
    result = measure(plan, timeline)  # type: ignore[arg-type]
    return [result.steps.tolist(), result.computing.tolist(), result.exposed.tolist()]


def nodes() -> Topology:
    """Two nodes of eight GPUs."""
    return find("hgx_h100:nodes=2").build(16)


@pytest.mark.parametrize("algo", ["halving_doubling", "naive", "rings", "tree"])
@pytest.mark.parametrize("streams", [1, 2])
def test_each_is_entered_with_the_skew_that_the_one_before_left(algo: str, streams: int) -> None:
    strategy = quiet(bucket=0.0, overlap=False, algo=algo, streams=streams)
    compared(strategy, 16, nodes(), steps=2)


@given(
    strategy=st.builds(
        DDP,
        algo=st.sampled_from(ALGORITHMS),
        bucket=st.sampled_from([0.0, 2.0 * 4096]),
        streams=st.integers(1, 3),
        overlap=st.booleans(),
        broadcast_buffers=st.booleans(),
        metric=st.booleans(),
        find_unused=st.booleans(),
        startup=st.booleans(),
        launch=st.sampled_from([0.0, 0.01]),
        prepare=st.sampled_from([0.0, 0.3]),
        accumulate=st.integers(1, 2),
    ),
    ranks=st.integers(2, 6),
    bandwidth=st.sampled_from([1000.0, 9000.0, 1e6]),
    latency=st.sampled_from([0.0, 1e-3]),
    steps=st.integers(1, 3),
    sigma=st.sampled_from([0.0, 0.1]),
    merging=st.sampled_from([0.0, 3e-5]),
)
@tries(15, 60)
def test_every_run_is_replayed_exactly(
    strategy: DDP,
    ranks: int,
    bandwidth: float,
    latency: float,
    steps: int,
    sigma: float,
    merging: float,
) -> None:
    topology = star(ranks, bandwidth=bandwidth, latency=latency)
    rates = np.where(topology.reduction >= 0, merging, 0.0)
    topology = replace(topology, reduction=rates, copy=rates / 2)
    compared(strategy, ranks, topology, steps=steps, sigma=sigma)


def test_steps_that_are_alike_are_simulated_once() -> None:
    replay = compared(quiet(bucket=0.0, algo="ring"), 8, star(8, bandwidth=10240.0), steps=8)
    assert (replay.replayed, replay.rounds) == (31, 0)


def test_the_room_of_parts_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.training.replay.REMEMBERED_NODES", 1)
    compared(quiet(bucket=0.0, overlap=False, algo="rings"), 16, nodes())


def test_a_run_that_is_not_explained_at_once_can_be_explained_later() -> None:
    strategy = quiet(bucket=0.0, overlap=False, algo="rings")
    full, outline = outlined(strategy, 16, nodes())
    timeline = train(outline, TrainingRules(explained=False))
    assert isinstance(timeline, Replayed)
    assert np.array_equal(timeline.finish, train(outline).finish)
    explained(full, train(full), outline, timeline)


def test_steps_that_repeat_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.schedules.alike_steps.FEWEST_STEPS", 4)
    monkeypatch.setattr("simulator.kernels.repeats.STATE_SPACING", 0)
    monkeypatch.setattr("simulator.engines.compiled.kernel", lambda loop, _: compiled(loop))
    machine = find("hgx_h100:nodes=8").build(64)
    setting = Setting(machine, 64, 1, Conditions(), outline_beyond=0, symmetric=True)
    strategy = DDP(algo="rings", bucket=0.0, overlap=False, broadcast_buffers=False)
    skipping = train(strategy.plan(MODEL, setting))
    monkeypatch.setattr("simulator.training.segments.alike_steps", lambda *_: Parts.none())
    plan = strategy.plan(MODEL, setting)
    assert plan.shifts is not None
    plain = train(plan)
    assert isinstance(skipping, Replayed)
    assert isinstance(plain, Replayed)
    assert np.array_equal(skipping.finish, plain.finish)
    last = measure(plan, plain).window.last
    one, other = (explanation_of(timeline).path(last) for timeline in (skipping, plain))
    assert parts(one) == parts(other)


def test_windows_that_overlap_are_simulated_together() -> None:
    replay = compared(quiet(bucket=0.0, streams=2), 8, star(8, bandwidth=10240.0))
    assert replay.rounds > 0
    assert sum(len(timed.segment.collectives) == 1 for timed in replay.timed) < 4


def in_groups(*groups: list[int]) -> Schedule:
    """A ring all-reduce in each group of eight ranks."""
    builder = ScheduleBuilder(8, 65536.0, slots=len(groups[0]))
    for group in groups:
        builder.inline(find_algorithm("ring").build(len(group), 65536.0), ranks=group)
    return builder.build()


@pytest.mark.parametrize("gap", [0.0, 1e-3])
def test_groups_that_share_a_nic_are_timed_together(gap: float) -> None:
    """Tensor-parallel groups of neighbours, and data-parallel groups across two nodes."""
    topology = find("nodes:per_node=4").with_links(bandwidth=1e6, latency=1e-4, gap=gap).build(8)
    tensor = in_groups([0, 1, 4, 5], [2, 3, 6, 7])
    data = in_groups(*([rank, rank + 4] for rank in range(4)))
    plans = []
    for most in (inf, 0):
        setting = Setting(topology, 8, outline_beyond=most)
        trainer = Trainer(MODEL, setting, ("compute", "tensor", "data"), Communicator(setting))
        for _ in MODEL.layers:
            done = trainer.compute(Label(BACKWARD), np.linspace(0.01, 0.08, 8))
            trainer.collective(Label(ALL_REDUCE, "tensor"), tensor, done, memory="held")
            trainer.collective(Label(ALL_REDUCE, "data"), data, done, lane=2, memory="held")
        trainer.end(trainer.optimize(*trainer.streams()))
        plans.append(trainer.plan())
    assert agreed(*plans).rounds > 0


def test_where_several_operations_finish_last_the_path_begins_with_the_same() -> None:
    line = find("line").with_links(bandwidth=1024.0, latency=0.01).build(4)
    compared(LocalSGD(every=1, algo="one_shot"), 4, line)


def test_the_path_leads_through_collectives_that_take_no_time() -> None:
    compared(DDP(), 1, star(1))
