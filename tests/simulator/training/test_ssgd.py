"""Synchronous SGD with a parameter server: steps by hand, closed forms on a star, options, and
workers that are slow, fail or have no batch."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from refusals import refusal
from simulator.analysis.memory import trace
from simulator.training.conditions import Conditions, Failure
from simulator.training.measures import measure
from simulator.training.model import Model, Tensor
from simulator.training.plan import Setting
from simulator.training.ssgd import SSGD, units_of
from simulator.training.strategy import SERVERS
from synchronous_servers import CALM, COMPUTE, MODEL, planned, run, serial
from topologies import shapes
from topologies.errors import InputError

# By hand.


def test_a_pipelined_step_with_a_server_apart() -> None:
    # p = 1: "out" (4 B, 2 s) is there at 3.5 s, pushed by 5.5 s, updated in 0.25 s of 1 s, pulled
    # by 7.75 s. "in" (12 B) is there at 6 s, pushed by 12 s, updated by 12.75 s, pulled by 18.75 s.
    # The batch was sent meanwhile.
    plan = planned(SSGD("gpu", pipelined=True, update=1.0), 1, steps=2)
    timeline, schedule = run(plan), plan.schedule
    finish = {
        schedule.phases[schedule.phase[i]]: float(timeline.finish[i])
        for i in range(int(plan.ends[0, 0]))
        if not schedule.phases[schedule.phase[i]].startswith("sum")
    }
    assert finish == {
        **{"forward in": 1, "forward relu": 1.5, "forward out": 2.5, "scatter": 2.5},
        **{"backward out": 3.5, "backward relu": 4, "backward in": 6},
        **{"push out": 5.5, "update out": 5.75, "pull out": 7.75},
        **{"push in": 12, "update in": 12.75, "pull in": 18.75},
    }
    measures = measure(plan, timeline)
    assert measures.steps.tolist() == [18.75, 18.75]
    assert measures.hidden.tolist() == [2 * (1.5 + 2 + 0.25)], (
        "the batch, and what of `out` the backward covers"
    )
    assert measures.exposed.tolist() == [2 * (1.75 + 4.25 + 6)], "not while the server updates"


def second_forwards(pipelined: bool) -> list[float]:
    """When each of two workers begins its second step, less when the first step has ended
    everywhere."""
    plan = planned(
        SSGD("gpu", pipelined=pipelined, server_memory=inf),
        2,
        steps=2,
        model=replace(MODEL, inputs=0.0),
    )
    timeline, schedule = run(plan), plan.schedule
    forward = np.flatnonzero(schedule.phase == schedule.phases.index("forward in"))
    assert schedule.rank[forward].tolist() == [0, 1, 0, 1]
    ended = float(timeline.finish[plan.ends[0]].max())
    return [float(start) - ended for start in timeline.start[forward[2:]]]


def test_only_pipelined_workers_start_before_all_have_their_parameters() -> None:
    assert second_forwards(pipelined=False) == [0, 0]
    assert second_forwards(pipelined=True) == [-6, 0], (
        "the 12 B of the first layer go to rank 0 first"
    )


def test_the_first_forward_waits_for_a_batch_that_takes_long() -> None:
    # Sent when the first forward of the first step is done, at 1 s, at 2 B/s; the parameters come
    # behind it.
    def second(forward: str, model: Model) -> float:
        """When the second step begins this forward."""
        plan = planned(SSGD("gpu", pipelined=True, server_memory=inf), 1, steps=2, model=model)
        schedule = plan.schedule
        chosen = np.flatnonzero(schedule.phase == schedule.phases.index(forward))
        return float(run(plan).start[chosen[1]])

    large = replace(MODEL, inputs=100.0)
    assert second("forward in", large) == 1 + 50 + 16 / 2
    late = replace(large, layers=MODEL.layers[1:])
    assert second("forward relu", late) == 0.5 + 50, (
        "a layer without parameters, for the batch alone"
    )


@each_case("pipelined", [False, True])
@each_case(
    ("server", "last"), [("gpu", 0), ("gpu", 2), ("cpu", 0), ("worker", 2), ("sharded", None)]
)
def test_an_update_is_ready_when_the_last_gradient_is_added(
    server: str, last: int | None, pipelined: bool
) -> None:
    conditions = CALM if last is None else Conditions(slower={last: 20.0})
    plan = planned(SSGD(server, pipelined=pipelined, server_memory=4.0), 4, conditions=conditions)
    timeline, schedule = run(plan), plan.schedule
    names = [schedule.phases[phase] for phase in schedule.phase]
    for update in np.flatnonzero([name.startswith("update") for name in names]):
        mine = (schedule.rank == schedule.rank[update]) & (schedule.seconds > 0)
        sums = [
            i for i in np.flatnonzero(mine) if names[i] == names[update].replace("update", "sum")
        ]
        assert timeline.ready[update] == timeline.finish[sums].max() > timeline.ready[sums].max()


# Closed forms.


@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize("server", SERVERS)
def test_on_an_infinite_network_only_computing_is_left(server: str, pipelined: bool) -> None:
    ssgd = SSGD(server, pipelined=pipelined, server_memory=64.0)
    plan = planned(ssgd, 4, bandwidth=1e30)
    senders, shards = (4, 1) if ssgd.server_kind else (3, 4 if server == "sharded" else 1)
    work = (senders * ssgd.adding(MODEL) + ssgd.updating(MODEL)) / shards
    if not pipelined:
        assert run(plan).makespan == pytest.approx(COMPUTE + work)
    elif ssgd.server_kind is None:
        assert run(plan).makespan == pytest.approx(COMPUTE + work), (
            "on the same lane there is no overlap to win"
        )
    else:
        assert (
            COMPUTE + 0.75 * work
            <= run(plan).makespan * (1 + 1e-9)
            <= (COMPUTE + work) * (1 + 2e-9)
        )


@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize("server", ["worker", "sharded"])
def test_one_worker_that_serves_itself_only_computes(server: str, pipelined: bool) -> None:
    plan = planned(SSGD(server, pipelined=pipelined, update=0.5), 1, steps=3)
    assert measure(plan, run(plan)).steps == pytest.approx([COMPUTE + 0.5] * 3)
    assert plan.schedule.volume == 0
    assert not np.any(plan.graph.call >= 0)
    assert plan.words == ("one worker, which serves: nothing is pushed",)


def test_the_update_is_bound_by_memory() -> None:
    # fp16 gradients: G = 8 B, P = 16 B. Adding: 3 * 8 B. Update with two bytes of state: 2 * 16 + 2
    # * 32 + 8 = 104 B.
    model = replace(MODEL, gradient_dtype="fp16", state=2.0, memory_bandwidth=52.0)
    assert (SSGD("worker").adding(model), SSGD("worker").updating(model)) == (24 / 52, 2)
    assert SSGD("sharded").updating(model) == SSGD("gpu").updating(model) == 2
    assert SSGD("cpu").updating(model) == 104 / 204.8e9
    assert SSGD("cpu", server_memory=104.0).updating(model) == 1
    assert SSGD("cpu", update=3.0).updating(model) == 3
    assert SSGD("gpu").updating(replace(model, memory_bandwidth=inf)) == 0


@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize("server", SERVERS)
def test_gradients_and_parameters_have_their_own_widths(server: str, pipelined: bool) -> None:
    model = replace(MODEL, gradient_dtype="fp16")
    plan = planned(SSGD(server, pipelined=pipelined), 4, model=model)
    pairs = 4 if SSGD(server).server_kind else 3
    assert plan.schedule.nbytes_total == 8
    assert plan.schedule.volume == pytest.approx(pairs * (8 + 16 + 3))
    by_kind = {"push": pairs * 8, "pull": pairs * 16, "scatter": pairs * 3}
    for kind, nbytes in by_kind.items():
        named = [n for n, phase in enumerate(plan.schedule.phases) if phase.split()[0] == kind]
        mine = np.isin(plan.schedule.phase, named) & plan.schedule.remote
        assert plan.schedule.nbytes[mine].sum() == pytest.approx(nbytes)


# As a strategy.


def test_units_are_layers_with_parameters_or_the_model() -> None:
    assert units_of(MODEL, pipelined=True) == {0: Tensor("in", 12), 2: Tensor("out", 4)}
    assert units_of(MODEL, pipelined=False) == {0: Tensor("model", 16)}
    assert planned(SSGD("sharded", pipelined=True), 4).words == ("pushes of 1B to 3B",)


@each_case(
    ("options", "message"),
    [
        ({"server": "tpu"}, "ssgd: server='tpu': it is one of worker, gpu, cpu, sharded"),
        ({"update": -1.0}, "ssgd: update=-1.0: seconds, 0 or more"),
        ({"update": inf}, "ssgd: update=inf: seconds, 0 or more"),
        (
            {"server_memory": float("nan")},
            "ssgd: server_memory=nan: bytes/s above 0, or 0 for the default",
        ),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str | float], message: str) -> None:
    assert refusal(replace, SSGD(), **options) == f"{message}"


def test_a_machine_without_a_device_for_the_server_is_refused() -> None:
    plan = SSGD("gpu").plan(MODEL, Setting(shapes.star(3, bandwidth=1.0), 3))
    with pytest.raises(InputError):
        run(plan)


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
