"""Staleness of asynchronous SGD, what a bound on it holds back, and updates per second against
closed forms of queueing, without the drain at the end."""

from dataclasses import replace
from math import comb, exp, factorial, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asynchronous_servers import CONDITIONS, CYCLE, FREE, MODEL, STRATEGIES, applied, planned, ran
from law_cases import tries
from simulator.analysis.bubbles import DRAIN
from simulator.analysis.critical_path import critical_path
from simulator.engines import simulate
from simulator.schedules.schedule import COMPUTE, TRANSFER
from simulator.training.asgd import ASGD, SSP
from simulator.training.conditions import Conditions
from simulator.training.measures import measure
from simulator.training.plan import Plan
from simulator.training.strategy import SERVERS


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_staleness_of_constant_times_is_one_update_of_every_other_worker(ranks: int) -> None:
    """After a first cycle, of which updates 0 to p - 1 are as stale as their number."""
    _, _, measures = ran(ASGD(update=0.125), ranks, 20)
    assert measures.staleness[:ranks].tolist() == list(range(ranks))
    assert measures.staleness[ranks:].tolist() == [ranks - 1] * 19 * ranks


@given(st.integers(0, 99), st.integers(1, 5))
@tries(6, 20)
def test_staleness_adds_up_to_the_updates_of_others(seed: int, ranks: int) -> None:
    """Nothing is applied between an update and the pull that follows it, where transfers take no
    time: what a worker has missed in all is what others have applied up to its last update."""
    plan, timeline, measures = ran(ASGD(update=0.125), ranks, 6, sigma=0.8, seed=seed)
    assert plan.updates is not None
    times = applied(plan, timeline)
    for rank in range(ranks):
        peer_updates = np.sum(np.delete(times, rank, axis=1) < times[-1, rank])
        assert measures.staleness[plan.updates.worker == rank].sum() == peer_updates


def test_a_straggler_holds_up_nobody_and_has_fewer_updates() -> None:
    """Four workers, one of them slower by a factor of 2 or 4: while the others apply 40 each, it
    applies 20 or 10."""
    for slower in (1.0, 2.0, 4.0):
        plan, timeline, measures = ran(ASGD(update=2.0**-10), 4, 40, slower={0: slower})
        times = applied(plan, timeline)
        assert times[-1, 1:].max() == pytest.approx(40 * CYCLE, rel=0.01)
        assert np.sum(times[:, 0] <= times[-1, 1]) == pytest.approx(40 / slower, abs=1)
        assert measures.samples_per_s == pytest.approx(
            MODEL.batch * (3 + 1 / slower) / CYCLE, rel=0.02
        )


# The bound.


@given(st.integers(1, 5), st.integers(0, 3), st.integers(0, 99), st.sampled_from(SERVERS))
@tries(7, 30)
def test_a_bound_holds_back_who_is_ahead_of_it(
    ranks: int, bound: int, seed: int, server: str
) -> None:
    strategy = SSP(server=server, update=0.25, bound=bound)
    plan, timeline, measures = ran(strategy, ranks, 8, 2.0, sigma=1.5, seed=seed)
    assert plan.updates is not None
    begin = timeline.start[plan.updates.pulled].reshape(8, ranks)
    times = applied(plan, timeline)
    for cycle in range(bound + 1, 8):
        assert begin[cycle].min() >= times[cycle - bound - 1].max()
    assert measures.staleness.max(initial=0) <= (ranks - 1) * (2 * bound + 1)


def test_the_clock_does_not_queue_for_the_server() -> None:
    """Updates of 1 s; worker 0 has two by 8 and waits for the first of worker 2, which is served
    from 12 to 13. The second of worker 1 has come in at 12.4, and is served from 13 to 14: worker 0
    goes on at 13."""
    plan, timeline, _ = ran(SSP(update=1.0, bound=1), 3, 3, slower={1: 1.9, 2: 4.0})
    assert plan.updates is not None
    assert applied(plan, timeline)[:2] == pytest.approx(np.array([[4, 6.7, 13], [8, 14, 26]]))
    assert timeline.start[plan.updates.pulled].reshape(3, 3)[2, 0] == 13


@given(st.integers(1, 4), st.integers(0, 99), st.sampled_from(SERVERS))
@tries(6, 15)
def test_a_bound_that_nobody_reaches_changes_nothing(ranks: int, seed: int, server: str) -> None:
    free, bound = (
        ran(strategy, ranks, 5, 2.0, sigma=0.5, seed=seed)
        for strategy in (ASGD(server=server, update=0.5), SSP(server=server, update=0.5, bound=5))
    )
    assert np.array_equal(applied(*free[:2]), applied(*bound[:2]))
    assert np.array_equal(free[2].staleness, bound[2].staleness)


@given(st.integers(1, 5), st.integers(0, 99))
@tries(6, 20)
def test_without_a_lead_all_cycles_begin_together(ranks: int, seed: int) -> None:
    """Bulk-synchronous: gradients are served in order of arrival, and the last one lets all go
    on."""
    how = {"sigma": 0.5, "seed": seed}
    plan, timeline, measures = ran(SSP(update=0.25, bound=0), ranks, 6, **how)
    begin = 0.0
    for cycle, factors in enumerate(Conditions(**how).factors(6, ranks)):  # type: ignore[arg-type]
        free = begin
        for arrival in np.sort(begin + CYCLE * factors):
            free = max(free, arrival) + 0.25
        begin = free
        assert applied(plan, timeline)[cycle].max() == pytest.approx(begin, rel=1e-12)
        assert sorted(measures.staleness[cycle * ranks : (cycle + 1) * ranks]) == list(range(ranks))


@pytest.mark.parametrize(
    ("update", "bandwidth"),
    [
        (0.125, FREE),
        (0.5, FREE),
        (1.0, FREE),
        (3.0, FREE),
        (0.125, 4.0),
        (0.125, 1.0),
        (0.125, 0.5),
        (1.0, 2.0),
    ],
)
@pytest.mark.parametrize("ranks", [1, 4])
def test_constant_times(ranks: int, update: float, bandwidth: float) -> None:
    """A closed loop of p workers through the server's out port, its lane and its in port, each
    first come, first served: p / (sum of all times), or what the slowest of them can serve. With
    times that do not vary it is a timed event graph, whose rate is exactly the least of these after
    a transient (Baccelli et al., Synchronization and Linearity, 1992, theorem 3.23); of 100 updates
    a worker the transient is 3 at most."""
    transfer = 1 / bandwidth
    rate = min(ranks / (CYCLE + update + 2 * transfer), 1 / max(update, transfer))
    plan, timeline, measures = ran(ASGD(update=update), ranks, 100, bandwidth)
    times = applied(plan, timeline)
    assert times[90] - times[40] == pytest.approx(np.full(ranks, 50 * ranks / rate), rel=1e-12)
    assert measures.samples_per_s == pytest.approx(MODEL.batch * rate, rel=0.03)


def with_exponential_updates(plan: Plan, mean: float) -> Plan:
    """The same, but updates take exponential times."""
    schedule = plan.schedule
    updates = schedule.phase == schedule.phases.index("update")
    drawn = np.random.default_rng(7).exponential(mean, len(schedule))
    return replace(
        plan,
        schedule=replace(
            schedule,
            seconds=np.where(updates & (schedule.kind != TRANSFER), drawn, schedule.seconds),
        ),
    )


def served(workers: int, think: float, update: float, *, constant: bool) -> float:
    """Updates per second of `workers` with exponential computing times of mean `think`.

    Exponential updates: the machine repairman, M/M/1//N (Kleinrock, Queueing Systems I, 3.6), of
    which the server is idle with the probability 1 / sum of N!/(N-n)! (S/C)^n. Constant ones:
    M/G/1//N (Takacs, Introduction to the Theory of Queues, 1962, ch. 5), of which a busy period
    serves E = sum of (N-1 over n) prod (1/b(k/C) - 1), k = 1..n, customers on average, b being the
    Laplace transform of the service, and an idle period lasts C / N.
    """
    if constant:
        odds = [prod(exp(k * update / think) - 1 for k in range(1, n + 1)) for n in range(workers)]
        busy = sum(comb(workers - 1, n) * odds[n] for n in range(workers))
        return busy / (busy * update + think / workers)
    idle = 1 / sum(
        factorial(workers) / factorial(workers - n) * (update / think) ** n
        for n in range(workers + 1)
    )
    return (1 - idle) / update


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("update", [0.3, pytest.param(1.0, marks=pytest.mark.exhaustive)])
def test_exponential_times(update: float, constant: bool) -> None:
    """6 x 1500 updates: a mean of 9000 exponential times is within 1% (1 σ); the formulas differ by
    4% at most."""
    ranks = 6
    times = tuple(np.random.default_rng(3).exponential(1.0, 20000).tolist())
    plan = planned(ASGD(update=update), ranks, 1500, observed=times)
    if not constant:
        plan = with_exponential_updates(plan, update)
    measures = measure(plan, simulate(plan.schedule, plan.topology))
    expected = MODEL.batch * served(ranks, CYCLE, update, constant=constant)
    assert measures.samples_per_s == pytest.approx(expected, rel=0.02)


@given(
    STRATEGIES,
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from([0.25, 1.0, 7.0, FREE]),
    CONDITIONS,
)
def test_what_is_counted_ends_with_the_first_worker_that_is_done(
    strategy: ASGD, ranks: int, steps: int, bandwidth: float, how: dict[str, object]
) -> None:
    """Steps, samples and bubbles leave out the same drain. Computing, restarting and bubbles fill
    the rest."""
    if steps == 1:
        how = {key: value for key, value in how.items() if key in ("sigma", "seed")}
    plan, timeline, measures = ran(strategy, ranks, steps, bandwidth, **how)
    end = measures.window.end
    assert end == timeline.finish[measures.window.last] <= timeline.makespan
    assert measures.step * measures.samples_per_s == pytest.approx(ranks * MODEL.batch)
    assert measures.steps.sum() <= end * (1 + 1e-9)
    busy = measures.computing + measures.restarting + measures.bubbles.sum(axis=1)
    works = np.isin(
        np.arange(ranks),
        plan.schedule.rank[(plan.schedule.kind == COMPUTE) & (plan.schedule.lane == 0)],
    )
    assert busy == pytest.approx(np.where(works, end, 0.0))
    assert np.all(measures.bubbles >= 0)
    if "batches" not in how:
        assert measures.bubbles[:, DRAIN] == pytest.approx(np.zeros(ranks), abs=1e-9 * end)
    assert np.all(measures.exposed + measures.hidden <= end * (1 + 1e-9))
    path = critical_path(timeline, measures.window.last)
    assert sum(segment.seconds for segment in path) == pytest.approx(end)


def test_a_worker_that_has_computed_nothing_yet_is_idle_until_the_end() -> None:
    """Two pulls of 8 s each: worker 0 is done at 8 + 3 + 8 + 1, before the second pull of a third
    worker is there."""
    slow = 0.125
    _, _, measures = ran(ASGD(update=1.0), 4, 1, slow)
    assert measures.window.end == 20
    assert measures.computing.tolist() == [3, 3, 0, 0]
    assert measures.bubbles.sum(axis=1) == pytest.approx([17, 17, 20, 20])


def test_workers_that_run_out_of_input_do_not_end_what_is_counted() -> None:
    plan, timeline, measures = ran(ASGD(update=0.125), 3, 40, batches={0: 2})
    assert plan.updates is not None
    last = timeline.finish[plan.updates.served[plan.updates.worker == 1]].max()
    assert measures.samples_per_s == pytest.approx(MODEL.batch * (2 + 40 + 40) / last, rel=0.03)
