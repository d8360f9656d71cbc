"""FSDP as a strategy: the step of its plan, what it proves, what it sends, and what it holds."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from law_cases import tries
from simulator.collectives.collective import ALL_GATHER, REDUCE_SCATTER
from simulator.engines import simulate
from simulator.parallel.degrees import Degrees
from simulator.parallel.fsdp import FSDP
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step import write
from simulator.parallel.step_splits import simulate as simulate_plan
from simulator.parallel.step_splits import write_transfers
from simulator.schedules import semantics
from simulator.schedules.semantics import WrongResult
from simulator.steps.kinds import ALL_GATHER as GATHERS
from simulator.steps.step_graph import priced
from simulator.training.conditions import Conditions, Failure
from simulator.training.footprint import footprint
from simulator.training.measures import measure
from simulator.training.model import Layer, Model, Tensor
from simulator.training.plan import Plan, Setting, prove
from simulator.training.plan_simulation import train
from topologies.catalogue import find as machine
from topologies.errors import InputError
from topologies.topology import Topology


def layer(name: str, elements: float, seconds: float = 0.25, activation: float = 0.0) -> Layer:
    """A layer whose backward takes twice as long as its forward."""
    return Layer(name, seconds, 2 * seconds, activation, (Tensor("w", 4 * elements),))


MODEL = Model(
    "model",
    8,
    (
        layer("embedding", 240.0),
        layer("layers.0.attention", 120.0),
        layer("layers.0.mlp", 360.0),
        layer("layers.1.attention", 120.0),
        layer("layers.1.mlp", 360.0),
        layer("head", 120.0, 0.5),
    ),
    optimizer=0.5,
    state=2.0,
    memory_bandwidth=2.0**16,
)
ROOT = 4 * 360.0
"""Bytes of the root's parameters, which stay gathered from the forward to the backward."""
OPTIONS = (
    FSDP(),
    FSDP(fsdp=1),
    FSDP(reshard=False),
    FSDP(zero=2),
    FSDP(wire="bf16"),
    FSDP(accumulate=3),
    FSDP(accumulate=2, sync=False, fsdp=1),
)


def topology(ranks: int, bandwidth: float = 4096.0) -> Topology:
    """A star. On links of 4096 bytes/s a gather of a layer of MODEL takes about a second."""
    return machine("star").with_links(bandwidth, 2.0**-10).build(max(2, ranks))


def planned(strategy: FSDP, ranks: int, steps: int = 1, model: Model = MODEL, **how: Any) -> Plan:
    return strategy.plan(model, Setting(topology(ranks), ranks, steps, Conditions(**how)))


@each_case("strategy", OPTIONS)
@each_case("ranks", [1, 2, 4, 6])
def test_a_step_takes_as_long_as_that_of_the_plan(strategy: FSDP, ranks: int) -> None:
    """The graph of all workers, whose calls have the times of the plan."""
    times = GroupTimes(topology(ranks), Degrees(dp=ranks))
    step, graph = write(strategy.work(MODEL, times)), planned(strategy, ranks).graph
    called = [times.seconds("data", call.collective, call.nbytes) for call in graph.calls]
    seconds = np.where(graph.call >= 0, np.array([*called, 0.0])[graph.call], graph.seconds)
    timeline = simulate(priced(replace(graph, seconds=seconds)), topology(ranks))
    expected = simulate(step.schedule, topology(ranks)).makespan
    assert timeline.makespan == pytest.approx(expected, rel=1e-12)


@each_case("strategy", OPTIONS)
def test_transfers_take_as_long_as_those_of_the_plan(strategy: FSDP) -> None:
    step = write(strategy.work(MODEL, GroupTimes(topology(4), Degrees(dp=4))))
    plan = planned(strategy, 4)
    expected = simulate_plan(step, write_transfers(step)).makespan
    assert train(plan).makespan == pytest.approx(expected, rel=1e-12)


@each_case("strategy", OPTIONS)
@each_case("ranks", [1, 2, 3, 5])
def test_each_worker_has_its_share_of_the_sum(strategy: FSDP, ranks: int) -> None:
    prove(planned(strategy, ranks), REDUCE_SCATTER)


def test_a_reduction_that_is_left_out_is_found() -> None:
    plan = planned(FSDP(), 3)
    schedule = replace(plan.schedule, reduces=np.zeros_like(plan.schedule.reduces))
    with pytest.raises(WrongResult, match="reduce_scatter"):
        prove(replace(plan, schedule=schedule), REDUCE_SCATTER)


def test_each_gather_brings_the_parameters_to_all() -> None:
    plan = FSDP().plan(MODEL, Setting(topology(3), 3, priced_beyond=0.0))
    gathered = [each for part, each in plan.collectives if part.label.kind == GATHERS]
    assert len(gathered) == 3 + 2
    for schedule in gathered:
        semantics.check(schedule, ALL_GATHER)


@given(st.integers(1, 7), st.sampled_from(OPTIONS[:5]))
@tries(10, 40)
def test_volume(ranks: int, strategy: FSDP) -> None:
    """A forward and a backward gather V, but for the root in a backward, and a backward reduces V:
    each worker sends (p - 1) / p of all that. With zero=2 parameters are gathered once."""
    again = MODEL.parameters - ROOT if strategy.zero == 3 and strategy.reshard else 0.0
    nbytes = (2 * MODEL.parameters + again) / (2 if strategy.wire == "bf16" else 1)
    assert planned(strategy, ranks).volume == pytest.approx((ranks - 1) * nbytes)


def test_units_without_a_root_move_three_times_the_parameters() -> None:
    """The volume of stage 3 in Rajbhandari et al., arXiv 1910.02054, section 7.2."""
    blocks = replace(MODEL, layers=MODEL.layers[1:5])
    assert planned(FSDP(), 4, model=blocks).volume == pytest.approx(3 * 3 * blocks.parameters)


def test_steps_follow_each_other() -> None:
    """The gathers of a step wait for the optimizer of the step before."""
    single, steps = planned(FSDP(), 3), planned(FSDP(), 3, 4)
    measures = measure(steps, train(steps))
    assert measures.steps == pytest.approx(np.full(4, train(single).makespan), rel=1e-9)


def test_all_wait_for_a_straggler() -> None:
    model = replace(MODEL, memory_bandwidth=np.inf)
    setting = Setting(
        machine("star").with_links(1e30, 0.0).build(4), 4, 1, Conditions(slower={2: 2.0})
    )
    expected = 2 * (MODEL.forward + MODEL.backward + MODEL.optimizer / 4)
    assert train(FSDP().plan(model, setting)).makespan == pytest.approx(expected, rel=1e-9)


def test_noise_and_a_worker_without_input() -> None:
    plain = train(planned(FSDP(), 4, 3)).makespan
    assert train(planned(FSDP(), 4, 3, sigma=0.3)).makespan > plain
    plan = planned(FSDP(), 4, 3, batches={1: 2})
    assert plan.samples.tolist() == [32, 32, 24]
    assert train(plan).makespan == pytest.approx(plain, rel=1e-9)


@each_case("strategy", OPTIONS)
def test_a_failure_goes_back_to_the_checkpoint(strategy: FSDP) -> None:
    """The step that fails ends with its first forward and a restart."""
    failure = Failure(1, 1, restart=5.0, timeout=0.5)
    plan = planned(strategy, 3, 2, failure=failure)
    assert plan.useful.tolist() == [1, 0, 1]
    lost = measure(plan, train(plan)).steps[1]
    assert 5.5 + MODEL.forward <= lost < 5.5 + train(planned(strategy, 3)).makespan


def test_memory_between_steps_is_a_share() -> None:
    """Parameters, gradients and two numbers of the optimizer for each parameter, of which each of
    four workers has a quarter."""
    model = replace(MODEL, layers=tuple(replace(each, activation=0.0) for each in MODEL.layers))
    plan = planned(FSDP(), 4, model=model)
    memory = footprint(plan, train(plan))
    held = memory.of(0)[1]
    assert held[0] == held[-1] == pytest.approx((1 + 1 + 2) * MODEL.parameters / 4)
    assert memory.redundant.min() >= -1e-6


def test_memory_of_units_that_are_gathered() -> None:
    """A worker holds its shares, the root, two units, and the gradients of a third one; without
    resharding all units but one, its gradients, and the quarter of these that a peer sends."""
    layers = (MODEL.layers[0], *(layer(f"layers.{k}.mlp", 480.0) for k in range(4)))
    model = replace(MODEL, layers=layers, memory_bandwidth=np.inf)
    unit, root = 4 * 480.0, 4 * 240.0
    for reshard, units in ((True, 3.0), (False, 4.25)):
        plan = FSDP(reshard=reshard).plan(model, Setting(topology(4, 2.0**20), 4))
        peaks = footprint(plan, train(plan)).peaks
        expected = model.parameters + root + units * unit
        assert peaks == pytest.approx(np.full(4, expected))


def test_collectives_as_a_whole_take_about_as_long() -> None:
    """Also where gathers and reductions of several streams meet on links."""
    for strategy in OPTIONS:
        for how in ({}, {"slower": {1: 1.5}}):
            conditions = Conditions(**how)  # type: ignore[arg-type]
            setting = Setting(topology(4, 1024.0), 4, 2, conditions)
            unwritten = strategy.plan(MODEL, replace(setting, priced_beyond=0.0))
            whole = strategy.plan(MODEL, setting)
            assert unwritten.is_priced
            assert train(unwritten).makespan == pytest.approx(train(whole).makespan, rel=5e-3)


def test_one_rank_stands_for_all() -> None:
    machine_of = machine("hgx_h100:nodes=16").build(128)
    setting = Setting(machine_of, 128, priced_beyond=0.0)
    model = replace(MODEL, layers=MODEL.layers[:3])
    folded = FSDP().plan(model, replace(setting, symmetric=True))
    assert len(folded.standing) < 128
    assert train(folded).makespan == train(FSDP().plan(model, setting)).makespan


@each_case(
    ("options", "words"),
    [
        ({"zero": 1}, "zero=1: fsdp has 2 and 3, and a plan has all stages"),
        ({"fsdp": 3}, "fsdp is 3: 1 or 2"),
        ({"wire": "int8"}, "wire=int8: one of model, fp64, "),
        ({"accumulate": 0}, "accumulate=0: 1 to 1024 batches"),
    ],
)
def test_mistakes(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        FSDP(**options)
