"""Rings along the axes of a box: BlueConnect and tori."""

from math import prod

import pytest

from folded import assert_alike, groups
from grouped_cases import each_case
from simulator.analysis.bounds import best_bound
from simulator.collectives import find
from simulator.collectives.box_rings import blue_connect_all_reduce, box
from simulator.collectives.collective import ALL_REDUCE
from simulator.collectives.two_level import equal_nodes, two_level_all_reduce
from simulator.cost_models.fabric import observe
from simulator.engines import simulate
from simulator.schedules import semantics
from topologies.clusters import cluster
from topologies.shapes import SHAPES, star, torus

EQUAL = [(5,), (4, 4), (3, 3, 3), (4, 4, 4)]
OTHERS = [(2,), (2, 4), (3, 5), (2, 2, 2), (4, 1, 3)]


@pytest.mark.parametrize("dims", EQUAL)
def test_rings_on_a_torus_reach_the_bound(dims: tuple[int, ...]) -> None:
    ranks = prod(dims)
    topology = torus(ranks, bandwidth=1.0, dims=dims)
    rings = find("torus_rings").on(topology, ranks, 64.0)
    bound = best_bound(ALL_REDUCE, topology, ranks, 64.0).seconds
    assert simulate(rings.schedule, topology).makespan == pytest.approx(bound, rel=1e-12)


@each_case("dims", EQUAL + OTHERS)
def test_all_parts_are_added_up(dims: tuple[int, ...]) -> None:
    ranks = prod(dims)
    topology = torus(ranks, bandwidth=1.0, latency=0.5, gap=0.25, dims=dims)
    rings = find("torus_rings").on(topology, ranks, 64.0)
    semantics.check(rings.schedule, ALL_REDUCE)
    timeline = simulate(rings.schedule, topology)
    fabric = observe(timeline.routed)
    if not rings.cost.holds(fabric):
        assert timeline.makespan == pytest.approx(rings.cost.time(fabric, ranks, 64.0))
    else:
        assert dims in OTHERS


@pytest.mark.parametrize("dims", [(4, 4), (3, 3, 3)])
def test_one_rank_of_a_torus_stands_for_all(dims: tuple[int, ...]) -> None:
    ranks, rings = prod(dims), find("torus_rings")
    nbytes = 2.0 * len(dims) * ranks
    topology = torus(ranks, bandwidth=2.0, latency=0.5, dims=dims)
    whole = rings.on(topology, ranks, nbytes)
    assert rings.shifts_on is not None
    for group in groups(rings.shifts_on(topology, ranks)):
        folded = rings.on(topology, ranks, nbytes, group)
        assert_alike(simulate(whole.schedule, topology), simulate(folded.schedule, topology))


def test_two_levels_are_the_two_level_all_reduce() -> None:
    topology = star(12, bandwidth=1.0, latency=0.5)
    times = [
        simulate(schedule, topology).makespan
        for schedule in (
            blue_connect_all_reduce(12, 12.0, (3, 4)),
            two_level_all_reduce(12, 12.0, equal_nodes(12, per_node=4)),
        )
    ]
    assert times[0] == times[1]


def test_levels_of_a_machine() -> None:
    fitted = find("blue_connect").on(cluster("hgx_h100", 4), 32, 1.0)
    assert fitted.chosen == ("rings of 8, 2, 2 ranks",)
    semantics.check(fitted.schedule, ALL_REDUCE)
    fitted = find("blue_connect:levels=2").on(cluster("hgx_h100", 4), 32, 1.0)
    assert fitted.chosen == ("rings of 8, 4 ranks",)
    unequal = find("blue_connect").on(SHAPES["star"](12, bandwidth=1.0), 12, 1.0)
    assert unequal.chosen == ("rings of 3, 2, 2 ranks",)


@pytest.mark.parametrize(
    ("ranks", "levels", "dims"), [(64, 2, (8, 8)), (13, 3, (1, 1, 13)), (24, 1, (24,))]
)
def test_a_box_is_nearly_a_cube(ranks: int, levels: int, dims: tuple[int, ...]) -> None:
    assert box(ranks, levels) == dims
