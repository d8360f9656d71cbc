"""Sharded weights and pipelines learn what one device learns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.learning.along_steps import ParallelLearner
from experiments.learning.learning_run import learn_steps
from experiments.learning.replicas import Shards
from experiments.learning.task import Task
from grouped_cases import each_case
from simulator.parallel.blocks import Block, Part
from simulator.parallel.degrees import Degrees
from simulator.parallel.gradients import Gradients
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.pipelines import find
from simulator.parallel.step import write
from simulator.parallel.step_work import Work
from single_devices import single
from topologies.shapes import star

TASK = Task("mlp", hidden=5, batch=30, seed=3)


@each_case("sharded", [False, True])
@each_case("order", ["gpipe", "zb_h1"])
@each_case(
    ("ranks", "devices", "micro_batches"), [(1, 1, 1), (3, 1, 1), (3, 1, 4), (3, 2, 4), (1, 2, 4)]
)
def test_a_parallel_plan_is_one_device(
    sharded: bool, order: str, ranks: int, devices: int, micro_batches: int
) -> None:
    pipeline = find(order).build(devices, micro_batches)
    *before, last = ParallelLearner(
        TASK, TASK.sampler(ranks), devices, pipeline, sharded, 5, 0.5
    ).versions()
    assert np.abs(last.weights - single(TASK, ranks, 5)).max() < 1e-10
    assert [version.seconds for version in (*before, last)] == [0.5, 1.0, 1.5, 2.0, 2.5]
    assert [version.updates for version in before] == [ranks * devices * k for k in range(1, 5)]


def test_a_rank_keeps_a_shard_of_each_layer() -> None:
    shards = Shards(TASK.model, TASK.initial, 4)
    for layer in zip(*map(TASK.model.matrices, shards.shards != 0), strict=True):
        owners = np.sum(layer, axis=0)
        assert owners.max() == 1
        kept = [int(part.sum()) for part in layer]
        assert max(kept) <= -(-layer[0].size // 4)
    assert np.array_equal(shards.whole(), np.tile(TASK.initial, (4, 1)))


@pytest.mark.parametrize("zero", [0, 1])
def test_a_simulated_step_says_when_and_in_which_order(zero: int) -> None:
    """Two pipelines of two stages, whose gradients are reduced at the end of a step."""
    degrees = Degrees(dp=2, pp=2)
    parts = (Part(1.0),)
    block = Block("layer", parts, parts, parts, (Part(2.0),), parameters=5e8)
    times = GroupTimes(star(4, bandwidth=1e9, latency=0.0), degrees)
    pipeline = find("gpipe").build(2, 4)
    step = write(Work(((block,),) * 2, pipeline, times, Gradients(2.0, zero=zero)))
    run = learn_steps(TASK, step, "dp=2,pp=2", 3)
    assert run.row.seconds == pytest.approx(3 * step.timeline.makespan)
    assert (run.row.strategy, run.row.ranks, run.row.updates) == ("dp=2,pp=2", 4, 12)
    loss, accuracy = TASK.losses(single(replace(TASK, batch=60), 2, 3))
    assert run.curve[-1] == pytest.approx((run.row.seconds, loss, accuracy))
    assert [point.seconds for point in run.curve] == [
        pytest.approx(number * step.timeline.makespan) for number in range(4)
    ]
