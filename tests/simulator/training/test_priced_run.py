"""Collectives that are timed as a whole, beside all of their transfers."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddp_steps import MODEL, quiet, star
from grouped_cases import each_case
from law_cases import tries
from simulator.analysis.bubbles import bubble_spans
from simulator.analysis.critical_path import critical_path, parts, waits
from simulator.training import communicator
from simulator.training.conditions import Conditions
from simulator.training.ddp import DDP
from simulator.training.local_sgd import LocalSGD
from simulator.training.measures import Measures, measure
from simulator.training.plan import COMPUTE, Plan, Setting
from simulator.training.plan_simulation import train
from simulator.training.priced_run import PricedTimeline
from simulator.training.strategy import Strategy
from topologies.catalogue import find
from topologies.topology import Topology

ALGORITHMS = ["ring", "rings", "tree", "naive", "halving_doubling", "parameter_server"]
SINGLE = {"ring", "rings", "naive", "halving_doubling"}
"""Algorithms in which all ranks do the same."""


def planned(
    strategy: Strategy, topology: Topology, *, steps: int = 1, **conditions: object
) -> tuple[Plan, Plan]:
    """The plan with all transfers, and with collectives as a whole."""
    ranks = topology.ranks - strategy.servers(topology.ranks)
    setting = Setting(topology, ranks, steps, Conditions(**conditions))  # type: ignore[arg-type]
    return strategy.plan(MODEL, setting), strategy.plan(MODEL, replace(setting, priced_beyond=0))


def priced(plan: Plan) -> tuple[PricedTimeline, Measures]:
    timeline = train(plan)
    assert isinstance(timeline, PricedTimeline)
    return timeline, measure(plan, timeline)


def nodes() -> Topology:
    """Two nodes of eight GPUs."""
    return find("hgx_h100:nodes=2").build(16)


@each_case("streams", [1, 2])
@each_case("algo", ["ring", "rings", "naive"])
def test_collectives_that_never_meet_take_as_long_as_their_transfers(
    algo: str, streams: int
) -> None:
    strategy = quiet(bucket=0.0, algo=algo, streams=streams, overlap=streams == 1)
    plans = planned(strategy, star(8, bandwidth=1e6), steps=3)
    expected = train(plans[0])
    before, (timeline, after) = measure(plans[0], expected), priced(plans[1])
    near = 1e-9 * expected.makespan
    if streams == 1:
        assert after.steps == pytest.approx(before.steps, rel=0, abs=near)
        for name in ("computing", "exposed", "hidden", "bubbles"):
            values = getattr(before, name)
            assert getattr(after, name) == pytest.approx(values, rel=0, abs=near), name
        whole = critical_path(expected, before.window.last)
        path = timeline.path(after.window.last)
        assert parts(path) == pytest.approx(parts(whole), rel=0, abs=near)
    else:
        # Two at a time share ports, and do not end later than one after the other.
        assert after.step == pytest.approx(before.step, rel=2e-2)


def drawn(seed: int) -> tuple[Strategy, Topology, dict[str, object]]:
    """A strategy on a machine, under conditions."""
    random = np.random.default_rng(seed)
    machine = [star(8, bandwidth=2e4), find("nodes:per_node=4").build(8), nodes()][seed % 3]
    algo = ALGORITHMS[random.integers(5)]
    bucket = float(random.choice([0.0, 2.0 * 4096]))
    strategy: Strategy = DDP(
        algo=algo,
        bucket=bucket,
        overlap=bool(random.integers(2)),
        metric=bool(random.integers(2)),
        launch=float(random.choice([0.0, 0.01])),
    )
    if seed % 4 == 0:
        strategy = LocalSGD(every=int(random.integers(1, 4)), algo=algo)
    how = random.integers(3)
    if how == 0:
        return strategy, machine, {}
    if how == 1:
        return strategy, machine, {"sigma": 0.1, "seed": seed}
    return strategy, machine, {"slower": {int(random.integers(8)): 1.5}}


def test_steps_are_near_those_of_all_transfers() -> None:
    """The last rank that enters decides, as with all transfers."""
    errors = []
    for seed in range(60):
        strategy, machine, conditions = drawn(seed)
        full, unwritten = planned(strategy, machine, steps=3, **conditions)
        expected = measure(full, train(full)).step
        errors.append(abs(priced(unwritten)[1].step / expected - 1))
    assert np.mean(errors) < 0.002
    assert max(errors) < 0.02


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
        slowdown=st.sampled_from([0.0, 0.5]),
    ),
    ranks=st.integers(1, 6),
    bandwidth=st.sampled_from([1000.0, 9000.0, 1e6]),
    steps=st.integers(1, 3),
    sigma=st.sampled_from([0.0, 0.1]),
)
@tries(15, 60)
def test_causes_add_up(
    strategy: DDP, ranks: int, bandwidth: float, steps: int, sigma: float
) -> None:
    """A rank computes or is idle for a cause, the path is as long as the run, and no task begins
    before what it waits for has ended."""
    topology = star(ranks, bandwidth=bandwidth, latency=1e-3, servers=strategy.servers(ranks))
    setting = Setting(topology, ranks, steps, Conditions(sigma=sigma), priced_beyond=0)
    plan = strategy.plan(MODEL, setting)
    timeline = train(plan)
    result = measure(plan, timeline)
    if not isinstance(timeline, PricedTimeline):
        assert ranks == 1
        return
    busy = result.computing + result.bubbles.sum(axis=1)
    assert busy == pytest.approx(result.window.end, rel=1e-9)
    path = timeline.path(result.window.last)
    assert path.seconds.sum() == pytest.approx(result.window.end, rel=1e-9)
    assert np.all(path.seconds >= 0)
    schedule = timeline.schedule
    earlier = timeline.finish[schedule.indices]
    assert np.all(earlier <= timeline.start[plan.graph.waiting] * (1 + 1e-9))


@each_case("algo", sorted(SINGLE))
def test_a_worker_stands_for_all_that_do_the_same(algo: str) -> None:
    strategy = DDP(algo=algo, bucket=0.0, metric=True)
    setting = Setting(nodes(), 16, 2, priced_beyond=0)
    plans = [strategy.plan(MODEL, replace(setting, symmetric=each)) for each in (False, True)]
    (many, before), (single, after) = map(priced, plans)
    assert [len(plan.standing) for plan in plans] == [16, 1]
    assert plans[1].place_of.tolist() == [0] * 16
    assert single.makespan == pytest.approx(many.makespan, rel=1e-12)
    assert after.steps == pytest.approx(before.steps, rel=1e-12)
    assert np.unique(before.bubbles.round(12), axis=0) == pytest.approx(after.bubbles, abs=1e-11)


@each_case(
    ("strategy", "conditions"),
    [
        (DDP(algo="ring"), Conditions(slower={1: 2.0})),
        (DDP(algo="ring"), Conditions(sigma=0.1)),
        (DDP(algo="ring", prepare=0.1), Conditions()),
    ],
)
def test_where_ranks_differ_each_stands_for_itself(strategy: DDP, conditions: Conditions) -> None:
    setting = Setting(star(4), 4, 1, conditions, priced_beyond=0, symmetric=True)
    assert len(strategy.plan(MODEL, setting).standing) == 4


def test_collectives_are_of_ranks_that_stand_for_all_even_if_workers_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(communicator, "SIMULATED_OPERATIONS", 0)
    slow = Conditions(slower={1: 2.0})
    setting = Setting(star(8), 8, 1, slow, priced_beyond=0)
    plans = [quiet().plan(MODEL, replace(setting, symmetric=each)) for each in (False, True)]
    folds = [plan.collectives[0][1].fold is not None for plan in plans]
    assert folds == [False, True]
    before, after = (measure(plan, train(plan)) for plan in plans)
    assert after.steps == pytest.approx(before.steps, rel=1e-12)


def test_collectives_of_two_streams_share_links() -> None:
    """Two at once take as long as one after the other on links that each of them fills."""
    times = []
    for streams in (1, 2):
        strategy = quiet(bucket=0.0, algo="ring", streams=streams, overlap=False, launch=0.0)
        timeline, _ = priced(planned(strategy, star(8, bandwidth=1024.0))[1])
        times.append(timeline.makespan)
    assert times[1] == pytest.approx(times[0], rel=1e-9)


def test_what_collectives_lose_to_those_of_other_streams_is_contention() -> None:
    """Two at a time take twice as long on links that each of them fills."""
    strategy = quiet(bucket=0.0, algo="ring", streams=2, overlap=False, launch=0.0)
    timeline, result = priced(planned(strategy, star(8, bandwidth=1024.0))[1])
    path = timeline.path(result.window.last)
    assert path.seconds.sum() == pytest.approx(result.window.end, rel=1e-9)
    by_part = parts(path)
    assert by_part["contention"] == pytest.approx(by_part["serialisation"], rel=0.1)
    assert result.bubble_shares["contention"] == pytest.approx(
        result.bubble_shares["transfer"], rel=0.1
    )
    assert waits(timeline, path) == []


def test_spans_of_idle_time_have_the_causes_of_the_bubbles() -> None:
    """Also where a collective waits for other ranks, and for those of another stream."""
    strategy = quiet(bucket=0.0, algo="naive", streams=2, launch=0.01)
    timeline, result = priced(planned(strategy, nodes(), steps=3, slower={3: 1.5})[1])
    spans = bubble_spans(timeline, COMPUTE)
    seconds = np.zeros_like(result.bubbles)
    np.add.at(seconds, (spans.rank, spans.cause), spans.end - spans.start)
    assert seconds == pytest.approx(result.bubbles, abs=1e-9 * timeline.makespan)
    assert (result.bubbles.sum(axis=0)[:3] > 0).all()
    same = spans.rank[1:] == spans.rank[:-1]
    assert (spans.start[1:] >= spans.end[:-1])[same].all()


def test_a_collective_by_itself_loses_nothing() -> None:
    """However the times of a run are rounded."""
    plan = planned(quiet(algo="ring"), star(8, bandwidth=9973.0), steps=3, slower={3: 1.5})[1]
    timeline, result = priced(plan)
    assert parts(timeline.path(result.window.last))["contention"] == 0


def test_contention_within_a_collective_is_told() -> None:
    """Ranks that all send to the same one wait for each other."""
    plan = planned(quiet(algo="parameter_server", overlap=False), star(9, servers=1))[1]
    timeline, result = priced(plan)
    assert result.bubble_shares["contention"] > 0
    path = timeline.path(result.window.last)
    assert parts(path)["contention"] > 0
    assert waits(timeline, path.take(path.contended))


@each_case("slowdown", [0.0, 0.5])
def test_computations_with_all_transfers_are_as_long_as_without(slowdown: float) -> None:
    strategy = quiet(bucket=0.0, algo="ring", slowdown=slowdown)
    full, unwritten = planned(strategy, star(4, bandwidth=9000.0), steps=2)
    before, after = measure(full, train(full)), priced(unwritten)[1]
    assert before.computing == pytest.approx(after.computing, rel=1e-9)
    assert before.step == pytest.approx(after.step, rel=1e-9)


def test_waits_of_ranks_that_stand_for_all_are_on_links_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(communicator, "SIMULATED_OPERATIONS", 0)
    queues = []
    for symmetric in (False, True):
        setting = Setting(find("nodes:per_node=4").build(8), 8, 1, priced_beyond=0)
        plan = quiet(algo="naive").plan(MODEL, replace(setting, symmetric=symmetric))
        timeline, result = priced(plan)
        queues.append(waits(timeline, timeline.path(result.window.last)))
    assert queues[0]
    for whole, folded in zip(*queues, strict=True):
        assert folded[0].rpartition("->")[2] == whole[0].rpartition("->")[2]
        assert folded.seconds == pytest.approx(whole.seconds, rel=1e-9)
