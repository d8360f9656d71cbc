"""What leaves and enters groups, summed once for all collectives."""

from collections.abc import Callable

import numpy as np
import pytest

from simulator.analysis.bounds import HALVED_LINKS, left_out, limits
from simulator.collectives.collective import ALL_REDUCE, ALL_TO_ALL, BROADCAST
from topologies.cuts import groupings
from topologies.routing import distances
from topologies.shapes import bus, line, nodes, ring, star
from topologies.topology import Topology


def test_each_device_is_alone_in_the_first_grouping() -> None:
    topology = star(4, bandwidth=3.0)
    alone = groupings(topology)[0]
    assert alone.ports(topology, "source").tolist() == [3.0, 3.0, 3.0, 3.0, 12.0]
    assert alone.together(topology, "target", np.array([1, 1, 0, 0, 0], dtype=np.bool_)) == 6.0
    assert groupings(topology)[0] is alone


def test_links_that_share_a_medium_count_once() -> None:
    topology = bus(4, bandwidth=3.0)
    alone = groupings(topology)[0]
    assert alone.together(topology, "source", np.array([1, 1, 0, 0, 0], dtype=np.bool_)) == 3.0


def test_what_is_left_out_of_a_large_machine_has_a_name() -> None:
    small, large = star(100, bandwidth=1e9), star(HALVED_LINKS, bandwidth=1e9)
    assert left_out(BROADCAST, small, 100) == ()
    assert left_out(ALL_REDUCE, large, HALVED_LINKS) == (
        "latency of every pair",
        "every cut",
        "cut in half",
    )
    assert left_out(ALL_TO_ALL, large, HALVED_LINKS) == (
        "latency of every pair",
        "cut in half",
        "best routing",
        "all links",
    )


def test_nothing_is_left_out_where_a_schedule_meets_the_bounds() -> None:
    machines = star(2048, bandwidth=1e9), line(2048, bandwidth=1e9)
    assert [left_out(ALL_REDUCE, machine, 2048) for machine in machines] == [
        ("latency of every pair",),
        ("latency of every pair", "every cut"),
    ]
    assert left_out(ALL_TO_ALL, star(64, bandwidth=1e9), 64) == ()
    assert left_out(ALL_TO_ALL, line(64, bandwidth=1e9), 64) == ()
    assert left_out(ALL_TO_ALL, ring(64, bandwidth=1e9), 64) == ("best routing",)


def test_a_large_star_has_the_bounds_of_a_small_one() -> None:
    ranks = 200_000
    bounds = {limit.name: limit for limit in limits(ALL_REDUCE, star(ranks, bandwidth=1.0), ranks)}
    assert set(bounds) == {"latency", "injection port", "ejection port", "all ports"}
    assert bounds["injection port"].per_byte == 1.0
    assert bounds["all ports"].per_byte == pytest.approx(2 * (ranks - 1) / ranks)


@pytest.mark.parametrize(
    "build",
    [lambda: nodes(300, bandwidth=1.0, latency=0.1), lambda: ring(250, bandwidth=1.0, latency=0.1)],
)
def test_distances_of_one_rank_are_those_of_all(build: Callable[[], Topology]) -> None:
    topology = build()
    together = distances(topology, np.array([7, 0], dtype=np.int32))
    assert distances(topology, np.array([7], dtype=np.int32)).tolist() == together[:1].tolist()
