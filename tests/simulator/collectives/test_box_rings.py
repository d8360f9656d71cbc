"""Algorithms for boxes and tori: rings along axes, BlueConnect, Swing and Bine."""

from math import prod

import numpy as np
import pytest

from folded import assert_alike, groups
from grouped_cases import each_case
from simulator.analysis.bounds import best_bound
from simulator.collectives import find
from simulator.collectives.box_rings import blue_connect_all_reduce, box, dims_of
from simulator.collectives.collective import ALL_REDUCE
from simulator.collectives.two_level import equal_nodes, two_level_all_reduce
from simulator.cost_models.fabric import observe
from simulator.cost_models.machine_formulas import congestion
from simulator.engines import simulate
from simulator.schedules import semantics
from topologies.clusters import cluster
from topologies.shapes import SHAPES, star, torus
from topologies.variants import slowed

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


LIMITS = {2: 6 / 5, 3: 28 / 27, 4: 1.0084}
LARGE = [
    pytest.param(dims, marks=pytest.mark.exhaustive) for dims in [(16, 16), (8, 8, 8), (4, 4, 4, 4)]
]
TORI = [(4,), (16,), (4, 4), (8, 8), (4, 4, 4), *LARGE]


@pytest.mark.parametrize("dims", TORI)
def test_links_of_a_torus_are_crowded_as_published(dims: tuple[int, ...]) -> None:
    """Messages share links max-min fairly; α = g = 0."""
    ranks = prod(dims)
    swing = find("swing").on(torus(ranks, bandwidth=1.0, dims=dims), ranks, 1.0)
    time = simulate(swing.schedule, swing.topology, "compiled", sharing="fair").makespan
    least = 2 * (ranks - 1) / ranks / (2 * len(dims))
    assert time / least == pytest.approx(congestion(dims), rel=1e-9)


@pytest.mark.parametrize("dimensions", LIMITS)
def test_the_limits_are_those_published(dimensions: int) -> None:
    factors = [congestion((2**k,) * dimensions) for k in range(1, 16)]
    assert factors == sorted(factors)
    assert factors[-1] == pytest.approx(LIMITS[dimensions], rel=1e-4)


@pytest.mark.parametrize("dims", [(2,), (2, 4), (4, 4), (2, 2, 4)])
def test_parts_of_a_torus_are_added_up(dims: tuple[int, ...]) -> None:
    ranks = prod(dims)
    swing = find("swing").on(torus(ranks, bandwidth=1.0, dims=dims), ranks, 64.0)
    semantics.check(swing.schedule, find("swing").collective)
    assert swing.schedule.volume == 2 * (ranks - 1) * 64.0
    assert swing.chosen == (f"torus of {'x'.join(map(str, dims))}, {2 * len(dims)} parts",)


def test_other_machines_have_one_part() -> None:
    for topology in (
        SHAPES["star"](8, bandwidth=1.0),
        SHAPES["grid"](8, bandwidth=1.0),
        torus(6, bandwidth=1.0, dims=(2, 3)),
    ):
        swing = find("swing").on(topology, topology.ranks, 1.0)
        assert swing.chosen == ()


@each_case("dims", [(5,), (2, 3), (4, 4), (3, 4, 5), (2, 2, 2, 2), (4, 2)])
def test_dimensions_are_read_off_the_links(dims: tuple[int, ...]) -> None:
    machine = torus(prod(dims), bandwidth=1.0, dims=dims)
    assert dims_of(machine, prod(dims)) == dims
    assert dims_of(slowed(machine, 1, 2.0), prod(dims)) == dims
    assert dims_of(machine, 2) == ()


def test_bine_sends_most_bytes_over_short_distances() -> None:
    def crossed(name: str) -> float:
        schedule = find(name).build(64, 64.0)
        distance = np.abs(schedule.rank - schedule.peer)
        return float((schedule.nbytes * np.minimum(distance, 64 - distance)).sum())

    ratio = crossed("bine_all_gather") / crossed("recursive_doubling_all_gather")
    assert ratio < 0.7
    assert crossed("bine_reduce") < 0.75 * crossed("tree_reduce")


def test_messages_cross_a_third_less_of_a_ring_than_those_of_a_binomial_tree() -> None:
    def crossed(name: str) -> int:
        schedule = find(name).build(1024, 1.0)
        distance = np.abs(schedule.rank - schedule.peer)
        return int(np.minimum(distance, 1024 - distance).max())

    assert (crossed("tree_broadcast"), crossed("bine_broadcast")) == (512, 341)
