"""What a run learns, from gradients and batches to weights, against one device and by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.learning.learning_run import (
    LearningRun,
    learn,
    learn_steps,
    learner_of,
    without_disturbance,
)
from experiments.learning.task import LearningTask, Perceptron, Sampler, Samples, deal, digits
from experiments.training import strategy_options
from experiments.training.job import Job
from extras import needs
from grouped_cases import each_case
from refusals import refusal
from simulator.parallel.blocks import Block, BlockPart
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.pipelines import find as find_pipeline
from simulator.parallel.sharding import Sharding
from simulator.parallel.step import write
from simulator.parallel.step_work import Work
from simulator.training.conditions import Conditions, Failure
from simulator.training.measures import measure
from simulator.training.model import Layer, Model, Tensor
from topologies.catalogue import find
from topologies.errors import InputError
from topologies.shapes import star
from topologies.topology import Floats


def single(task: LearningTask, ranks: int, steps: int, batches: int = 1) -> Floats:
    """The weights of one device that sees the batches of all ranks in each step."""
    sampler, result = task.sampler(ranks), task.initial
    for step in range(steps):
        numbers = range(step * batches, (step + 1) * batches)
        gradients = [
            task.model.gradient(result, task.samples.of(sampler.rows(number).ravel()))
            for number in numbers
        ]
        result = result - task.rate * np.mean(gradients, axis=0)
    return result


MODEL = Model(
    "small",
    8,
    tuple(Layer(f"fc{k}", 1e-3, 2e-3, 1e3, (Tensor("weight", 1e6),)) for k in range(3)),
    optimizer=1e-4,
)
STAR = find("star").with_links(1e10, 1e-6)
TASK = LearningTask("mlp", hidden=5, batch=30, seed=3)
NOISE = Conditions(slower={1: 2.0}, sigma=0.3, seed=5)


def job(strategy: str, steps: int = 6, conditions: Conditions | None = None) -> Job:
    name = strategy.partition(":")[0]
    return Job(
        MODEL,
        name,
        strategy_options.find(strategy),
        STAR,
        steps=steps,
        conditions=conditions or Conditions(),
    )


def weights(run: Job, ranks: int, task: LearningTask = TASK) -> Floats:
    *_, last = learner_of(task, run, ranks).versions()
    return last.weights


@pytest.mark.parametrize(
    ("strategy", "ranks", "batches"),
    [
        *((name, 3, 1) for name in ("ssgd", "ddp", "dp", "fsdp", "local_sgd:every=1")),
        *((f"{name}:accumulate=2", 3, 2) for name in ("ddp", "fsdp")),
        *((name, 1, 1) for name in ("asgd", "asgd:server=sharded", "ssp", "local_sgd:every=3")),
    ],
)
@pytest.mark.parametrize("network", ["softmax", "mlp"])
def test_strategies_learn_as_one_device(
    network: str, strategy: str, ranks: int, batches: int
) -> None:
    task = replace(TASK, network=network)
    learnt = weights(job(strategy, conditions=NOISE if ranks > 1 else None), ranks, task)
    assert np.abs(learnt - single(task, ranks, 6, batches)).max() < 1e-10


def test_ssp_without_a_bound_ahead_is_one_device() -> None:
    """All read the same weights, and p updates move as far as one step of all."""
    *_, last = (
        version
        for version in learner_of(TASK, job("ssp:bound=0"), 4).versions()
        if version.updates == 20
    )
    assert np.abs(last.weights - single(TASK, 4, 5)).max() < 1e-10


def test_local_workers_meet_every_second_step() -> None:
    sampler, copies = TASK.sampler(3), [TASK.initial] * 3
    for step in range(4):
        for rank, rows in enumerate(sampler.rows(step)):
            gradient = TASK.model.gradient(copies[rank], TASK.samples.of(rows))
            copies[rank] = copies[rank] - TASK.rate * gradient
        if step % 2:
            copies = [np.mean(copies, axis=0)] * 3
    assert np.abs(weights(job("local_sgd:every=2", 4), 3) - copies[0]).max() < 1e-12


def test_a_stale_gradient_is_that_of_the_weights_that_were_read() -> None:
    """Rank 1 is slow: it reads the first weights, and its update comes after two of rank 0."""
    conditions = Conditions(slower={1: 2.5})
    run = learner_of(TASK, job("asgd", 3, conditions), 2)
    assert run.plan.updates is not None
    order = np.argsort(run.timeline.finish[run.plan.updates.served])
    assert run.plan.updates.worker[order][:3].tolist() == [0, 0, 1]
    sampler, half = TASK.sampler(2), TASK.rate / 2
    versions = [TASK.initial]
    for worker, number, read in ((0, 0, 0), (0, 1, 1), (1, 0, 0)):
        rows = sampler.rows(number)[worker]
        gradient = TASK.model.gradient(versions[read], TASK.samples.of(rows))
        versions.append(versions[-1] - half * gradient)
    learnt = [version.weights for version in run.versions()]
    assert np.abs(np.array(learnt[:3]) - np.array(versions[1:])).max() < 1e-12


@settings(max_examples=8)
@given(st.integers(0, 2), st.integers(2, 4), st.integers(0, 99))
def test_ssp_keeps_its_bound(bound: int, ranks: int, seed: int) -> None:
    run = learner_of(TASK, job(f"ssp:bound={bound}", 8, replace(NOISE, seed=seed)), ranks)
    staleness = measure(run.plan, run.timeline).staleness
    assert staleness.max() <= (2 * bound + 1) * (ranks - 1)


def test_a_failure_undoes_what_is_lost() -> None:
    conditions = Conditions(failure=Failure(1, step=4, restart=1.0, checkpoint=3))
    assert np.array_equal(weights(job("ddp", 6, conditions), 3), weights(job("ddp", 6), 3))
    late, calm = (row(job("ddp", 6, each)).row.seconds for each in (conditions, Conditions()))
    assert late > calm + 1


def row(run: Job, task: LearningTask = TASK) -> LearningRun:
    return learn(task, run, "a run", 3, "")


@pytest.mark.parametrize("strategy", ["ddp", "asgd", "local_sgd:every=2"])
def test_the_same_seed_learns_the_same(strategy: str) -> None:
    run = job(strategy, conditions=NOISE)
    assert row(run) == row(run)
    assert row(run).row.loss != row(run, replace(TASK, seed=4)).row.loss


def test_a_curve_begins_with_the_first_weights_and_ends_with_the_last() -> None:
    run = row(job("ddp"), replace(TASK, target=0.11))
    simulated = learner_of(TASK, job("ddp"), 3)
    assert run.row.seconds == simulated.timeline.finish[simulated.plan.ends[-1]].max()
    assert run.curve[0] == (0.0, *TASK.losses(TASK.initial))
    assert len(run.curve) == 7
    assert run.curve[-1].loss == run.row.loss < run.curve[0].loss
    assert run.row.updates == 18
    assert run.row.target_s in [point.seconds for point in run.curve]
    assert row(job("ddp")).row.target_s is None


def test_a_row_says_why_workers_wait() -> None:
    calm, late = (row(job("ddp", conditions=each)).row for each in (Conditions(), NOISE))
    assert late.cause == "slower peer"
    assert 0 < calm.idle < late.idle < 1
    alone = learn(TASK, job("ddp"), "a run", 1, "").row
    assert (alone.idle, alone.cause) == (0, "")


def test_weights_that_diverge_have_no_loss() -> None:
    result = row(job("asgd", 40), replace(TASK, rate=1e200)).row
    assert (result.loss, result.accuracy, result.target_s) == (np.inf, 0.0, None)


def test_a_first_step_of_its_own_is_refused() -> None:
    assert "startup=yes" in refusal(row, job("ddp:startup=yes"))


def test_workers_can_be_made_alike() -> None:
    run = replace(job("ddp", conditions=NOISE), slow_links={0: 0.5})
    assert without_disturbance(run) == job("ddp")


def test_a_plan_learns_as_one_device() -> None:
    """Two pipelines of two stages, whose gradients are reduced at the end of a step."""
    degrees = Degrees(dp=2, pp=2)
    parts = (BlockPart(1.0),)
    block = Block("layer", parts, parts, parts, (BlockPart(2.0),), parameters=5e8)
    times = GroupTimes(star(4, bandwidth=1e9, latency=0.0), degrees)
    pipeline = find_pipeline("gpipe").build(2, 4)
    step = write(Work(((block,),) * 2, pipeline, times, Sharding(2.0)))
    run = learn_steps(TASK, step, "dp=2,pp=2", 3)
    assert run.row.seconds == pytest.approx(3 * step.timeline.makespan)
    assert (run.row.strategy, run.row.ranks, run.row.updates) == ("dp=2,pp=2", 4, 12)
    loss, accuracy = TASK.losses(single(replace(TASK, batch=60), 2, 3))
    assert run.curve[-1] == pytest.approx((run.row.seconds, loss, accuracy))
    assert [point.seconds for point in run.curve] == [
        pytest.approx(number * step.timeline.makespan) for number in range(4)
    ]


@pytest.mark.parametrize("widths", [(5, 3), (5, 4, 3), (5, 4, 4, 3)])
def test_the_gradient_is_the_slope_of_the_loss(widths: tuple[int, ...]) -> None:
    network, rng = Perceptron(widths), np.random.default_rng(0)
    samples = Samples(rng.random((6, 5)), rng.integers(0, 3, 6))
    weights = network.initial(0) + rng.normal(size=network.size) / 10
    gradient = network.gradient(weights, samples)
    for place in range(network.size):
        change = np.zeros(network.size)
        change[place] = 1e-6
        rise = network.loss(weights + change, samples) - network.loss(weights - change, samples)
        assert gradient[place] == pytest.approx(rise / 2e-6, abs=1e-7)


def test_a_network_that_knows_nothing_guesses() -> None:
    network = Perceptron((64, 10))
    samples, _ = digits()
    assert network.loss(np.zeros(network.size), samples) == pytest.approx(np.log(10))


def test_every_fifth_picture_is_held_out() -> None:
    samples, held_out = digits()
    assert (len(samples), len(held_out)) == (1437, 360)
    assert 0 == samples.inputs.min() < samples.inputs.max() == 1


@each_case(
    ("options", "message"),
    [
        ({"network": "mpl"}, "no network 'mpl': did you mean 'mlp'"),
        ({"rate": 0.0}, "rate=0: above 0"),
        ({"rate": float("nan")}, "rate=nan: above 0"),
        ({"target": 95.0}, "target=95: a share, like 0.95"),
        ({"batch": 0}, "batch=0: 1 to 1024"),
        ({"epochs": 1001}, "epochs=1001: 1 to 1000"),
    ],
)
def test_a_task_refuses(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        LearningTask(**options)  # type: ignore[arg-type]


def test_rank_r_takes_each_sample_from_number_r_on() -> None:
    assert deal(np.arange(10), 4).tolist() == [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]


def test_few_samples_are_repeated() -> None:
    assert deal(np.array([7, 8]), 5).tolist() == [[7], [8], [7], [8], [7]]


@needs("torch", "torch")
@pytest.mark.parametrize(("samples", "ranks"), [(10, 4), (12, 4), (1437, 8), (2, 5), (5, 1)])
def test_ranks_have_the_samples_of_torch(samples: int, ranks: int) -> None:
    import torch
    from torch.utils.data import DistributedSampler

    order = torch.randperm(samples, generator=torch.Generator().manual_seed(3)).numpy()
    for rank, rows in enumerate(deal(order, ranks)):
        sampler = DistributedSampler(range(samples), ranks, rank, seed=3)
        assert list(sampler) == rows.tolist()


@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 7), st.integers(0, 3))
def test_an_epoch_has_every_sample(samples: int, ranks: int, batch: int, epoch: int) -> None:
    sampler = Sampler(samples, ranks, batch, seed=1)
    numbers = range(epoch * sampler.batches, (epoch + 1) * sampler.batches)
    rows = np.concatenate([sampler.rows(number) for number in numbers], axis=1)
    assert set(rows.ravel().tolist()) == set(range(samples))
    assert rows.size - samples < ranks


def test_epochs_and_seeds_have_their_orders() -> None:
    sampler, other = Sampler(40, 2, 20, seed=1), Sampler(40, 2, 20, seed=2)
    assert sampler.rows(0).tolist() == Sampler(40, 2, 20, seed=1).rows(0).tolist()
    assert sampler.rows(0).tolist() != sampler.rows(1).tolist()
    assert sampler.rows(0).tolist() != other.rows(0).tolist()
