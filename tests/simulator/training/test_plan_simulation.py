"""Computations that communication slows down."""

import numpy as np
import pytest

from simulator.training.ddp import DDP
from simulator.training.measures import measure
from simulator.training.model import Layer, Model, Tensor
from simulator.training.plan import Setting
from simulator.training.plan_simulation import train
from topologies.catalogue import find
from topologies.errors import InputError

MODEL = Model(
    "m", 1, tuple(Layer(f"l{k}", 1.0, 2.0, tensors=(Tensor("w", 1024.0),)) for k in range(3))
)


def steps(slowdown: float, bandwidth: float = 1024.0) -> np.ndarray:
    topology = find("star").with_links(bandwidth=bandwidth, latency=0.0).build(2)
    plan = DDP(bucket=0.0, slowdown=slowdown).plan(MODEL, Setting(topology, 2))
    return measure(plan, train(plan)).computing


def test_a_computation_is_slower_while_its_rank_communicates() -> None:
    """Backwards of 2 s; buckets of 1 s from 5 s on: half of the second and of the third backward
    goes half as fast... as long as the bucket is on its way: 1 s in which 1 / 1.5 s of work is
    done."""
    lost = 1 - 1 / 1.5
    assert steps(0.5).tolist() == pytest.approx([9 + 2 * lost] * 2)


def test_without_communication_nothing_is_slower() -> None:
    assert steps(0.5, bandwidth=1e18).tolist() == pytest.approx([9.0] * 2)


def test_the_lengths_are_those_of_the_timeline_that_they_make() -> None:
    topology = find("star").with_links(bandwidth=700.0, latency=1e-3).build(4)
    plan = DDP(bucket=0.0, slowdown=0.3).plan(MODEL, Setting(topology, 4, steps=2))
    timeline = train(plan)
    measures = measure(plan, timeline)
    assert measures.computing == pytest.approx(2 * 9 + measures.hidden * (1 - 1 / 1.3))


@pytest.mark.parametrize("slowdown", [-0.1, float("nan"), 1000.0])
def test_a_slowdown_is_a_share(slowdown: float) -> None:
    with pytest.raises(InputError, match="slowdown"):
        DDP(slowdown=slowdown)
