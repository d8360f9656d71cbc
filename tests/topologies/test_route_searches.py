"""Searches for routes and distances: from one end or both, compiled or not."""

from dataclasses import replace
from typing import Any, get_args
from unittest.mock import patch

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from grouped_cases import each_case
from topologies import _kernels
from topologies.jit import compiled
from topologies.routing import distances, find_routes
from topologies.shapes import SHAPES
from topologies.topology import Paths


@pytest.mark.parametrize(("name", "ranks"), [("dragonfly", 40), ("fat_tree", 54), ("torus", 60)])
@pytest.mark.parametrize("paths", get_args(Paths))
def test_ways_are_chosen_alike_from_one_end_or_both(name: str, ranks: int, paths: Paths) -> None:
    topology = replace(SHAPES[name](ranks, bandwidth=1e9, latency=1e-6), paths=paths)
    pair = np.arange(ranks**2, dtype=np.int32)
    columns = pair // ranks, pair % ranks, pair % 5
    results = []
    for few in (0, ranks):
        with patch("topologies.routing.FEW", few):
            indptr, links = find_routes(topology, *columns)
            results.append((indptr.tolist(), links.tolist()))
    assert results[0] == results[1]


def test_both_ends_meet_before_a_switch_of_many_links_is_searched() -> None:
    """A route across 1024 nodes, uncompiled, reaches fewer devices than there are nodes."""
    topology = SHAPES["nodes"](8192, bandwidth=1e9, latency=1e-6)
    reach, reached = _kernels.reach, []

    def counted(*arguments: Any) -> None:
        reached.append(arguments[-1])
        reach(*arguments)

    plain = patch("topologies.routing.kernel", lambda function, _: function)
    with plain, patch("topologies._kernels.reach", counted):
        assert len(topology.route(7, 8)) == 4
    assert len(reached) < 64


@each_case("shape", ["ring", "line", "star", "torus", "tree", "dragonfly", "nodes"])
def test_distances_are_those_of_scipy(shape: str) -> None:
    """To the bit, compiled or not, from some ranks or all: the sums along a way are the same."""
    topology = SHAPES[shape](64, bandwidth=1e9, latency=1.1e-6)
    devices, ends = len(topology.device_names), (topology.source, topology.target)
    table = csr_array((topology.latency, ends), shape=(devices, devices))
    wanted = dijkstra(table, indices=topology.placement)[:, topology.placement]
    assert np.allclose(distances(topology), wanted, rtol=1e-12)
    for chosen in (lambda search, _: search, lambda search, _: compiled(search)):
        with patch("topologies.routing.SMALL", 0), patch("topologies.routing.kernel", chosen):
            assert np.array_equal(distances(topology), wanted)
            few = np.array([0, 40], dtype=np.int32)
            assert np.array_equal(distances(topology, few), wanted[few])
