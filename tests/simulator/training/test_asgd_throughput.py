"""Updates per second of asynchronous SGD against closed forms of queueing, without the drain at the
end."""

from dataclasses import replace
from math import comb, exp, factorial, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asynchronous_servers import CONDITIONS, CYCLE, FREE, MODEL, STRATEGIES, applied, planned, ran
from simulator.analysis.bubbles import DRAIN
from simulator.analysis.critical_path import critical_path
from simulator.engines import simulate
from simulator.schedules.schedule import COMPUTE, TRANSFER
from simulator.training.asgd import ASGD
from simulator.training.measures import measure
from simulator.training.plan import Plan


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


def test_the_formulas_agree_where_they_must() -> None:
    """Of one worker the distributions do not matter."""
    for update in (0.1, 1.0, 10.0):
        assert served(1, 3.0, update, constant=True) == pytest.approx(1 / (3 + update))
        assert served(1, 3.0, update, constant=False) == pytest.approx(1 / (3 + update))


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
    busy = measures.computing + measures.restarting + measures.bubbles.total
    works = np.isin(
        np.arange(ranks),
        plan.schedule.rank[(plan.schedule.kind == COMPUTE) & (plan.schedule.lane == 0)],
    )
    assert busy == pytest.approx(np.where(works, end, 0.0))
    assert np.all(measures.bubbles.seconds >= 0)
    if "batches" not in how:
        assert measures.bubbles.seconds[:, DRAIN] == pytest.approx(np.zeros(ranks), abs=1e-9 * end)
    assert np.all(measures.exposed + measures.hidden <= end * (1 + 1e-9))
    path = critical_path(timeline, measures.window.last)
    assert sum(segment.seconds for segment in path) == pytest.approx(end)


def test_the_drain_of_a_slow_worker_is_left_out() -> None:
    """The slow worker goes on alone for three quarters of the run, while the others have nothing
    left to do."""
    _, timeline, measures = ran(ASGD(update=2.0**-10), 4, 40, slower={0: 4.0})
    assert timeline.makespan > 3.9 * measures.window.end
    assert measures.bubbles.total[1:].max() < 0.01 * measures.window.end
    assert measures.step == pytest.approx(CYCLE * 4 / 3.25, rel=0.05)


def test_a_worker_that_has_computed_nothing_yet_is_idle_until_the_end() -> None:
    """Two pulls of 8 s each: worker 0 is done at 8 + 3 + 8 + 1, before the second pull of a third
    worker is there."""
    slow = 0.125
    _, _, measures = ran(ASGD(update=1.0), 4, 1, slow)
    assert measures.window.end == 20
    assert measures.computing.tolist() == [3, 3, 0, 0]
    assert measures.bubbles.total == pytest.approx([17, 17, 20, 20])


def test_workers_that_run_out_of_input_do_not_end_what_is_counted() -> None:
    plan, timeline, measures = ran(ASGD(update=0.125), 3, 40, batches={0: 2})
    assert plan.updates is not None
    last = timeline.finish[plan.updates.served[plan.updates.worker == 1]].max()
    assert measures.samples_per_s == pytest.approx(MODEL.batch * (2 + 40 + 40) / last, rel=0.03)
