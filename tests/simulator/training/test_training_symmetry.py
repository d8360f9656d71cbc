"""Steps written for the ranks that stand for all: the same numbers as of all ranks."""

from dataclasses import replace

import numpy as np
import pytest

from ddp_steps import MODEL, star
from grouped_cases import each_case
from simulator.analysis.critical_path import critical_path, parts
from simulator.training import communicator
from simulator.training.conditions import Conditions
from simulator.training.ddp import DDP
from simulator.training.footprint import footprint
from simulator.training.local_sgd import LocalSGD
from simulator.training.measures import measure
from simulator.training.model import Model
from simulator.training.plan import Plan, Setting
from simulator.training.plan_simulation import train
from simulator.training.strategy import Strategy
from topologies.catalogue import find
from topologies.topology import Topology

ALIKE: Model = replace(
    MODEL, layers=tuple(replace(layer, buffers=0.0, channels=0) for layer in MODEL.layers)
)


@pytest.fixture(autouse=True)
def _small_schedules_are_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(communicator, "SIMULATED_OPERATIONS", 0)


def nodes(ranks: int) -> Topology:
    """Nodes of two ranks behind a switch."""
    return find("nodes:per_node=2").build(ranks)


def planned(strategy: Strategy, setting: Setting) -> tuple[Plan, Plan, Plan]:
    """With all ranks, with those that stand for all, and these without transfers."""
    folded = replace(setting, symmetric=True)
    settings = setting, folded, replace(folded, priced_beyond=0)
    whole, written, unwritten = (strategy.plan(ALIKE, each) for each in settings)
    return whole, written, unwritten


@pytest.mark.parametrize("machine", [star, nodes])
@pytest.mark.parametrize(
    "strategy",
    [
        DDP(algo="ring", bucket=0.0),
        DDP(algo="rings", bucket=0.0, streams=2),
        DDP(algo="naive", bucket=0.0, overlap=False),
        DDP(algo="halving_doubling", bucket=2.0 * 4096),
        DDP(algo="two_level", bucket=0.0, launch=0.01, compress=True),
        LocalSGD(every=2),
    ],
    ids=str,
)
def test_results_are_those_of_all_ranks(strategy: Strategy, machine: object) -> None:
    topology = machine(8)  # type: ignore[operator]
    whole, written, unwritten = planned(strategy, Setting(topology, 8, steps=2))
    expected = train(whole)
    before, near = measure(whole, expected), 1e-12 * expected.makespan
    timeline = train(written)
    after, places = measure(written, timeline), written.place_of
    assert np.array_equal(after.steps, before.steps)
    for name in ("computing", "exposed", "hidden"):
        values = getattr(after, name)[places]
        assert values == pytest.approx(getattr(before, name), rel=0, abs=near), name
    assert after.bubbles[places] == pytest.approx(before.bubbles, rel=0, abs=near)
    path = critical_path(timeline, after.window.last)
    of_all = parts(critical_path(expected, before.window.last))
    assert parts(path) == pytest.approx(of_all, rel=0, abs=near)
    assert written.volume == unwritten.volume == pytest.approx(whole.volume)
    as_a_whole = measure(unwritten, train(unwritten))
    assert as_a_whole.steps == pytest.approx(before.steps, rel=1e-3)
    memory, of_whole = footprint(written, train(written)), footprint(whole, expected)
    assert memory.peaks == pytest.approx(of_whole.peaks)
    assert memory.peak_redundant == pytest.approx(of_whole.peak_redundant)


def test_one_rank_of_a_star_stands_for_all() -> None:
    _, written, unwritten = planned(DDP(algo="ring"), Setting(star(8), 8))
    assert written.standing.tolist() == unwritten.standing.tolist() == [0]
    assert len(written.schedule) < 100


@each_case(
    ("strategy", "conditions"),
    [
        (DDP(algo="ring"), Conditions(slower={1: 2.0})),
        (DDP(algo="ring"), Conditions(sigma=0.1)),
        (DDP(algo="ring", prepare=0.1), Conditions()),
        (DDP(algo="ring", metric=True), Conditions()),
        (DDP(algo="tree"), Conditions()),
    ],
)
def test_where_ranks_differ_each_stands_for_itself(strategy: DDP, conditions: Conditions) -> None:
    setting = Setting(star(4), 4, 1, conditions, symmetric=True)
    assert strategy.plan(ALIKE, setting).shifts is None


def test_a_slow_link_leaves_no_symmetry() -> None:
    topology = star(4)
    bandwidth = topology.medium_bandwidth.copy()
    bandwidth[0] /= 2
    slower = replace(topology, medium_bandwidth=bandwidth)
    assert DDP(algo="ring").plan(ALIKE, Setting(slower, 4, symmetric=True)).shifts is None
