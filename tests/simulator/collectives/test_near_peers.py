"""Swing and Bine."""

from math import prod

import numpy as np
import pytest

from grouped_cases import each_case
from simulator.collectives import find
from simulator.collectives.box_rings import dims_of
from simulator.cost_models.machine_formulas import congestion
from simulator.engines import simulate
from simulator.schedules import semantics
from topologies.shapes import SHAPES, torus
from topologies.variants import slowed

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
