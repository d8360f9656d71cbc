"""The memory of training."""

from dataclasses import replace

import numpy as np
import pytest

from grouped_cases import each_case
from simulator.analysis.memory import MemoryTrace
from simulator.engines import simulate
from simulator.training.asgd import ASGD
from simulator.training.ddp import DDP
from simulator.training.footprint import footprint
from simulator.training.model import Layer, Model, Tensor
from simulator.training.plan import Setting
from simulator.training.strategy import SERVERS
from topologies.catalogue import find

MODEL = Model(
    "m",
    1,
    tuple(Layer(f"l{k}", 1.0, 2.0, 100.0 * (k + 1), (Tensor("w", 1000.0),)) for k in range(3)),
    state=2.0,
)
REPLICA, GRADIENTS, ACTIVATIONS = 3000.0 * 3, 3000.0, 600.0


def usage_and_makespan(ranks: int, bandwidth: float = 1e18) -> tuple[MemoryTrace, float]:
    topology = find("star").with_links(bandwidth=bandwidth, latency=0.0).build(max(2, ranks))
    plan = DDP(algo="tree", bucket=1e9, gradient_as_bucket_view=True).plan(
        MODEL, Setting(topology, ranks)
    )
    timeline = simulate(plan.schedule, plan.topology)
    return footprint(plan, timeline), timeline.makespan


def test_a_worker_holds_parameters_state_gradients_and_activations() -> None:
    usage, makespan = usage_and_makespan(1)
    assert usage.peak == REPLICA + GRADIENTS + ACTIVATIONS
    at = [
        usage.resident[np.searchsorted(usage.times, t, side="right") - 1]
        for t in (0.5, 1.5, 2.5, 3.5, 5.5, 7.5, makespan)
    ]
    assert np.array(at) - REPLICA - GRADIENTS == pytest.approx([0, 100, 300, 600, 300, 100, 0])


def test_replicas_are_redundant_and_activations_are_not() -> None:
    usage, _ = usage_and_makespan(4)
    nothing_yet = 4 * GRADIENTS
    assert usage.redundant[0] == 3 * REPLICA + nothing_yet
    assert usage.redundant[-1] == 3 * (REPLICA + GRADIENTS)
    before_backward = np.searchsorted(usage.times, 3.0, side="right") - 1
    assert usage.resident[before_backward] == 4 * (REPLICA + GRADIENTS + ACTIVATIONS)
    assert usage.redundant[before_backward] == 3 * REPLICA + nothing_yet


def test_an_inbox_counts_while_gradients_are_on_their_way() -> None:
    usage, _ = usage_and_makespan(2, bandwidth=1e3)
    assert usage.peak == REPLICA + max(GRADIENTS + ACTIVATIONS, 2 * GRADIENTS)


def test_gradients_are_held_twice_unless_they_are_views_of_buckets() -> None:
    """As torch.nn.parallel.DistributedDataParallel does by default; the copies are redundant."""
    topology = find("star").with_links(bandwidth=1e18, latency=0.0).build(4)
    assert not DDP().gradient_as_bucket_view
    usages = []
    for view in (False, True):
        plan = DDP(algo="tree", bucket=1e9, gradient_as_bucket_view=view).plan(
            MODEL, Setting(topology, 4)
        )
        usages.append(footprint(plan, simulate(plan.schedule, plan.topology)))
    assert (usages[0].peaks - usages[1].peaks).tolist() == [GRADIENTS] * 4
    assert usages[0].redundant.max() - usages[1].redundant.max() == 4 * GRADIENTS


@each_case("server", SERVERS)
def test_workers_hold_buffers_and_servers_the_optimizer_state(server: str) -> None:
    model = replace(
        MODEL,
        layers=tuple(replace(layer, buffers=10.0) for layer in MODEL.layers),
        memory_bandwidth=1e9,
    )
    strategy = ASGD(server=server)
    topology = find("star").with_links(bandwidth=1e18, latency=0.0).build(2, strategy.servers(2))
    holdings = strategy.plan(model, Setting(topology, 2)).holdings
    state = {
        "gpu": [0, 0, 6000],
        "cpu": [0, 0, 6000],
        "worker": [6000, 0],
        "sharded": [3000, 3000],
    }[server]
    assert holdings.ranks.tolist() == [
        nbytes + 30 * (rank < 2) for rank, nbytes in enumerate(state)
    ]
    assert holdings.distinct == 6000 + 30
