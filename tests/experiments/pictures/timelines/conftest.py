"""Small training runs and collectives, simulated."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from simulator.collectives import find as find_algorithm
from simulator.engines import run as by_rules
from simulator.engines import simulate
from simulator.schedules.timeline import Sharing, Timeline
from simulator.training import Strategy
from simulator.training.conditions import Conditions
from simulator.training.ddp import DDP
from simulator.training.model import Layer, Model, Tensor
from simulator.training.plan import Plan, Setting
from simulator.training.plan_simulation import train
from topologies.catalogue import find

Run = Callable[..., tuple[Plan, Timeline]]


def model(layers: int, name: str, channels: int) -> Model:
    """Layers of 1 ms forward and 2 ms backward, with 1000 bytes of parameters each."""
    stack = tuple(
        Layer(f"{name}{k}", 1e-3, 2e-3, tensors=(Tensor("w", 1000.0),), channels=channels)
        for k in range(layers)
    )
    return Model("model", 8, stack, optimizer=5e-4)


@pytest.fixture(scope="session")
def run() -> Run:
    """Plans and simulates; by default two layers in two buckets on four ranks behind a switch."""

    def made(
        strategy: Strategy | None = None,
        ranks: int = 4,
        *,
        layers: int = 2,
        steps: int = 1,
        shape: str = "star",
        sharing: Sharing = "fifo",
        name: str = "fc",
        channels: int = 0,
        bandwidth: float = 1e6,
        conditions: Conditions | None = None,
    ) -> tuple[Plan, Timeline]:
        chosen = strategy or DDP(bucket=1000.0)
        topology = (
            find(shape)
            .with_links(bandwidth=bandwidth, latency=1e-6)
            .build(max(ranks, 2), chosen.servers(ranks))
        )
        plan = chosen.plan(
            model(layers, name, channels),
            Setting(topology, ranks, steps, conditions or Conditions()),
        )
        return plan, train(plan, partial(by_rules, sharing=sharing))

    return made


@pytest.fixture(scope="session")
def collective() -> Callable[..., Timeline]:
    """Simulates a collective of 1 MB on links of 1 GB/s."""

    def made(
        name: str = "ring",
        ranks: int = 4,
        reduction: float = 0.0,
        shape: str = "star",
        sharing: Sharing = "fifo",
    ) -> Timeline:
        algorithm = find_algorithm(name)
        links = find(shape).with_links(bandwidth=1e9, latency=1e-6)
        topology = replace(links, reduction=reduction).build(ranks, algorithm.servers)
        return simulate(algorithm.build(ranks, 1e6), topology, sharing=sharing)

    return made
