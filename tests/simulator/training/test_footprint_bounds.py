"""The memory of priced runs: that of all transfers, or an upper bound."""

from dataclasses import replace

import numpy as np
import pytest

from ddp_steps import GRADIENTS, MODEL, ONE_BUCKET, quiet, ran, star
from grouped_cases import each_case
from simulator.training import find as find_strategy
from simulator.training.conditions import Conditions
from simulator.training.footprint import footprint
from simulator.training.model import Layer
from simulator.training.plan import Setting
from simulator.training.plan_simulation import train
from topologies.catalogue import find

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
