"""The memory of training; that of priced runs is that of all transfers, or an upper bound."""

from dataclasses import replace

import numpy as np
import pytest

from ddp_steps import GRADIENTS, MODEL, ONE_BUCKET, quiet, ran, star
from grouped_cases import each_case
from simulator.analysis.memory import MemoryTrace
from simulator.engines import simulate
from simulator.training import find as find_strategy
from simulator.training.asgd import ASGD
from simulator.training.conditions import Conditions
from simulator.training.ddp import DDP
from simulator.training.footprint import footprint
from simulator.training.model import Layer, Model, Tensor
from simulator.training.plan import Setting
from simulator.training.plan_simulation import train
from simulator.training.strategy import SERVERS
from topologies.catalogue import find

THREE_LAYERS = Model(
    "m",
    1,
    tuple(Layer(f"l{k}", 1.0, 2.0, 100.0 * (k + 1), (Tensor("w", 1000.0),)) for k in range(3)),
    state=2.0,
)
REPLICA, GRADIENT_BYTES, ACTIVATIONS = 3000.0 * 3, 3000.0, 600.0


def usage_and_makespan(ranks: int, bandwidth: float = 1e18) -> tuple[MemoryTrace, float]:
    topology = find("star").with_links(bandwidth=bandwidth, latency=0.0).build(max(2, ranks))
    plan = DDP(algo="tree", bucket=1e9, gradient_as_bucket_view=True).plan(
        THREE_LAYERS, Setting(topology, ranks)
    )
    timeline = simulate(plan.schedule, plan.topology)
    return footprint(plan, timeline), timeline.makespan


def test_a_worker_holds_parameters_state_gradients_and_activations() -> None:
    usage, makespan = usage_and_makespan(1)
    assert usage.peak == REPLICA + GRADIENT_BYTES + ACTIVATIONS
    at = [
        usage.resident[np.searchsorted(usage.times, t, side="right") - 1]
        for t in (0.5, 1.5, 2.5, 3.5, 5.5, 7.5, makespan)
    ]
    assert np.array(at) - REPLICA - GRADIENT_BYTES == pytest.approx([0, 100, 300, 600, 300, 100, 0])


def test_replicas_are_redundant_and_activations_are_not() -> None:
    usage, _ = usage_and_makespan(4)
    nothing_yet = 4 * GRADIENT_BYTES
    assert usage.redundant[0] == 3 * REPLICA + nothing_yet
    assert usage.redundant[-1] == 3 * (REPLICA + GRADIENT_BYTES)
    before_backward = np.searchsorted(usage.times, 3.0, side="right") - 1
    assert usage.resident[before_backward] == 4 * (REPLICA + GRADIENT_BYTES + ACTIVATIONS)
    assert usage.redundant[before_backward] == 3 * REPLICA + nothing_yet


def test_an_inbox_counts_while_gradients_are_on_their_way() -> None:
    usage, _ = usage_and_makespan(2, bandwidth=1e3)
    assert usage.peak == REPLICA + max(GRADIENT_BYTES + ACTIVATIONS, 2 * GRADIENT_BYTES)


def test_gradients_are_held_twice_unless_they_are_views_of_buckets() -> None:
    """As torch.nn.parallel.DistributedDataParallel does by default; the copies are redundant."""
    topology = find("star").with_links(bandwidth=1e18, latency=0.0).build(4)
    assert not DDP().gradient_as_bucket_view
    usages = []
    for view in (False, True):
        plan = DDP(algo="tree", bucket=1e9, gradient_as_bucket_view=view).plan(
            THREE_LAYERS, Setting(topology, 4)
        )
        usages.append(footprint(plan, simulate(plan.schedule, plan.topology)))
    assert (usages[0].peaks - usages[1].peaks).tolist() == [GRADIENT_BYTES] * 4
    assert usages[0].redundant.max() - usages[1].redundant.max() == 4 * GRADIENT_BYTES


@each_case("server", SERVERS)
def test_workers_hold_buffers_and_servers_the_optimizer_state(server: str) -> None:
    model = replace(
        THREE_LAYERS,
        layers=tuple(replace(layer, buffers=10.0) for layer in THREE_LAYERS.layers),
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


SLOW_RANK = Conditions(slower={3: 1.5})


@each_case("conditions", [Conditions(), SLOW_RANK])
@each_case("steps", [1, 3])
@each_case("bucket", [0.0, 8192.0])
@each_case("algo", ["ring", "rings", "tree", "naive", "halving_doubling", "parameter_server"])
def test_peaks_are_those_of_all_transfers_of_rings_and_else_bounds(
    algo: str, bucket: float, steps: int, conditions: Conditions
) -> None:
    strategy = quiet(bucket=bucket, algo=algo)
    setting = Setting(star(8, servers=strategy.servers(8)), 8, steps, conditions)
    plans = [strategy.plan(MODEL, replace(setting, priced_beyond=beyond)) for beyond in (np.inf, 0)]
    written, unwritten = (footprint(plan, train(plan)) for plan in plans)
    for name in ("peaks", "peak_redundant"):
        exact, most = np.array(getattr(written, name)), np.array(getattr(unwritten, name))
        assert np.all(most >= exact * (1 - 1e-9))
        if algo in ("ring", "rings") and conditions.alike:
            assert most == pytest.approx(exact, rel=1e-9)


def test_one_rank_stands_for_all_in_a_priced_run() -> None:
    topology = find("hgx_h100:nodes=2").build(16)
    setting = Setting(topology, 16, symmetric=True)
    plans = [
        quiet(bucket=8192.0).plan(MODEL, replace(setting, priced_beyond=beyond))
        for beyond in (np.inf, 0)
    ]
    assert plans[1].is_priced
    written, unwritten = (footprint(plan, train(plan)) for plan in plans)
    assert unwritten.peaks == pytest.approx(written.peaks, rel=1e-9)
    assert unwritten.peak_redundant == pytest.approx(written.peak_redundant, rel=1e-9)


@each_case("name", ["fsdp", "ddp"])
def test_shared_and_used_buffers_count(name: str) -> None:
    topology = find("hgx_h100:nodes=2").build(16)
    setting = Setting(topology, 16, steps=2, conditions=SLOW_RANK)
    plans = [
        find_strategy(name)().plan(MODEL, replace(setting, priced_beyond=beyond))
        for beyond in (np.inf, 0)
    ]
    assert plans[1].is_priced
    written, unwritten = (footprint(plan, train(plan)) for plan in plans)
    assert np.all(unwritten.peaks >= written.peaks * (1 - 1e-9))
    # At most all that a collective adds up waits for a rank that enters last.
    assert np.all(unwritten.peaks <= written.peaks + GRADIENTS)
    assert 1 <= unwritten.peak_redundant / written.peak_redundant * (1 + 1e-9) < 1.25


@pytest.mark.parametrize("compress", [False, True])
def test_every_rank_holds_parameters_state_and_buffers_and_all_but_the_first_needlessly(
    compress: bool,
) -> None:
    plain, more = (
        footprint(*ran(quiet(compress=compress), 3, model=model)[:2])
        for model in (replace(MODEL, layers=bare(), state=0.0), replace(MODEL, state=2.0))
    )
    extra = 4 * 16.0 + 2 * GRADIENTS
    assert more.resident[0] - plain.resident[0] == pytest.approx(3 * extra)
    assert more.redundant[0] - plain.redundant[0] == pytest.approx(2 * extra)


def bare() -> tuple[Layer, ...]:
    """The layers without running statistics."""
    return tuple(replace(layer, buffers=0.0) for layer in MODEL.layers)


def test_gradients_that_are_compressed_differ_on_every_rank() -> None:
    halved = footprint(*ran(quiet(bucket=ONE_BUCKET, compress=True), 3)[:2])
    whole = footprint(*ran(quiet(bucket=ONE_BUCKET), 3)[:2])
    assert whole.redundant[-1] - halved.redundant[-1] == pytest.approx(2 * GRADIENTS / 2)
