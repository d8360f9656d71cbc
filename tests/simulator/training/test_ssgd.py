"""Synchronous SGD with a parameter server: closed forms on a star, what it computes, what goes wrong."""

from dataclasses import fields, replace
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import semantics
from simulator.collectives.collective import ALL_REDUCE
from simulator.engines import simulate
from simulator.memory import trace
from simulator.timeline import Timeline
from simulator.training import find
from simulator.training.conditions import Conditions, Failure
from simulator.training.measures import measure
from simulator.training.model import Layer, Model, Tensor
from simulator.training.plan import Plan, Setting
from simulator.training.run import train
from simulator.training.ssgd import KINDS, SSGD, units_of
from topologies import shapes
from topologies.errors import InputError
from topologies.topology import Topology

CALM = Conditions()


def layer(name: str, forward: float, backward: float, nbytes: float) -> Layer:
    return Layer(name, forward, backward, tensors=(Tensor(f"{name}.weight", nbytes),) if nbytes else ())


MODEL = Model(
    "two layers and one without parameters",
    batch=4,
    layers=(layer("in", 1.0, 2.0, 12.0), layer("relu", 0.5, 0.5, 0.0), layer("out", 1.0, 1.0, 4.0)),
    inputs=3.0,
)
COMPUTE = 6.0


def star(ssgd: SSGD, ranks: int, bandwidth: float, latency: float = 0.0) -> Topology:
    return shapes.star(max(2, ranks + ssgd.servers(ranks)), bandwidth=bandwidth, latency=latency)


def planned(
    ssgd: SSGD, ranks: int, *, steps: int = 1, bandwidth: float = 2.0, latency: float = 0.0, model: Model = MODEL,
    conditions: Conditions = CALM,
) -> Plan:  # fmt: skip
    return ssgd.plan(model, Setting(star(ssgd, ranks, bandwidth, latency), ranks, steps, conditions))


def run(plan: Plan) -> Timeline:
    return train(plan, simulate)


def serial(ssgd: SSGD, ranks: int, bandwidth: float, latency: float, model: Model = MODEL) -> float:
    """A step on a star: `others` pushes of a shard go into one port, and as many pulls come out of it. The sums wait
    for the port, or the port is far ahead of them. The batches follow the pulls."""
    shards = ranks if ssgd.server == "sharded" else 1
    others = ranks - (ssgd.server_kind is None)
    push, pull = model.gradients / shards / bandwidth, model.parameters / shards / bandwidth
    add, route = ssgd.adding(model) / shards, 2 * latency * (others > 0)
    gathered = max(others * push + add, push + others * add) if others else 0.0
    batches = others * model.inputs / bandwidth if ssgd.scatter else 0.0
    update = ssgd.updating(model) / shards
    return model.forward + model.backward + route + gathered + update + route + others * pull + batches


# By hand.


def test_a_serial_step_with_a_server_apart() -> None:
    # p = 2, G = P = 16 B at 2 B/s: 6 s of computing; two pushes of 8 s into one port; the update takes 1 s; two pulls
    # of 8 s and two batches of 1.5 s leave one port.
    plan = planned(SSGD("gpu", update=1.0), 2)
    timeline, schedule = run(plan), plan.schedule
    ends = {
        schedule.phases[phase]: timeline.finish[(schedule.phase == phase) & schedule.remote].tolist()
        for phase in np.unique(schedule.phase[schedule.remote])
    }
    assert ends == {"push model": [14, 22], "pull model": [31, 39], "scatter": [40.5, 42]}
    assert timeline.finish[plan.ends].tolist() == [[40.5, 42]]
    assert plan.words == ("pushes of 16B",)


def test_a_pipelined_step_with_a_server_apart() -> None:
    # p = 1: "out" (4 B, 2 s) is there at 3.5 s, pushed by 5.5 s, updated in 0.25 s of 1 s, pulled by 7.75 s. "in"
    # (12 B) is there at 6 s, pushed by 12 s, updated by 12.75 s, pulled by 18.75 s. The batch was sent meanwhile.
    plan = planned(SSGD("gpu", pipelined=True, update=1.0), 1, steps=2)
    timeline, schedule = run(plan), plan.schedule
    finish = {
        schedule.phases[schedule.phase[i]]: float(timeline.finish[i])
        for i in range(int(plan.ends[0, 0]))
        if not schedule.phases[schedule.phase[i]].startswith("sum")
    }
    assert finish == {
        "forward in": 1, "scatter": 2.5, "forward relu": 1.5, "forward out": 2.5, "backward out": 3.5,
        "backward relu": 4, "backward in": 6, "push out": 5.5, "update out": 5.75, "pull out": 7.75,
        "push in": 12, "update in": 12.75, "pull in": 18.75,
    }  # fmt: skip
    found = measure(plan, timeline)
    assert found.steps.tolist() == [18.75, 18.75]
    assert found.hidden.tolist() == [2 * (1.5 + 2 + 0.25)], "the batch, and what of `out` the backward covers"
    assert found.exposed.tolist() == [2 * (1.75 + 4.25 + 6)], "not while the server updates"


def second_forwards(pipelined: bool) -> list[float]:
    """When each of two workers begins its second step, less when the first step has ended everywhere."""
    plan = planned(SSGD("gpu", pipelined, server_memory=inf), 2, steps=2, model=replace(MODEL, inputs=0.0))
    timeline, schedule = run(plan), plan.schedule
    forward = np.flatnonzero(schedule.phase == schedule.phases.index("forward in"))
    assert schedule.rank[forward].tolist() == [0, 1, 0, 1]
    ended = float(timeline.finish[plan.ends[0]].max())
    return [float(start) - ended for start in timeline.start[forward[2:]]]


def test_only_pipelined_workers_start_before_all_have_their_parameters() -> None:
    assert second_forwards(pipelined=False) == [0, 0]
    assert second_forwards(pipelined=True) == [-6, 0], "the 12 B of the first layer go to rank 0 first"


def test_a_layer_without_parameters_waits_for_none() -> None:
    model = replace(MODEL, layers=(MODEL.layers[1], MODEL.layers[0], MODEL.layers[2]), inputs=0.0)
    plan = planned(SSGD("gpu", pipelined=True, server_memory=inf), 1, steps=2, model=model)
    timeline, schedule = run(plan), plan.schedule
    forward = np.flatnonzero(schedule.phase == schedule.phases.index("forward relu"))
    assert timeline.start[forward[1]] == COMPUTE < timeline.finish[plan.ends[0, 0]]
    forward = np.flatnonzero(schedule.phase == schedule.phases.index("forward in"))
    assert timeline.start[forward[1]] == timeline.finish[plan.ends[0, 0]], "but the next waits for its own"


def test_the_first_forward_waits_for_a_batch_that_takes_long() -> None:
    # Sent when the first forward of the first step is done, at 1 s, at 2 B/s; the parameters come behind it.
    plan = planned(SSGD("gpu", pipelined=True, server_memory=inf), 1, steps=2, model=replace(MODEL, inputs=100.0))
    late = planned(SSGD("gpu", pipelined=True, server_memory=inf), 1, steps=2, model=replace(
        MODEL, inputs=100.0, layers=MODEL.layers[1:],
    ))  # fmt: skip
    timeline, schedule = run(plan), plan.schedule
    forward = np.flatnonzero(schedule.phase == schedule.phases.index("forward in"))
    assert timeline.start[forward[1]] == 1 + 50 + 16 / 2
    timeline, schedule = run(late), late.schedule
    forward = np.flatnonzero(schedule.phase == schedule.phases.index("forward relu"))
    assert timeline.start[forward[1]] == 0.5 + 50, "a layer without parameters, for the batch alone"


@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize(("server", "last"), [("gpu", 0), ("gpu", 2), ("cpu", 0), ("worker", 2), ("sharded", None)])
def test_an_update_is_ready_when_the_last_gradient_is_added(server: str, last: int | None, pipelined: bool) -> None:
    conditions = CALM if last is None else Conditions(slower={last: 20.0})
    plan = planned(SSGD(server, pipelined, server_memory=4.0), 4, conditions=conditions)
    timeline, schedule = run(plan), plan.schedule
    names = [schedule.phases[phase] for phase in schedule.phase]
    for update in np.flatnonzero([name.startswith("update") for name in names]):
        mine = (schedule.rank == schedule.rank[update]) & (schedule.seconds > 0)
        sums = [i for i in np.flatnonzero(mine) if names[i] == names[update].replace("update", "sum")]
        assert timeline.ready[update] == timeline.finish[sums].max() > timeline.ready[sums].max()


# Closed forms.


@pytest.mark.parametrize("server", KINDS)
@pytest.mark.parametrize("ranks", range(1, 10))
@pytest.mark.parametrize("latency", [0.0, 0.125])
def test_serial_steps_equal_the_closed_form(server: str, ranks: int, latency: float) -> None:
    for ssgd in (
        SSGD(server, update=1.0, server_memory=inf),
        SSGD(server, server_memory=1.0),
        SSGD(server, scatter=False, server_memory=100.0),
    ):
        plan = planned(ssgd, ranks, steps=3, latency=latency)
        assert measure(plan, run(plan)).steps == pytest.approx([serial(ssgd, ranks, 2.0, latency)] * 3)


@pytest.mark.parametrize(("server", "ports"), [("gpu", 4), ("worker", 3), ("sharded", 3 / 4)])
def test_what_goes_through_the_ports_of_a_server(server: str, ports: float) -> None:
    ssgd = SSGD(server, scatter=False, server_memory=inf)
    each = 16 / 2.0
    assert run(planned(ssgd, 4)).makespan == pytest.approx(COMPUTE + 2 * ports * each)


def test_sums_are_as_slow_as_a_port_or_as_memory() -> None:
    # Three pushes of 8 s; adding one takes 48 B / M. At 48 B/s all but the last second is hidden, at 4 B/s the port is.
    base = run(planned(SSGD("gpu", scatter=False, update=1.0, server_memory=inf), 3)).makespan
    assert run(planned(SSGD("gpu", scatter=False, update=1.0, server_memory=48.0), 3)).makespan == base + 1
    assert run(planned(SSGD("gpu", scatter=False, update=1.0, server_memory=4.0), 3)).makespan == base - 16 + 3 * 12


@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize("server", KINDS)
def test_on_an_infinite_network_only_computing_is_left(server: str, pipelined: bool) -> None:
    ssgd = SSGD(server, pipelined, server_memory=64.0)
    plan = planned(ssgd, 4, bandwidth=1e30)
    others, shards = (4, 1) if ssgd.server_kind else (3, 4 if server == "sharded" else 1)
    work = (others * ssgd.adding(MODEL) + ssgd.updating(MODEL)) / shards
    if not pipelined:
        assert run(plan).makespan == pytest.approx(COMPUTE + work)
    elif ssgd.server_kind is None:
        assert run(plan).makespan == pytest.approx(COMPUTE + work), "on the same lane there is no overlap to win"
    else:
        assert COMPUTE + 0.75 * work <= run(plan).makespan * (1 + 1e-9) <= (COMPUTE + work) * (1 + 2e-9)


@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize("server", ["worker", "sharded"])
def test_one_worker_that_serves_itself_only_computes(server: str, pipelined: bool) -> None:
    plan = planned(SSGD(server, pipelined, update=0.5), 1, steps=3)
    assert measure(plan, run(plan)).steps == pytest.approx([COMPUTE + 0.5] * 3)
    assert plan.schedule.volume == 0
    assert len(plan.spans.rank) == 0
    assert plan.words == ("one worker, which serves: nothing is pushed",)


def test_the_update_is_bound_by_memory() -> None:
    # fp16 gradients: G = 8 B, P = 16 B. Adding: 3 * 8 B. Update with two bytes of state: 2 * 16 + 2 * 32 + 8 = 104 B.
    model = replace(MODEL, gradient_dtype="fp16", state=2.0, memory_bandwidth=52.0)
    assert (SSGD("worker").adding(model), SSGD("worker").updating(model)) == (24 / 52, 2)
    assert SSGD("sharded").updating(model) == SSGD("gpu").updating(model) == 2
    assert SSGD("cpu").updating(model) == 104 / 204.8e9
    assert SSGD("cpu", server_memory=104.0).updating(model) == 1
    assert SSGD("cpu", update=3.0).updating(model) == 3
    assert SSGD("gpu").updating(replace(model, memory_bandwidth=inf)) == 0


@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize("server", KINDS)
def test_gradients_and_parameters_have_their_own_widths(server: str, pipelined: bool) -> None:
    model = replace(MODEL, gradient_dtype="fp16")
    plan = planned(SSGD(server, pipelined), 4, model=model)
    pairs = 4 if KINDS[server] else 3
    assert plan.schedule.nbytes_total == 8
    assert plan.schedule.volume == pytest.approx(pairs * (8 + 16 + 3))
    by_kind = {"push": pairs * 8, "pull": pairs * 16, "scatter": pairs * 3}
    for kind, nbytes in by_kind.items():
        named = [n for n, phase in enumerate(plan.schedule.phases) if phase.split()[0] == kind]
        mine = np.isin(plan.schedule.phase, named) & plan.schedule.remote
        assert plan.schedule.nbytes[mine].sum() == pytest.approx(nbytes)


# Laws.


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Times and bytes in whole numbers, so that ties are ties."""
    numbers = st.integers(0, 4)
    sizes = draw(st.lists(st.sampled_from([0.0, 1.0, 4.0, 16.0]), min_size=1, max_size=4).filter(any))
    layers = tuple(layer(f"l{k}", draw(numbers), draw(numbers), size) for k, size in enumerate(sizes))
    return Model("drawn", 1, layers, inputs=draw(st.sampled_from([0.0, 8.0])))


ONE_SERVER = st.sampled_from(["worker", "gpu", "cpu"])
MEMORY = st.sampled_from([inf, 4.0, 64.0])
BANDWIDTH = st.sampled_from([1.0, 4.0, 32.0])
LATENCY = st.sampled_from([0.0, 0.25, 1.0])


@given(models(), ONE_SERVER, st.integers(1, 5), st.integers(1, 3), BANDWIDTH, LATENCY, MEMORY)
def test_pipelined_is_never_slower_with_one_server(
    model: Model, server: str, ranks: int, steps: int, bandwidth: float, latency: float, memory: float
) -> None:
    ssgd = SSGD(server, server_memory=memory)
    slow = run(planned(ssgd, ranks, steps=steps, bandwidth=bandwidth, latency=latency, model=model)).makespan
    ssgd = replace(ssgd, pipelined=True)
    fast = run(planned(ssgd, ranks, steps=steps, bandwidth=bandwidth, latency=latency, model=model)).makespan
    assert fast <= slow * (1 + 1e-9)


def test_batches_sent_ahead_may_delay_the_pushes_of_a_rank_that_serves_and_works() -> None:
    model = Model("one layer", 1, (layer("fc", 3.0, 0.0, 16.0),), inputs=8.0)
    ssgd = SSGD("sharded", update=1.0, server_memory=4.0)
    slow, fast = (
        run(planned(replace(ssgd, pipelined=pipelined), 5, bandwidth=1.0, latency=0.25, model=model)).makespan
        for pipelined in (False, True)
    )
    assert slow < fast < 1.1 * slow


@given(models(), st.sampled_from(list(KINDS)), st.integers(1, 5), st.integers(1, 3), BANDWIDTH, MEMORY, st.booleans())
def test_a_run_is_no_shorter_than_what_is_busiest(
    model: Model, server: str, ranks: int, steps: int, bandwidth: float, memory: float, pipelined: bool
) -> None:
    ssgd = SSGD(server, pipelined, server_memory=memory)
    shards = ranks if server == "sharded" else 1
    others = ranks - (ssgd.server_kind is None)
    server_s = (others * ssgd.adding(model) + ssgd.updating(model)) / shards
    compute_s = model.forward + model.backward + (0.0 if ssgd.server_kind else server_s)
    in_s, out_s = (others * nbytes / shards / bandwidth for nbytes in (model.gradients, model.parameters))
    out_s += (others if shards == 1 else 0) * model.inputs / bandwidth
    timeline = run(planned(ssgd, ranks, steps=steps, bandwidth=bandwidth, model=model))
    assert timeline.makespan >= steps * max(compute_s, server_s, in_s, out_s) * (1 - 1e-9)


@given(models(), st.sampled_from(list(KINDS)), st.integers(1, 6), BANDWIDTH, LATENCY, MEMORY)
def test_any_serial_step_equals_the_closed_form(
    model: Model, server: str, ranks: int, bandwidth: float, latency: float, memory: float
) -> None:
    ssgd = SSGD(server, server_memory=memory)
    plan = planned(ssgd, ranks, steps=2, bandwidth=bandwidth, latency=latency, model=model)
    assert measure(plan, run(plan)).steps == pytest.approx([serial(ssgd, ranks, bandwidth, latency, model)] * 2)


@given(models(), ONE_SERVER, st.integers(1, 5), LATENCY, MEMORY, st.floats(0.0, 1.0), st.integers(0, 99))
def test_a_faster_network_makes_a_serial_step_no_slower(
    model: Model, server: str, ranks: int, latency: float, memory: float, sigma: float, seed: int
) -> None:
    """With one server; among many the order of service may change for the worse."""
    ssgd, noise = SSGD(server, server_memory=memory), Conditions(sigma=sigma, seed=seed)
    times = [
        run(planned(ssgd, ranks, steps=2, bandwidth=beta, latency=latency, model=model, conditions=noise)).makespan
        for beta in (1.0, 2.0, 16.0)
    ]
    assert times[0] >= times[1] * (1 - 1e-9) >= times[2] * (1 - 1e-9) ** 2


@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize("server", KINDS)
@pytest.mark.parametrize("ranks", range(1, 10))
def test_a_step_is_an_all_reduce(server: str, ranks: int, pipelined: bool) -> None:
    plan = planned(SSGD(server, pipelined), ranks, latency=0.125, conditions=Conditions(sigma=0.5))
    assert SSGD.promise is ALL_REDUCE
    semantics.check(plan.schedule, ALL_REDUCE)
    semantics.check(plan.schedule, ALL_REDUCE, order=np.argsort(run(plan).finish, kind="stable").astype(np.int32))


@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize("server", KINDS)
def test_every_transfer_is_needed(server: str, pipelined: bool) -> None:
    schedule = planned(SSGD(server, pipelined), 3).schedule
    moved = np.flatnonzero(schedule.source >= 0)
    for dropped in moved[schedule.rank[moved] != schedule.peer[moved]]:
        order = np.delete(np.arange(len(schedule), dtype=np.int32), dropped)
        with pytest.raises(semantics.WrongResult, match="all_reduce"):
            semantics.check(schedule, ALL_REDUCE, order=order)


@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize("server", KINDS)
def test_both_engines_agree_to_the_bit(server: str, pipelined: bool) -> None:
    plan = planned(SSGD(server, pipelined, server_memory=8.0), 5, steps=3, conditions=Conditions(sigma=0.5))
    times = [simulate(plan.schedule, plan.topology, engine).finish.tolist() for engine in ("reference", "compiled")]
    assert times[0] == times[1]


# Memory.


@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize(("server", "inboxes", "shards"), [("gpu", 4, 1), ("worker", 3, 1), ("sharded", 3, 4)])
def test_a_server_holds_an_inbox_a_worker_and_the_parameters(
    server: str, inboxes: int, shards: int, pipelined: bool
) -> None:
    model = replace(MODEL, gradient_dtype="fp16")
    plan = planned(SSGD(server, pipelined), 4, steps=3, model=model)
    peaks = trace(plan.schedule, run(plan)).peaks.tolist()
    gradients, parameters = 8, 16
    serving = (inboxes * gradients + parameters) / shards
    own = 0 if server == "gpu" else gradients
    assert peaks[plan.workers if server == "gpu" else 0] == pytest.approx(own + serving)
    if server != "sharded":
        assert peaks[1:4] == [gradients] * 3


# What is measured.


@pytest.mark.parametrize("scatter", [False, True])
def test_serial_communication_is_all_exposed(scatter: bool) -> None:
    plan = planned(SSGD("gpu", scatter=scatter, server_memory=48.0), 3, steps=2)
    timeline = run(plan)
    found = measure(plan, timeline)
    assert found.hidden == pytest.approx([0] * 3, abs=1e-9)
    assert found.computing == pytest.approx([2 * COMPUTE] * 3)
    if not scatter:
        assert found.exposed == pytest.approx([2 * (push + 8) for push in (8, 16, 24)]), "pushes queue at the server"
    assert np.all(found.exposed <= timeline.makespan - 2 * COMPUTE)
    assert found.bubbles.total == pytest.approx([timeline.makespan - 2 * COMPUTE] * 3)


def test_a_worker_that_serves_communicates_while_others_push_and_pull() -> None:
    plan = planned(SSGD("worker", scatter=False, update=1.0, server_memory=inf), 3)
    found = measure(plan, run(plan))
    assert found.steps.tolist() == [COMPUTE + 16 + 1 + 16]
    assert found.computing.tolist() == [COMPUTE + 1, COMPUTE, COMPUTE]
    assert found.exposed.tolist() == [16 + 16, 8 + 8, 16 + 8]
    assert found.hidden.tolist() == [0, 0, 0]


# Workers that differ.


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


@given(st.integers(0, 4), st.integers(1, 3), st.sampled_from(list(KINDS)), st.integers(0, 3))
def test_a_failure_costs_a_forward_the_restart_and_the_steps_that_come_again(
    step: int, checkpoint: int, server: str, rank: int
) -> None:
    steps, ssgd = 5, SSGD(server, update=1.0, server_memory=4.0)
    failure = Failure(rank, step, restart=7.0, timeout=2.0, checkpoint=checkpoint)
    plan = planned(ssgd, 4, steps=steps, conditions=Conditions(failure=failure))
    each, redone = serial(ssgd, 4, 2.0, 0.0), step % checkpoint
    found = measure(plan, run(plan))
    assert run(plan).makespan == pytest.approx((steps + redone) * each + MODEL.forward + 2 + 7)
    assert found.steps[step] == pytest.approx(MODEL.forward + 2 + 7)
    assert np.delete(found.steps, step) == pytest.approx([each] * (steps + redone))
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
    plan = planned(SSGD("gpu", pipelined), 3, steps=2, conditions=Conditions(batches={1: 1}))
    schedule = plan.schedule
    assert plan.samples.tolist() == [12, 8]
    batches = schedule.phase == schedule.phases.index("scatter")
    assert schedule.peer[batches].tolist() == [0, 2, 0, 2], "its second batch, and its third, are not there"
    pushes = [n for n, phase in enumerate(schedule.phases) if phase.startswith("push")]
    assert np.bincount(schedule.rank[np.isin(schedule.phase, pushes)]).tolist() == [2 * len(pushes)] * 3


# As a strategy.


def test_it_is_found_by_name_and_explains_its_options() -> None:
    assert find("ssgd") is SSGD
    assert {field.name for field in fields(SSGD) if field.metadata["help"]} == {
        "server", "pipelined", "scatter", "update", "server_memory",
    }  # fmt: skip


@pytest.mark.parametrize(("server", "kind", "count"), [("worker", None, 0), ("gpu", "gpu", 1), ("cpu", "cpu", 1)])
def test_where_the_servers_go(server: str, kind: str | None, count: int) -> None:
    assert SSGD(server).server_kind == kind
    assert SSGD(server).servers(8) == count
    assert planned(SSGD(server), 3).schedule.ranks == 3 + count


def test_units_are_layers_with_parameters_or_the_model() -> None:
    assert [(unit.name, unit.parameters, unit.layer) for unit in units_of(MODEL, pipelined=True)] == [
        ("in", 12, 0),
        ("out", 4, 2),
    ]
    assert [(unit.parameters, unit.layer) for unit in units_of(MODEL, pipelined=False)] == [(16, 0)]
    assert planned(SSGD("sharded", pipelined=True), 4).words == ("pushes of 1B to 3B",)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"server": "tpu"}, "ssgd: server='tpu': it is one of worker, gpu, cpu, sharded"),
        ({"update": -1.0}, "ssgd: update=-1.0: seconds, 0 or more"),
        ({"update": inf}, "ssgd: update=inf: seconds, 0 or more"),
        ({"server_memory": float("nan")}, "ssgd: server_memory=nan: bytes/s above 0, or 0 for the default"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str | float], said: str) -> None:
    with pytest.raises(InputError, match=f"^{said}$"):
        replace(SSGD(), **options)  # type: ignore[arg-type]


def test_a_machine_without_a_device_for_the_server_is_refused() -> None:
    plan = SSGD("gpu").plan(MODEL, Setting(shapes.star(3, bandwidth=1.0), 3))
    with pytest.raises(InputError):
        run(plan)
