"""Staleness of asynchronous SGD, and what a bound on it holds back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asynchronous_servers import CYCLE, MODEL, applied, ran
from law_cases import tries
from simulator.training.asgd import ASGD, SSP
from simulator.training.conditions import Conditions
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


def test_a_worker_runs_ahead_up_to_the_bound() -> None:
    """Next to one that is slower by 10, a fast worker begins its cycle 1 + s at once, and the next
    one only when the slow one has finished a cycle."""
    for bound in (0, 1, 4):
        plan, timeline, _ = ran(SSP(update=2.0**-10, bound=bound), 2, 8, slower={1: 10.0})
        assert plan.updates is not None
        begin = timeline.start[plan.updates.pulled].reshape(8, 2)[:, 0]
        first = applied(plan, timeline)[0, 1]
        assert first > 10 * CYCLE
        assert begin[bound] < first
        assert begin[bound + 1] == first


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
