"""Synchronous SGD with workers that are slow, fail or have no batch, and what is measured."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.analysis.memory import trace
from simulator.training.conditions import Conditions, Failure
from simulator.training.measures import measure
from simulator.training.ssgd import SSGD
from simulator.training.strategy import SERVERS
from synchronous_servers import COMPUTE, MODEL, planned, run, serial


@pytest.mark.parametrize("server", ["gpu", "worker"])
def test_a_step_is_as_slow_as_the_slowest_worker(server: str) -> None:
    # 20 times as slow: the others' gradients have long been added up when its own arrive.
    ssgd = SSGD(server, scatter=False, update=1.0, server_memory=48.0)
    plan = planned(ssgd, 4, steps=2, conditions=Conditions(slower={2: 20.0}))
    pulls = (4 if server == "gpu" else 3) * 8
    assert measure(plan, run(plan)).steps.tolist() == [20 * COMPUTE + 8 + 1 + 1 + pulls] * 2


def test_a_slow_worker_that_serves_is_slow_at_that_as_well() -> None:
    ssgd = SSGD("worker", scatter=False, update=1.0, server_memory=inf)
    plan = planned(ssgd, 4, conditions=Conditions(slower={0: 20.0}))
    assert run(plan).makespan == 20 * (COMPUTE + 1) + 3 * 8
    plan = planned(replace(ssgd, server="gpu"), 4, conditions=Conditions(slower={0: 20.0}))
    assert run(plan).makespan == 20 * COMPUTE + 8 + 1 + 4 * 8, "a server apart is not"


@given(st.integers(0, 4), st.integers(1, 3), st.sampled_from(list(SERVERS)), st.integers(0, 3))
def test_a_failure_costs_a_forward_the_restart_and_the_steps_that_come_again(
    step: int, checkpoint: int, server: str, rank: int
) -> None:
    steps, ssgd = 5, SSGD(server, update=1.0, server_memory=4.0)
    failure = Failure(rank, step, restart=7.0, timeout=2.0, checkpoint=checkpoint)
    plan = planned(ssgd, 4, steps=steps, conditions=Conditions(failure=failure))
    each, redone = serial(ssgd, 4, 2.0, 0.0), step % checkpoint
    measures = measure(plan, run(plan))
    assert run(plan).makespan == pytest.approx((steps + redone) * each + MODEL.forward + 2 + 7)
    assert measures.steps[step] == pytest.approx(MODEL.forward + 2 + 7)
    assert np.delete(measures.steps, step) == pytest.approx([each] * (steps + redone))
    assert plan.useful.sum() == steps
    assert plan.samples.sum() == steps * 4 * MODEL.batch


def test_a_pipelined_run_goes_on_after_a_failure() -> None:
    ssgd = SSGD("gpu", pipelined=True)
    base = planned(ssgd, 3, steps=4)
    plan = planned(ssgd, 3, steps=4, conditions=Conditions(failure=Failure(1, 2, restart=7.0)))
    assert plan.useful.tolist() == [1, 1, 0, 1, 1]
    assert run(plan).makespan > run(base).makespan + 7
    batches = plan.schedule.phase == plan.schedule.phases.index("scatter")
    assert batches.sum() == 4 * 3, "none is sent while a worker fails"


@pytest.mark.parametrize("pipelined", [False, True])
def test_a_worker_without_a_batch_is_sent_none_and_pushes_all_the_same(pipelined: bool) -> None:
    plan = planned(
        SSGD("gpu", pipelined=pipelined), 3, steps=2, conditions=Conditions(batches={1: 1})
    )
    schedule = plan.schedule
    assert plan.samples.tolist() == [12, 8]
    batches = schedule.phase == schedule.phases.index("scatter")
    assert schedule.peer[batches].tolist() == [0, 2, 0, 2], (
        "its second batch, and its third, are not there"
    )
    pushes = [n for n, phase in enumerate(schedule.phases) if phase.startswith("push")]
    assert (
        np.bincount(schedule.rank[np.isin(schedule.phase, pushes)]).tolist()
        == [2 * len(pushes)] * 3
    )


@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize(
    ("server", "inboxes", "shards"), [("gpu", 4, 1), ("worker", 3, 1), ("sharded", 3, 4)]
)
def test_a_server_holds_an_inbox_a_worker_and_the_parameters(
    server: str, inboxes: int, shards: int, pipelined: bool
) -> None:
    model = replace(MODEL, gradient_dtype="fp16")
    plan = planned(SSGD(server, pipelined=pipelined), 4, steps=3, model=model)
    peaks = trace(plan.schedule, run(plan)).peaks.tolist()
    gradients, parameters = 8, 16
    serving = (inboxes * gradients + parameters) / shards
    inbox = 0 if server == "gpu" else gradients
    assert peaks[plan.workers if server == "gpu" else 0] == pytest.approx(inbox + serving)
    if server != "sharded":
        assert peaks[1:4] == [gradients] * 3


@pytest.mark.parametrize("scatter", [False, True])
def test_serial_communication_is_all_exposed(scatter: bool) -> None:
    plan = planned(SSGD("gpu", scatter=scatter, server_memory=48.0), 3, steps=2)
    timeline = run(plan)
    measures = measure(plan, timeline)
    assert measures.hidden == pytest.approx([0] * 3, abs=1e-9)
    assert measures.computing == pytest.approx([2 * COMPUTE] * 3)
    if not scatter:
        assert measures.exposed == pytest.approx([2 * (push + 8) for push in (8, 16, 24)]), (
            "pushes queue at the server"
        )
    assert np.all(measures.exposed <= timeline.makespan - 2 * COMPUTE)
    assert measures.bubbles.sum(axis=1) == pytest.approx([timeline.makespan - 2 * COMPUTE] * 3)


def test_a_worker_that_serves_communicates_while_others_push_and_pull() -> None:
    plan = planned(SSGD("worker", scatter=False, update=1.0, server_memory=inf), 3)
    measures = measure(plan, run(plan))
    assert measures.steps.tolist() == [COMPUTE + 16 + 1 + 16]
    assert measures.computing.tolist() == [COMPUTE + 1, COMPUTE, COMPUTE]
    assert measures.exposed.tolist() == [16 + 16, 8 + 8, 16 + 8]
    assert measures.hidden.tolist() == [0, 0, 0]
