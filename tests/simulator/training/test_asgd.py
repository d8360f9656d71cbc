"""Asynchronous SGD by hand: what the servers hold, workers that fail or stop, and where the server
is."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asynchronous_servers import CONDITIONS, CYCLE, FREE, MODEL, STRATEGIES, applied, planned, ran
from grouped_cases import each_case
from simulator.schedules import semantics
from simulator.schedules.schedule import TRANSFER
from simulator.schedules.timeline import Timeline
from simulator.training.asgd import ASGD, SSP
from simulator.training.conditions import Failure
from simulator.training.plan import Plan
from simulator.training.strategy import SERVERS
from topologies.errors import InputError


def test_two_workers_by_hand() -> None:
    """One byte at 1 B/s: a pull and a push take 1 s each, an update 1 s. The second pull waits for
    the first, and from then on worker 1 is a second behind.

    worker 0: pull 0-1, forward and backward 1-4, push 4-5, update 5-6, pull 6-7, ... update 11-12
    worker 1: pull 1-2, forward and backward 2-5, push 5-6, update 6-7, pull 7-8, ... update 12-13
    """
    plan, timeline, measures = ran(ASGD(update=1.0), 2, 2, 1.0)
    assert applied(plan, timeline).tolist() == [[6, 7], [12, 13]]
    assert plan.numbers.tolist() == [0, 1]
    assert timeline.makespan == 13
    assert plan.updates is not None
    assert plan.updates.worker.tolist() == [0, 1, 0, 1]
    assert timeline.start[plan.updates.pulled].tolist() == [0, 1, 6, 7]
    assert measures.staleness.tolist() == [0, 1, 1, 1]
    # Worker 0 is the first to be done, after 12 s and 3 updates: two updates take 8 s on average,
    # the first two 7 s.
    assert measures.window.end == 12
    assert measures.samples_per_s == pytest.approx(3 * 8 / 12)
    assert measures.step == pytest.approx(8)
    assert measures.steps.tolist() == [7]
    assert measures.computing.tolist() == [6, 6]
    assert measures.bubbles.sum(axis=1) == pytest.approx([6, 6])
    # Worker 0 asks at 0 and has the parameters at 1; pushes from 4 on and has them again at 7;
    # pushes 10-11.
    assert measures.exposed.tolist() == [1 + 3 + 1, 2 + 3 + 1]
    assert measures.hidden.tolist() == [0, 0]


def test_latency_of_a_request_is_paid_once() -> None:
    """Later ones travel with a push: a cycle is pull, computing, push and update, and 2α for each
    transfer."""
    _, timeline, _ = ran(ASGD(update=1.0), 1, 4, 1.0, 0.125)
    assert timeline.makespan == 0.25 + 4 * (1.25 + CYCLE + 1.25 + 1)


# What the servers hold, and what workers read, in the order of the timeline.


def by_effect(plan: Plan, timeline: Timeline) -> npt.NDArray[np.int32]:
    """Operations in the order in which they take effect, ties by number: a pull reads when it
    starts, all others are there when they are finished."""
    when = np.where(is_pull(plan), timeline.start, timeline.finish)
    return np.argsort(when, kind="stable").astype(np.int32)


def is_pull(plan: Plan) -> npt.NDArray[np.bool_]:
    schedule = plan.schedule
    weights = schedule.slots - 1
    return np.asarray((schedule.kind == TRANSFER) & (schedule.source == weights))


def is_application(plan: Plan) -> npt.NDArray[np.bool_]:
    schedule = plan.schedule
    return np.asarray((schedule.kind == TRANSFER) & (schedule.target == schedule.slots - 1))


@given(
    STRATEGIES, st.integers(1, 4), st.integers(2, 4), st.sampled_from([1.0, 7.0, FREE]), CONDITIONS
)
def test_every_gradient_is_applied_once_and_pulls_read_what_was_applied_before(
    strategy: ASGD, ranks: int, steps: int, bandwidth: float, how: dict[str, object]
) -> None:
    plan, timeline, measures = ran(strategy, ranks, steps, bandwidth, **how)
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
    assert measures.staleness.tolist() == [stale[served] - seen[pulled] for pulled, served in rows]
    batches = np.array([1 if "batches" in how else steps] + [steps] * (ranks - 1))
    assert np.bincount(updates.worker, minlength=ranks).tolist() == batches.tolist()
    final = semantics.inputs(schedule)[:, weights]
    for server in np.flatnonzero(counts):
        share = server if shares > 1 else 0
        with np.errstate(over="ignore"):
            final[server] += np.sum(gradients[:, share] * batches.astype(np.uint64))
    assert np.array_equal(data[:, weights], final)


@each_case(("server", "pairs"), [("gpu", 4), ("cpu", 4), ("worker", 3), ("sharded", 3)])
def test_volume(server: str, pairs: int) -> None:
    """Parameters and a gradient of half their size, a worker and update; nothing travels on a
    worker's own device."""
    model = replace(MODEL, gradient_dtype="fp16")
    assert planned(ASGD(server=server), 4, 5, model=model).schedule.volume == pytest.approx(
        5 * pairs * 1.5
    )


@each_case("server", SERVERS)
def test_all_shares_are_waited_for(server: str) -> None:
    plan, timeline, _ = ran(ASGD(server=server, update=0.25), 4, 5, 2.0, sigma=1.0)
    schedule, phases = plan.schedule, plan.schedule.phases
    of = {phase: schedule.phase == phases.index(phase) for phase in phases}
    shape = 5, schedule.buffer, 4
    pulled = timeline.finish[is_pull(plan)].reshape(shape)
    pushed = timeline.start[of["push"]].reshape(shape)
    assert np.all(timeline.start[of["forward"]].reshape(5, 4) == pulled.max(axis=1))
    assert np.all(timeline.finish[of["backward"]].reshape(5, 4) <= pushed.min(axis=1))
    assert np.all(
        applied(plan, timeline) == timeline.finish[is_application(plan)].reshape(shape).max(axis=1)
    )


# What goes wrong, and where the server is.


@pytest.mark.parametrize("strategy", [ASGD(update=2.0**-20), SSP(update=2.0**-20, bound=9)])
def test_a_worker_that_fails_loses_its_cycle_and_holds_up_nobody(strategy: ASGD) -> None:
    slower = {0: 1.25, 1: 1.5}
    _, _, usual = undisturbed = ran(strategy, 3, 4, slower=slower)
    _, _, measures = failed = ran(
        strategy, 3, 4, slower=slower, failure=Failure(1, 2, restart=5.0, timeout=0.5)
    )
    before, after = applied(*undisturbed[:2]), applied(*failed[:2])
    assert np.array_equal(after[:, [0, 2]], before[:, [0, 2]])
    assert np.array_equal(after[:2, 1], before[:2, 1])
    assert after[2:, 1] == pytest.approx(before[2:, 1] + 1.5 * 1.0 + 5.5)
    # Worker 2 is the first to be done, after 12 s: worker 1 restarts from 10.5 s on, when it would
    # compute.
    assert measures.window.end == usual.window.end == pytest.approx(12, rel=1e-5)
    assert measures.restarting == pytest.approx([0, 1.5, 0], rel=1e-5)
    assert measures.computing + measures.restarting == pytest.approx(usual.computing, rel=1e-5)


def test_a_bound_makes_all_wait_for_a_worker_that_fails() -> None:
    plan, timeline, _ = ran(
        SSP(update=2.0**-20, bound=1), 3, 6, failure=Failure(1, 2, restart=50.0)
    )
    times = applied(plan, timeline)
    assert times[3, 0] < 50 < times[2, 1] < times[4, 0]


def test_a_worker_without_input_stops_and_holds_up_nobody() -> None:
    for strategy in (
        ASGD(update=0.125),
        SSP(update=0.125, bound=0),
        ASGD(server="sharded", update=0.125),
    ):
        plan, timeline, measures = ran(strategy, 3, 4, batches={0: 0, 1: 2})
        assert plan.updates is not None
        assert np.bincount(plan.updates.worker, minlength=3).tolist() == [0, 2, 4]
        assert plan.samples.tolist() == [16, 16, 8, 8]
        times = applied(plan, timeline)
        assert times[1, 1] == times[3, 1] < times[3, 2] == timeline.makespan
        assert measures.computing.tolist() == [0, 2 * CYCLE, 4 * CYCLE]


def test_an_update_moves_the_gradient_the_parameters_and_the_state() -> None:
    """Of one byte each: 1 + 2 x 2 bytes through the server's memory."""
    assert ASGD().updating(MODEL) == 5 / 10
    assert ASGD(server="cpu").updating(MODEL) == 5 / 204.8e9
    assert ASGD(server="cpu", server_memory=50.0).updating(MODEL) == 5 / 50
    assert ASGD(server="cpu", update=0.25).updating(MODEL) == 0.25
    assert planned(ASGD(), 2, 1).words == ("an update takes 500ms at 10B/s",)


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_shares_travel_side_by_side(ranks: int) -> None:
    """All ports send and receive all the time: a pull or a push takes (p-1)/p V/β. Then the last
    share is updated."""
    _, timeline, _ = ran(ASGD(server="sharded", update=0.5), ranks, 1, 1.0)
    assert timeline.makespan == pytest.approx(2 * (ranks - 1) / ranks + CYCLE + 0.5 / ranks)


@each_case(
    ("strategy", "options", "message"),
    [
        (ASGD, {"server": "tpu"}, "asgd: server='tpu': it is one of worker, gpu, cpu, sharded"),
        (ASGD, {"update": -1.0}, "asgd: update=-1.0: seconds, 0 or more"),
        (ASGD, {"update": float("nan")}, "asgd: update=nan: seconds, 0 or more"),
        (
            SSP,
            {"server_memory": -1.0},
            "ssp: server_memory=-1.0: bytes/s above 0, or 0 for the default",
        ),
        (SSP, {"bound": -1}, "bound is -1: it is 0 or more"),
    ],
)
def test_mistakes(strategy: type[ASGD], options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        strategy(**options)  # type: ignore[arg-type]
