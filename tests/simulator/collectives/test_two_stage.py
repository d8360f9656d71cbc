"""All-to-all in two stages over nodes."""

import numpy as np
import pytest

from grouped_cases import each_case
from simulator.collectives import find
from simulator.collectives.collective import ALL_TO_ALL
from simulator.collectives.two_stage import forwarded_all_to_all, rail_all_to_all
from simulator.engines import simulate
from simulator.schedules import semantics
from topologies.clusters import cluster
from topologies.shapes import star

BUILDS = [rail_all_to_all, forwarded_all_to_all]


@each_case("build", BUILDS)
@each_case("shape", [(2, 3), (4, 2), (1, 5), (5, 1), (3, 3)])
def test_nodes_of_any_order_exchange_all_blocks(build: object, shape: tuple[int, int]) -> None:
    assert callable(build)
    ranks = shape[0] * shape[1]
    nodes = np.random.default_rng(0).permutation(ranks).reshape(shape)
    semantics.check(build(ranks, float(ranks), nodes), ALL_TO_ALL)


@pytest.mark.parametrize("build", BUILDS)
def test_stages_by_hand(build: object) -> None:
    # 2 nodes of 3: 2 messages of 2 blocks inside, 1 of 3 blocks across; a latency a stage.
    assert callable(build)
    nodes = np.arange(6).reshape(2, 3)
    topology = star(6, bandwidth=1.0, latency=0.5)
    assert simulate(build(6, 6.0, nodes), topology).makespan == 2 * 1 + 2 * 2 + 3


def test_across_nodes_all_messages_stay_on_their_rail() -> None:
    for build in BUILDS:
        schedule = build(16, 16.0)
        across = schedule.rank // 8 != schedule.peer // 8
        assert (schedule.rank[across] % 8 == schedule.peer[across] % 8).all()
        assert across.sum() == 16


@pytest.mark.parametrize("name", ["rail_all_to_all", "forwarded_all_to_all"])
def test_rails_are_faster_than_pairs_on_nodes(name: str) -> None:
    topology = cluster("hgx_h100", 2)
    fitted, pairs = (find(each).on(topology, 16, 1e8) for each in (name, "pairwise"))
    times = [simulate(each.schedule, topology).makespan for each in (fitted, pairs)]
    assert times[0] < 0.7 * times[1]
    assert fitted.chosen == ("2 nodes of 8 ranks",)
