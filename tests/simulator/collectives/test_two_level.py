"""Rings over nodes, and all-to-alls in two stages."""

import numpy as np
import pytest

from grouped_cases import each_case
from refusals import message_of
from simulator.collectives import find
from simulator.collectives.collective import ALL_REDUCE, ALL_TO_ALL
from simulator.collectives.operation_counts import bounds
from simulator.collectives.ring import ring_all_reduce
from simulator.collectives.symmetry import fold
from simulator.collectives.two_level import (
    equal_nodes,
    forwarded_all_to_all,
    rail_all_to_all,
    shifts_on,
    two_level_all_reduce,
)
from simulator.engines import simulate
from simulator.schedules import semantics
from simulator.schedules.folded_routes import NotSymmetric
from simulator.schedules.routed import route
from simulator.schedules.semantics import check
from topologies.shapes import nodes, star
from topologies.topology import Topology


def on(topology: Topology, nbytes: float = 8.0) -> float:
    fitted = find("two_level").on(topology, topology.ranks, nbytes)
    check(fitted.schedule, ALL_REDUCE)
    return simulate(fitted.schedule, fitted.topology).makespan


def test_two_nodes_of_two_by_hand() -> None:
    """V = 8: inside, two steps of 4 bytes. Across, both ranks of a node send 2 bytes in turn: two
    steps of 4 s. The latency of the first hides behind the way out, which is always busy."""
    topology = nodes(4, bandwidth=1.0, latency=0.5, per_node=2)
    inside, across = (topology.latency[[*topology.route(0, peer)]].sum() for peer in (1, 2))
    assert on(topology) == 2 * (4 + inside) + 2 * (2 + 2) + across


def test_a_star_of_two_by_two_takes_the_formula() -> None:
    cost, schedule = find("two_level").cost, two_level_all_reduce(4, 8.0, equal_nodes(4, 2))
    assert simulate(schedule, star(4, bandwidth=1.0)).makespan == 2 * 4 + 2 * 2
    assert cost.steps(16) == 2 * 7 + 2


@each_case(("ranks", "per_node"), [(5, 1), (5, 5), (1, 8), (7, 7)])
def test_a_single_level_is_a_ring(ranks: int, per_node: int) -> None:
    levels = two_level_all_reduce(ranks, 8.0, equal_nodes(ranks, per_node))
    ring = ring_all_reduce(ranks, 8.0)
    for name in ("rank", "peer", "source", "target", "nbytes"):
        np.testing.assert_array_equal(getattr(levels, name), getattr(ring, name))


@each_case(
    ("ranks", "shape"), [(1, (1, 1)), (6, (1, 6)), (12, (2, 6)), (17, (17, 1)), (64, (8, 8))]
)
def test_nodes_without_a_machine(ranks: int, shape: tuple[int, int]) -> None:
    assert equal_nodes(ranks).shape == shape


@each_case("per_node", [1, 2, 3, 4, 6, 12])
def test_the_nodes_are_those_of_the_machine(per_node: int) -> None:
    topology = nodes(12, bandwidth=1.0, per_node=per_node)
    fitted = find("two_level").on(topology, 12, 8.0)
    assert fitted.chosen == (f"{12 // per_node} nodes of {per_node} ranks",)
    same = fitted.schedule.rank // per_node == fitted.schedule.peer // per_node
    assert same.sum() == 12 * 2 * (per_node - 1)
    (bound,) = bounds(find("two_level"), topology, 12)
    assert bound == len(fitted.schedule)
    check(fitted.schedule, ALL_REDUCE)


def test_nodes_of_several_sizes_are_refused() -> None:
    topology = nodes(7, bandwidth=1.0, per_node=4)
    expected = "two_level: 4 ranks in a node and 3 in another: take as many in each"
    assert message_of(on, topology) == expected
    assert message_of(fold, find("two_level"), topology, 7) == expected


@pytest.mark.parametrize("per_node", [2, 4, 8, 16])
def test_ranks_of_a_node_stand_for_those_of_all(per_node: int) -> None:
    folded = fold(find("two_level"), nodes(64, bandwidth=1.0, per_node=per_node), 64)
    assert folded is not None
    assert folded.routed.schedule.members == 64 // per_node
    check(folded.fitted.schedule, ALL_REDUCE)


def test_few_shifts_suffice_to_refuse_a_group() -> None:
    """Ranks of a node share its way out, so that shifts inside nodes leave it in place."""
    topology, levels = nodes(256, bandwidth=1.0, per_node=4), find("two_level")
    group = shifts_on(topology, 256)
    with pytest.raises(NotSymmetric, match=r"a shift leaves a medium in place$"):
        route(levels.on(topology, 256, 1.0, group).schedule, topology)


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
