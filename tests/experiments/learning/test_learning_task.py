"""Gradients of the small network, and the batches of torch's DistributedSampler."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.learning.task import LearningTask, Perceptron, Sampler, Samples, deal, digits
from extras import needs
from grouped_cases import each_case
from topologies.errors import InputError


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
