"""NVLS with trees across nodes, and sums read out of a switch."""

import numpy as np
import pytest

from refusals import refusal
from simulator.collectives import find
from simulator.collectives.collective import ALL_REDUCE
from simulator.collectives.in_network import (
    multimem_one_shot_all_reduce,
    nvls_tree_all_reduce,
)
from simulator.cost_models import in_network_formulas
from simulator.engines import simulate
from simulator.schedules import semantics
from topologies.clusters import cluster


@pytest.mark.parametrize(("number", "size"), [(1, 4), (2, 3), (3, 2), (5, 4), (8, 2)])
def test_trees_across_nodes_add_up_all(number: int, size: int) -> None:
    groups = np.random.default_rng(size).permutation(number * size).reshape(number, size)
    schedule = nvls_tree_all_reduce(number * size, 64.0, groups, segments=3)
    semantics.check(schedule, ALL_REDUCE)
    cost = in_network_formulas.nvls_tree(3, number)
    assert schedule.volume == pytest.approx(cost.volume(number * size) * 64.0)


def test_trees_have_fewer_latencies_than_rings_on_many_nodes() -> None:
    topology = cluster("hgx_h100", 8)

    def seconds(name: str) -> float:
        fitted = find(name).on(topology, 64, 1024.0)
        semantics.check(fitted.schedule, ALL_REDUCE)
        return simulate(fitted.schedule, fitted.topology).makespan

    assert seconds("nvls_tree:segments=1") < seconds("nvls:segments=1")


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_one_shot_reads_every_buffer_for_every_reader(ranks: int) -> None:
    schedule = multimem_one_shot_all_reduce(ranks, 1.0)
    semantics.check(schedule, ALL_REDUCE)
    cost = in_network_formulas.MULTIMEM
    assert (schedule.volume, schedule.steps) == (cost.volume(ranks), cost.steps(ranks))


def test_one_shot_is_better_for_short_messages_alone() -> None:
    topology = cluster("hgx_h100", 1)

    def seconds(name: str, nbytes: float) -> float:
        fitted = find(name).on(topology, 8, nbytes)
        return simulate(fitted.schedule, fitted.topology).makespan

    assert seconds("multimem_one_shot", 1e3) < seconds("nvls:segments=1", 1e3)
    assert seconds("multimem_one_shot", 1e9) > seconds("nvls:segments=1", 1e9)


def test_one_shot_takes_one_node() -> None:
    message = refusal(find("multimem_one_shot").on, cluster("hgx_h100", 2), 16, 1.0)
    assert message.startswith("multimem_one_shot: 2 switches have ranks")
