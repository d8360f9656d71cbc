"""Gradients of the small network."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.learning.digits import Samples, digits
from experiments.learning.network import Perceptron
from experiments.learning.task import LearningTask
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
