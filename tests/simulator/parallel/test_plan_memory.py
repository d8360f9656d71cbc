"""The memory of the ranks of a plan."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from law_cases import tries
from refusals import refusal
from simulator.parallel.blocks import Block
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.pipeline_times import peak_activations
from simulator.parallel.pipelines import find
from simulator.parallel.plan_memory import State, held_between_steps, memory, stages_of_zero
from simulator.parallel.sharding import Sharding
from simulator.parallel.step_work import Work
from simulator.steps.kinds import BACKWARD, FORWARD
from simulator.training.buckets import BucketRules
from topologies.shapes import star

ORDERS = ("gpipe", "1f1b", "interleaved:chunks=2", "zb_h1", "zb_h2", "zb_v", "dual_pipe")


@cache
def times(degrees: Degrees) -> GroupTimes:
    return GroupTimes(star(max(2, degrees.ranks), bandwidth=1e9), degrees)


def block(name: str = "layer", elements: float = 1.0, **sizes: float) -> Block:
    return Block(name, (), (), (), (), parameters=elements, **sizes)  # type: ignore[arg-type]


def work(
    *blocks: Block,
    order: str = "1f1b",
    micro: int = 1,
    degrees: Degrees = Degrees(),  # noqa: B008
    **sharding: Any,
) -> Work:
    """The same blocks in each stage."""
    pipeline = find(order).build(devices=degrees.pp, micro_batches=micro)
    sharing = Sharding(**{"nbytes": 2.0, **sharding})
    return Work((blocks,) * pipeline.stages, pipeline, times(degrees), sharing)


@each_case(("zero", "nbytes"), [(0, 120e9), (1, 31.4e9), (2, 16.6e9), (3, 1.88e9)])
def test_memory_between_steps_is_that_of_zero(zero: int, nbytes: float) -> None:
    """ZeRO (arXiv 1910.02054), figure 1: 7.5 billion parameters, 64 ranks."""
    assert 7.5e9 * sum(State().shared(zero, 64)) == pytest.approx(nbytes, rel=0.003)
    many = work(block(elements=7.5e9), degrees=Degrees(dp=64), zero=zero)
    assert memory(many).peaks[:, :3].sum() == pytest.approx(nbytes, rel=0.003)


def test_buckets_of_ddp_hold_gradients_once_more_unless_these_are_views() -> None:
    layers, two = (block(elements=3.0), block(elements=4.0)), Degrees(dp=2)
    usual, copied, views = (
        work(*layers, degrees=two, ddp=rules)
        for rules in (None, BucketRules(1e9, views=False), BucketRules(1e9, views=True))
    )
    assert memory(usual).peak == memory(views).peak == 7 * 16
    assert memory(copied).peak == 7 * 16 + 7 * 2
    assert [stage["held"] for stage in stages_of_zero(copied, lambda _: State())][:2] == [
        7 * 18,
        7 * (4 + 12 / 2),
    ]


@each_case("zero", [0, 1, 2, 3])
def test_frozen_parameters_have_no_gradients_and_no_optimizer(zero: int) -> None:
    """Two ranks share them from stage 3 of ZeRO on, and gather them like others."""
    two, shared = Degrees(dp=2), 2 if zero == 3 else 1
    usual, made = (
        work(block(elements=4.0, frozen=frozen), degrees=two, zero=zero) for frozen in (0.0, 6.0)
    )
    held, least = (held_between_steps(each, State(), 0).sum() for each in (made, usual))
    assert held - least == 6 * 2 / shared
    gathers = [call.nbytes for call in made.action(0, FORWARD).calls]
    assert gathers == ([10 * 2] if zero == 3 else [])
    reduced = [
        call.nbytes for call in made.action(0, BACKWARD).calls if "reduce" in call.collective
    ]
    assert reduced == ([4 * 2] if zero >= 2 else [])


@given(st.integers(0, 3), st.integers(1, 9), st.integers(1, 64))
def test_stages_of_zero_hold_what_their_formulas_say(zero: int, elements: int, ranks: int) -> None:
    k = 12
    formula = (4 + k, 4 + k / ranks, 2 + (2 + k) / ranks, (4 + k) / ranks)[zero]
    assert sum(State().shared(zero, ranks)) * elements == pytest.approx(formula * elements)


@pytest.mark.parametrize(
    ("state", "rest", "shared"),
    [(State(2, 2, 16), 4, 16), (State(2, 4, 12), 6, 12), (State(4, 4, 8), 8, 8)],
)
def test_the_distributed_optimizer_of_megatron_is_stage_1(
    state: State, rest: float, shared: float
) -> None:
    """Megatron-LM, docs/user-guide/features/dist_optimizer.md: bytes of a parameter in fp16, in
    bf16 with gradients in fp32, and in fp32."""
    assert sum(state.shared(0, 8)) == rest + shared
    assert sum(state.shared(1, 8)) == rest + shared / 8


def test_redundancy_falls_with_the_stage_and_traffic_grows_at_the_third() -> None:
    plan = work(block(elements=8.0), degrees=Degrees(dp=8))
    rows = stages_of_zero(plan, lambda _: State())
    assert [row["redundant"] for row in rows] == [8 * 14.0, 8 * 14 - 7 * 12, 7 * 2.0, 0.0]
    assert [row["sent"] for row in rows] == [28.0, 28.0, 28.0, 42.0]
    again = stages_of_zero(
        work(block(elements=8.0), degrees=Degrees(dp=8), micro=3), lambda _: State()
    )
    assert [row["sent"] for row in again] == [28.0, 28.0, 7 * (3 * 2.0 + 2), 3 * 42.0]


@tries(7, 30)
@given(st.sampled_from(ORDERS), st.sampled_from((2, 4)), st.integers(1, 4), st.integers(0, 4))
def test_activations_are_those_of_the_chunks_in_flight(
    name: str, devices: int, kept: int, later: int
) -> None:
    plan = work(
        block(kept=float(kept), kept_for_weights=float(min(kept, later))),
        order=name,
        micro=2 * devices,
        degrees=Degrees(pp=devices),
    )
    result = memory(plan)
    sizes = np.array([kept, min(kept, later)])
    chunks = peak_activations(plan.pipeline, *sizes.astype(float)) @ sizes
    activations = result.peaks[:, 3]
    # While the backward for inputs runs, what it leaves grows.
    assert (activations >= chunks - 1e-9).all()
    assert (activations <= chunks + sizes[1] + (name == "dual_pipe") * kept).all()
    if not later and name != "dual_pipe":
        assert activations.tolist() == chunks.tolist()


def test_the_backward_of_a_block_needs_what_is_computed_again() -> None:
    stage = [block(kept=1.0, working=6.0), block(kept=1.0, working=3.0), block("head", kept=4.0)]
    state = {"parameters": 6.0, "gradients": 6.0, "optimizer": 36.0}
    result = memory(work(*stage))
    assert result.parts(0) == {**state, "activations": 1.0, "again": 6.0}
    assert result.held.sum(axis=1).tolist() == [48 + 2 + 4, 48 + 1 + 6]


def test_the_gradient_of_the_logits_is_free_before_a_layer_runs() -> None:
    stage = [block(kept=1.0, working=3.0), block("head", kept=4.0, working=5.0)]
    forward, backward = memory(work(*stage)).held[:, 3:6].tolist()
    assert forward == [1.0, 4.0, 0.0]
    assert backward == [1.0, 4.0 + 5.0, 0.0]
    layer = memory(work(block(kept=1.0, working=30.0), stage[1]))
    assert layer.held[1, 3:6].tolist() == [1.0, 0.0, 30.0]
    assert layer.allocated.tolist() == [2 * 16 + 31]
    assert layer.moving.tolist() == [31]


def test_two_units_and_the_root_are_gathered() -> None:
    layers = [block(elements=1.0, kept=10.0) for _ in range(4)]
    plan = work(
        block("embedding", 3.0),
        *layers,
        block("head", 2.0),
        degrees=Degrees(dp=4),
        nbytes=4.0,
        zero=3,
    )
    result = memory(plan)
    forward, backward = result.held
    names = dict(zip(("gathered", "unsharded", "reducing"), range(6, 9), strict=True))
    # The forward of the last layer gathers no unit ahead.
    assert forward[names["gathered"]] == 2 * (5 + 1)
    # The backward of the last layer gathers a unit ahead; it and the head have gradients.
    assert backward[names["gathered"]] == 2 * (5 + 2)
    assert backward[names["unsharded"]] == 2 * (2 + 1)
    assert backward[names["reducing"]] == 0.0
    assert result.peaks[:, :3].sum() == 9 * 16 / 4


def test_gradients_that_wait_for_the_last_micro_batch_are_whole() -> None:
    layers = [block(elements=1.0) for _ in range(4)]
    sizes = [
        memory(work(*layers, micro=2, degrees=Degrees(dp=4), nbytes=4.0, zero=2, sync=sync)).peak
        for sync in (True, False)
    ]
    assert sizes[1] - sizes[0] == 4 * 4.0


def test_parameters_that_stay_gathered_are_whole() -> None:
    layers = [block(elements=1.0) for _ in range(8)]
    gathered = {
        reshard: memory(
            work(*layers, degrees=Degrees(dp=8), nbytes=4.0, zero=3, reshard=reshard)
        ).parts(0)["gathered"]
        for reshard in (True, False, 4)
    }
    assert gathered == {True: 4.0, False: 16.0, 4: 4.0 + 16 / 4}


def test_overheads_are_stated() -> None:
    plan = work(block(kept=8.0), degrees=Degrees(dp=2, tp=2))
    bare = memory(plan)
    more = memory(plan, State(), communicator=100.0, context=50.0, fragmentation=1.25)
    assert more.peak - bare.peak == 2 * 100 + 50 + 2
    assert more.parts(0)["fragmentation"] == 2.0
    assert "fragmentation is 0.5: 1 or more" in refusal(memory, plan, State(), fragmentation=0.5)
