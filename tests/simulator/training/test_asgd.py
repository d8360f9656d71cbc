"""Asynchronous SGD: what the servers hold, closed forms of throughput, staleness."""

from dataclasses import replace
from math import comb, exp, factorial, prod

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import semantics
from simulator.bubbles import DRAIN
from simulator.critical_path import critical_path
from simulator.engines import simulate
from simulator.schedule import COMPUTE, TRANSFER
from simulator.timeline import Timeline
from simulator.training import find
from simulator.training.asgd import ASGD, SERVERS, SSP
from simulator.training.conditions import Conditions, Failure
from simulator.training.measures import Measures, measure
from simulator.training.model import Layer, Model, Tensor
from simulator.training.plan import Plan, Setting
from topologies.catalogue import Figures
from topologies.catalogue import find as machine
from topologies.errors import InputError

FREE = 1e30
"""A bandwidth at which a byte takes no time that a double can see beside a second."""
MODEL = Model("model", 8, (Layer("fc", 1.0, 2.0, tensors=(Tensor("w", 1.0),)),), memory_bandwidth=10.0)
CYCLE = 3.0
"""Forward and backward of MODEL."""


def planned(
    strategy: ASGD,
    ranks: int,
    steps: int,
    bandwidth: float = FREE,
    latency: float = 0.0,
    *,
    model: Model = MODEL,
    **how: object,
) -> Plan:
    topology = machine("star").build(max(ranks, 2), strategy.servers(ranks), Figures(bandwidth, latency))
    if ranks == 1:
        topology = replace(topology, placement=topology.placement[[0, -1]])
    return strategy.plan(model, Setting(topology, ranks, steps, Conditions(**how)))  # type: ignore[arg-type]


def ran(strategy: ASGD, ranks: int, steps: int, *network: float, **how: object) -> tuple[Plan, Timeline, Measures]:
    plan = planned(strategy, ranks, steps, *network, **how)  # type: ignore[arg-type]
    timeline = simulate(plan.schedule, plan.topology)
    return plan, timeline, measure(plan, timeline)


def applied(plan: Plan, timeline: Timeline) -> npt.NDArray[np.float64]:
    """When each update of each worker is applied, shape (steps, ranks)."""
    return np.asarray(timeline.finish[plan.ends])


def test_two_workers_by_hand() -> None:
    """One byte at 1 B/s: a pull and a push take 1 s each, an update 1 s. The second pull waits for the first, and from
    then on worker 1 is a second behind.

    worker 0: pull 0-1, forward and backward 1-4, push 4-5, update 5-6, pull 6-7, ... update 11-12
    worker 1: pull 1-2, forward and backward 2-5, push 5-6, update 6-7, pull 7-8, ... update 12-13
    """
    plan, timeline, found = ran(ASGD(update=1.0), 2, 2, 1.0)
    assert applied(plan, timeline).tolist() == [[6, 7], [12, 13]]
    assert plan.numbers.tolist() == [0, 1]
    assert timeline.makespan == 13
    assert plan.updates is not None
    assert plan.updates.worker.tolist() == [0, 1, 0, 1]
    assert timeline.start[plan.updates.pulled].tolist() == [0, 1, 6, 7]
    assert found.staleness.tolist() == [0, 1, 1, 1]
    # Worker 0 is the first to be done, after 12 s and 3 updates: two updates take 8 s on average, the first two 7 s.
    assert found.window.end == 12
    assert found.samples_per_s == pytest.approx(3 * 8 / 12)
    assert found.step == pytest.approx(8)
    assert found.steps.tolist() == [7]
    assert found.computing.tolist() == [6, 6]
    assert found.bubbles.total == pytest.approx([6, 6])
    # Worker 0 asks at 0 and has the parameters at 1; pushes from 4 on and has them again at 7; pushes 10-11.
    assert found.exposed.tolist() == [1 + 3 + 1, 2 + 3 + 1]
    assert found.hidden.tolist() == [0, 0]


def test_latency_of_a_request_is_paid_once() -> None:
    """Later ones travel with a push: a cycle is pull, computing, push and update, and 2α for each transfer."""
    _, timeline, _ = ran(ASGD(update=1.0), 1, 4, 1.0, 0.125)
    assert timeline.makespan == 0.25 + 4 * (1.25 + CYCLE + 1.25 + 1)


# What the servers hold, and what workers read, in the order of the timeline.


def by_effect(plan: Plan, timeline: Timeline) -> npt.NDArray[np.int32]:
    """Operations in the order in which they take effect, ties by number: a pull reads when it starts, all others are
    there when they are finished."""
    when = np.where(is_pull(plan), timeline.start, timeline.finish)
    return np.argsort(when, kind="stable").astype(np.int32)


def is_pull(plan: Plan) -> npt.NDArray[np.bool_]:
    schedule = plan.schedule
    weights = schedule.slots - 1
    return np.asarray((schedule.kind == TRANSFER) & (schedule.source == weights))


def is_application(plan: Plan) -> npt.NDArray[np.bool_]:
    schedule = plan.schedule
    return np.asarray((schedule.kind == TRANSFER) & (schedule.target == schedule.slots - 1))


STRATEGIES = st.one_of(
    st.builds(ASGD, server=st.sampled_from(SERVERS), update=st.sampled_from([0.0, 0.5, 2.0])),
    st.builds(SSP, server=st.sampled_from(SERVERS), update=st.sampled_from([0.0, 0.5, 2.0]), bound=st.integers(0, 2)),
)
CONDITIONS = st.fixed_dictionaries(
    {"sigma": st.sampled_from([0.0, 0.5]), "seed": st.integers(0, 99)},
    optional={"batches": st.just({0: 1}), "failure": st.just(Failure(0, 1, 1.375, 0.0625))},
)


@given(STRATEGIES, st.integers(1, 4), st.integers(2, 4), st.sampled_from([1.0, 7.0, FREE]), CONDITIONS)
def test_every_gradient_is_applied_once_and_pulls_read_what_was_applied_before(
    strategy: ASGD, ranks: int, steps: int, bandwidth: float, how: dict[str, object]
) -> None:
    plan, timeline, found = ran(strategy, ranks, steps, bandwidth, **how)
    schedule, order, updates = plan.schedule, by_effect(plan, timeline), plan.updates
    assert updates is not None
    data = semantics.inputs(schedule)
    shares, weights = schedule.buffer, schedule.slots - 1
    pulls, applications = is_pull(plan), is_application(plan)
    expected = data[:, weights].copy()
    gradients = data[:ranks, :shares].copy()
    counts, seen, stale = np.zeros(schedule.ranks, dtype=int), {}, {}
    for operation in order:
        server, worker = schedule.rank[operation], schedule.peer[operation]
        if applications[operation]:
            stale[int(operation)] = counts[server]
            counts[server] += 1
            sender, share = schedule.source[operation] - 2 * shares, server if shares > 1 else 0
            with np.errstate(over="ignore"):
                expected[server] += gradients[sender, share]
        data = semantics.run(schedule, data, np.array([operation], dtype=np.int32))
        if pulls[operation]:
            seen[int(operation)] = counts[server]
            assert data[worker, schedule.target[operation]] == expected[server]
    assert np.array_equal(data[:, weights], expected)
    rows = zip(updates.pulled.tolist(), updates.served.tolist(), strict=True)
    assert found.staleness.tolist() == [stale[served] - seen[pulled] for pulled, served in rows]
    batches = np.array([1 if "batches" in how else steps] + [steps] * (ranks - 1))
    assert np.bincount(updates.worker, minlength=ranks).tolist() == batches.tolist()
    final = semantics.inputs(schedule)[:, weights]
    for server in np.flatnonzero(counts):
        share = server if shares > 1 else 0
        with np.errstate(over="ignore"):
            final[server] += np.sum(gradients[:, share] * batches.astype(np.uint64))
    assert np.array_equal(data[:, weights], final)


@pytest.mark.parametrize(("server", "pairs"), [("gpu", 4), ("cpu", 4), ("worker", 3), ("sharded", 3)])
def test_volume(server: str, pairs: int) -> None:
    """Parameters and a gradient of half their size, a worker and update; nothing travels on a worker's own device."""
    model = replace(MODEL, gradient_dtype="fp16")
    assert planned(ASGD(server=server), 4, 5, model=model).schedule.volume == pytest.approx(5 * pairs * 1.5)


@pytest.mark.parametrize("server", SERVERS)
def test_all_shares_are_waited_for(server: str) -> None:
    plan, timeline, _ = ran(ASGD(server=server, update=0.25), 4, 5, 2.0, sigma=1.0)
    schedule, phases = plan.schedule, plan.schedule.phases
    of = {phase: schedule.phase == phases.index(phase) for phase in phases}
    shape = 5, schedule.buffer, 4
    pulled, pushed = timeline.finish[is_pull(plan)].reshape(shape), timeline.start[of["push"]].reshape(shape)
    assert np.all(timeline.start[of["forward"]].reshape(5, 4) == pulled.max(axis=1))
    assert np.all(timeline.finish[of["backward"]].reshape(5, 4) <= pushed.min(axis=1))
    assert np.all(applied(plan, timeline) == timeline.finish[is_application(plan)].reshape(shape).max(axis=1))


# Throughput.


@pytest.mark.parametrize(
    ("update", "bandwidth"),
    [(0.125, FREE), (0.5, FREE), (1.0, FREE), (3.0, FREE), (0.125, 4.0), (0.125, 1.0), (0.125, 0.5), (1.0, 2.0)],
)
@pytest.mark.parametrize("ranks", [1, 4])
def test_constant_times(ranks: int, update: float, bandwidth: float) -> None:
    """A closed loop of p workers through the server's out port, its lane and its in port, each first come, first
    served: p / (sum of all times), or what the slowest of them can serve. With times that do not vary it is a timed
    event graph, whose rate is exactly the least of these after a transient (Baccelli et al., Synchronization and
    Linearity, 1992, theorem 3.23); of 100 updates a worker the transient is 3 at most."""
    transfer = 1 / bandwidth
    rate = min(ranks / (CYCLE + update + 2 * transfer), 1 / max(update, transfer))
    plan, timeline, found = ran(ASGD(update=update), ranks, 100, bandwidth)
    times = applied(plan, timeline)
    assert times[90] - times[40] == pytest.approx(np.full(ranks, 50 * ranks / rate), rel=1e-12)
    assert found.samples_per_s == pytest.approx(MODEL.batch * rate, rel=0.03)


def with_exponential_updates(plan: Plan, mean: float) -> Plan:
    """The same, but updates take exponential times."""
    schedule = plan.schedule
    updates = schedule.phase == schedule.phases.index("update")
    drawn = np.random.default_rng(7).exponential(mean, len(schedule))
    return replace(
        plan,
        schedule=replace(schedule, seconds=np.where(updates & (schedule.kind != TRANSFER), drawn, schedule.seconds)),
    )


def served(workers: int, think: float, update: float, *, constant: bool) -> float:
    """Updates per second of `workers` with exponential computing times of mean `think`.

    Exponential updates: the machine repairman, M/M/1//N (Kleinrock, Queueing Systems I, 3.6), of which the server is
    idle with the probability 1 / sum of N!/(N-n)! (S/C)^n. Constant ones: M/G/1//N (Takacs, Introduction to the Theory
    of Queues, 1962, ch. 5), of which a busy period serves E = sum of (N-1 over n) prod (1/b(k/C) - 1), k = 1..n,
    customers on average, b being the Laplace transform of the service, and an idle period lasts C / N.
    """
    if constant:
        odds = [prod(exp(k * update / think) - 1 for k in range(1, n + 1)) for n in range(workers)]
        busy = sum(comb(workers - 1, n) * odds[n] for n in range(workers))
        return busy / (busy * update + think / workers)
    idle = 1 / sum(factorial(workers) / factorial(workers - n) * (update / think) ** n for n in range(workers + 1))
    return (1 - idle) / update


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("update", [0.3, 1.0])
def test_exponential_times(update: float, constant: bool) -> None:
    """6 x 1500 updates: a mean of 9000 exponential times is within 1% (1 σ); the formulas differ by 4% at most."""
    ranks = 6
    times = tuple(np.random.default_rng(3).exponential(1.0, 20000).tolist())
    plan = planned(ASGD(update=update), ranks, 1500, observed=times)
    if not constant:
        plan = with_exponential_updates(plan, update)
    found = measure(plan, simulate(plan.schedule, plan.topology))
    expected = MODEL.batch * served(ranks, CYCLE, update, constant=constant)
    assert found.samples_per_s == pytest.approx(expected, rel=0.02)


def test_the_formulas_agree_where_they_must() -> None:
    """Of one worker the distributions do not matter."""
    for update in (0.1, 1.0, 10.0):
        assert served(1, 3.0, update, constant=True) == pytest.approx(1 / (3 + update))
        assert served(1, 3.0, update, constant=False) == pytest.approx(1 / (3 + update))


@given(STRATEGIES, st.integers(1, 4), st.integers(1, 4), st.sampled_from([0.25, 1.0, 7.0, FREE]), CONDITIONS)
def test_what_is_counted_ends_with_the_first_worker_that_is_done(
    strategy: ASGD, ranks: int, steps: int, bandwidth: float, how: dict[str, object]
) -> None:
    """Steps, samples and bubbles leave out the same drain. Computing, restarting and bubbles fill the rest."""
    if steps == 1:
        how = {key: value for key, value in how.items() if key in ("sigma", "seed")}
    plan, timeline, found = ran(strategy, ranks, steps, bandwidth, **how)
    end = found.window.end
    assert end == timeline.finish[found.window.last] <= timeline.makespan
    assert found.step * found.samples_per_s == pytest.approx(ranks * MODEL.batch)
    assert found.steps.sum() <= end * (1 + 1e-9)
    busy = found.computing + found.restarting + found.bubbles.total
    works = np.isin(np.arange(ranks), plan.schedule.rank[(plan.schedule.kind == COMPUTE) & (plan.schedule.lane == 0)])
    assert busy == pytest.approx(np.where(works, end, 0.0))
    assert np.all(found.bubbles.seconds >= 0)
    if "batches" not in how:
        assert found.bubbles.seconds[:, DRAIN] == pytest.approx(np.zeros(ranks), abs=1e-9 * end)
    assert np.all(found.exposed + found.hidden <= end * (1 + 1e-9))
    path = critical_path(timeline, found.window.last)
    assert sum(segment.seconds for segment in path) == pytest.approx(end)


def test_the_drain_of_a_slow_worker_is_left_out() -> None:
    """The slow worker goes on alone for three quarters of the run, while the others have nothing left to do."""
    _, timeline, found = ran(ASGD(update=2.0**-10), 4, 40, slower={0: 4.0})
    assert timeline.makespan > 3.9 * found.window.end
    assert found.bubbles.total[1:].max() < 0.01 * found.window.end
    assert found.step == pytest.approx(CYCLE * 4 / 3.25, rel=0.05)


def test_a_worker_that_has_computed_nothing_yet_is_idle_until_the_end() -> None:
    """Two pulls of 8 s each: worker 0 is done at 8 + 3 + 8 + 1, before the second pull of a third worker is there."""
    slow = 0.125
    _, _, found = ran(ASGD(update=1.0), 4, 1, slow)
    assert found.window.end == 20
    assert found.computing.tolist() == [3, 3, 0, 0]
    assert found.bubbles.total == pytest.approx([17, 17, 20, 20])


# Staleness.


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_staleness_of_constant_times_is_one_update_of_every_other_worker(ranks: int) -> None:
    """After a first cycle, of which updates 0 to p - 1 are as stale as their number."""
    _, _, found = ran(ASGD(update=0.125), ranks, 20)
    assert found.staleness[:ranks].tolist() == list(range(ranks))
    assert found.staleness[ranks:].tolist() == [ranks - 1] * 19 * ranks


@given(st.integers(0, 99), st.integers(1, 5))
@settings(max_examples=20)
def test_staleness_adds_up_to_the_updates_of_others(seed: int, ranks: int) -> None:
    """Nothing is applied between an update and the pull that follows it, where transfers take no time: what a worker
    has missed in all is what others have applied up to its last update."""
    plan, timeline, found = ran(ASGD(update=0.125), ranks, 6, sigma=0.8, seed=seed)
    assert plan.updates is not None
    times = applied(plan, timeline)
    for rank in range(ranks):
        others = np.sum(np.delete(times, rank, axis=1) < times[-1, rank])
        assert found.staleness[plan.updates.worker == rank].sum() == others


def test_a_straggler_holds_up_nobody_and_has_fewer_updates() -> None:
    """Four workers, one of them slower by a factor of 2 or 4: while the others apply 40 each, it applies 20 or 10."""
    for slower in (1.0, 2.0, 4.0):
        plan, timeline, found = ran(ASGD(update=2.0**-10), 4, 40, slower={0: slower})
        times = applied(plan, timeline)
        assert times[-1, 1:].max() == pytest.approx(40 * CYCLE, rel=0.01)
        assert np.sum(times[:, 0] <= times[-1, 1]) == pytest.approx(40 / slower, abs=1)
        assert found.samples_per_s == pytest.approx(MODEL.batch * (3 + 1 / slower) / CYCLE, rel=0.02)


# The bound.


@given(st.integers(1, 5), st.integers(0, 3), st.integers(0, 99), st.sampled_from(SERVERS))
@settings(max_examples=30)
def test_a_bound_holds_back_who_is_ahead_of_it(ranks: int, bound: int, seed: int, server: str) -> None:
    strategy = SSP(server=server, update=0.25, bound=bound)
    plan, timeline, found = ran(strategy, ranks, 8, 2.0, sigma=1.5, seed=seed)
    assert plan.updates is not None
    begin = timeline.start[plan.updates.pulled].reshape(8, ranks)
    times = applied(plan, timeline)
    for cycle in range(bound + 1, 8):
        assert begin[cycle].min() >= times[cycle - bound - 1].max()
    assert found.staleness.max(initial=0) <= (ranks - 1) * (2 * bound + 1)


def test_a_worker_runs_ahead_up_to_the_bound() -> None:
    """Next to one that is slower by 10, a fast worker begins its cycle 1 + s at once, and the next one only when the
    slow one has finished a cycle."""
    for bound in (0, 1, 4):
        plan, timeline, _ = ran(SSP(update=2.0**-10, bound=bound), 2, 8, slower={1: 10.0})
        assert plan.updates is not None
        begin = timeline.start[plan.updates.pulled].reshape(8, 2)[:, 0]
        first = applied(plan, timeline)[0, 1]
        assert first > 10 * CYCLE
        assert begin[bound] < first
        assert begin[bound + 1] == first


def test_the_clock_does_not_queue_for_the_server() -> None:
    """Updates of 1 s; worker 0 has two by 8 and waits for the first of worker 2, which is served from 12 to 13. The
    second of worker 1 has come in at 12.4, and is served from 13 to 14: worker 0 goes on at 13."""
    plan, timeline, _ = ran(SSP(update=1.0, bound=1), 3, 3, slower={1: 1.9, 2: 4.0})
    assert plan.updates is not None
    assert applied(plan, timeline)[:2] == pytest.approx(np.array([[4, 6.7, 13], [8, 14, 26]]))
    assert timeline.start[plan.updates.pulled].reshape(3, 3)[2, 0] == 13


@given(st.integers(1, 4), st.integers(0, 99), st.sampled_from(SERVERS))
@settings(max_examples=15)
def test_a_bound_that_nobody_reaches_changes_nothing(ranks: int, seed: int, server: str) -> None:
    free, bound = (
        ran(strategy, ranks, 5, 2.0, sigma=0.5, seed=seed)
        for strategy in (ASGD(server=server, update=0.5), SSP(server=server, update=0.5, bound=5))
    )
    assert np.array_equal(applied(*free[:2]), applied(*bound[:2]))
    assert np.array_equal(free[2].staleness, bound[2].staleness)


@given(st.integers(1, 5), st.integers(0, 99))
@settings(max_examples=20)
def test_without_a_lead_all_cycles_begin_together(ranks: int, seed: int) -> None:
    """Bulk-synchronous: gradients are served in order of arrival, and the last one lets all go on."""
    how = {"sigma": 0.5, "seed": seed}
    plan, timeline, found = ran(SSP(update=0.25, bound=0), ranks, 6, **how)
    begin = 0.0
    for cycle, factors in enumerate(Conditions(**how).factors(6, ranks)):  # type: ignore[arg-type]
        free = begin
        for arrival in np.sort(begin + CYCLE * factors):
            free = max(free, arrival) + 0.25
        begin = free
        assert applied(plan, timeline)[cycle].max() == pytest.approx(begin, rel=1e-12)
        assert sorted(found.staleness[cycle * ranks : (cycle + 1) * ranks]) == list(range(ranks))


# What goes wrong, and where the server is.


@pytest.mark.parametrize("strategy", [ASGD(update=2.0**-20), SSP(update=2.0**-20, bound=9)])
def test_a_worker_that_fails_loses_its_cycle_and_holds_up_nobody(strategy: ASGD) -> None:
    slower = {0: 1.25, 1: 1.5}
    _, _, usual = undisturbed = ran(strategy, 3, 4, slower=slower)
    _, _, found = failed = ran(strategy, 3, 4, slower=slower, failure=Failure(1, 2, restart=5.0, timeout=0.5))
    before, after = applied(*undisturbed[:2]), applied(*failed[:2])
    assert np.array_equal(after[:, [0, 2]], before[:, [0, 2]])
    assert np.array_equal(after[:2, 1], before[:2, 1])
    assert after[2:, 1] == pytest.approx(before[2:, 1] + 1.5 * 1.0 + 5.5)
    # Worker 2 is the first to be done, after 12 s: worker 1 restarts from 10.5 s on, when it would compute.
    assert found.window.end == usual.window.end == pytest.approx(12, rel=1e-5)
    assert found.restarting == pytest.approx([0, 1.5, 0], rel=1e-5)
    assert found.computing + found.restarting == pytest.approx(usual.computing, rel=1e-5)


def test_a_bound_makes_all_wait_for_a_worker_that_fails() -> None:
    plan, timeline, _ = ran(SSP(update=2.0**-20, bound=1), 3, 6, failure=Failure(1, 2, restart=50.0))
    times = applied(plan, timeline)
    assert times[3, 0] < 50 < times[2, 1] < times[4, 0]


def test_a_worker_without_input_stops_and_holds_up_nobody() -> None:
    for strategy in (ASGD(update=0.125), SSP(update=0.125, bound=0), ASGD(server="sharded", update=0.125)):
        plan, timeline, found = ran(strategy, 3, 4, batches={0: 0, 1: 2})
        assert plan.updates is not None
        assert np.bincount(plan.updates.worker, minlength=3).tolist() == [0, 2, 4]
        assert plan.samples.tolist() == [16, 16, 8, 8]
        times = applied(plan, timeline)
        assert times[1, 1] == times[3, 1] < times[3, 2] == timeline.makespan
        assert found.computing.tolist() == [0, 2 * CYCLE, 4 * CYCLE]


def test_an_update_moves_the_gradient_the_parameters_and_the_state() -> None:
    """Of one byte each: 1 + 2 x 2 bytes through the server's memory."""
    assert ASGD().seconds(MODEL) == 5 / 10
    assert ASGD(server="cpu").seconds(MODEL) == 5 / 204.8e9
    assert ASGD(server="cpu", server_memory=50.0).seconds(MODEL) == 5 / 50
    assert ASGD(server="cpu", update=0.25).seconds(MODEL) == 0.25
    assert planned(ASGD(), 2, 1).words == ("an update takes 500ms at 10B/s",)


def test_shares_are_updated_side_by_side() -> None:
    """Where an update takes 4 s: 4 servers take 1 s each, for each of 4 workers."""
    for server, update in (("worker", 4.0), ("sharded", 1.0)):
        plan, timeline, _ = ran(ASGD(server=server, update=4.0), 4, 1)
        assert timeline.makespan == CYCLE + 4 * update
        assert plan.schedule.ranks == 4


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_shares_travel_side_by_side(ranks: int) -> None:
    """All ports send and receive all the time: a pull or a push takes (p-1)/p V/β. Then the last share is updated."""
    _, timeline, _ = ran(ASGD(server="sharded", update=0.5), ranks, 1, 1.0)
    assert timeline.makespan == pytest.approx(2 * (ranks - 1) / ranks + CYCLE + 0.5 / ranks)


def test_where_the_server_is() -> None:
    assert [find("asgd")(server=server).servers(8) for server in SERVERS] == [1, 1, 0, 0]  # type: ignore[call-arg]
    assert [SSP(server=server).server_kind for server in SERVERS] == ["gpu", "cpu", None, None]
    assert find("ssp") is SSP


@pytest.mark.parametrize(
    ("strategy", "options", "message"),
    [
        (ASGD, {"server": "tpu"}, "server is 'tpu': it is one of gpu, cpu, worker, sharded"),
        (ASGD, {"update": -1.0}, "update is -1.0: it is 0 or more"),
        (ASGD, {"update": float("nan")}, "update is nan: it is 0 or more"),
        (SSP, {"server_memory": float("inf")}, "server_memory is inf: it is 0 or more"),
        (SSP, {"bound": -1}, "bound is -1: it is 0 or more"),
    ],
)
def test_mistakes(strategy: type[ASGD], options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        strategy(**options)  # type: ignore[arg-type]


def test_workers_that_run_out_of_input_do_not_end_what_is_counted() -> None:
    plan, timeline, found = ran(ASGD(update=0.125), 3, 40, batches={0: 2})
    assert plan.updates is not None
    last = timeline.finish[plan.updates.served[plan.updates.worker == 1]].max()
    assert found.samples_per_s == pytest.approx(MODEL.batch * (2 + 40 + 40) / last, rel=0.03)
