"""Distances in latency."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from grouped_cases import each_case
from topologies._kernels import Floats, Ints, distances
from topologies.jit import compiled
from topologies.shapes import SHAPES

Edges = tuple[Ints, Ints, Floats]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, Edges]:
    """Up to eight devices, and links with whole latencies in any order, some of them parallel."""
    devices = draw(st.integers(1, 8))
    device = st.integers(0, devices - 1)
    links = draw(st.lists(st.tuples(device, device, st.integers(0, 5)), max_size=20))
    source, target = (np.array([link[k] for link in links], dtype=np.int32) for k in (0, 1))
    return devices, (source, target, np.array([link[2] for link in links], dtype=np.float64))


@given(graphs())
def test_distances_are_dijkstras(graph: tuple[int, Edges]) -> None:
    devices, (source, target, latency) = graph
    wanted = np.full((devices, devices), np.inf)
    np.fill_diagonal(wanted, 0.0)
    np.minimum.at(wanted, (source, target), latency)
    for via in range(devices):
        wanted = np.minimum(wanted, wanted[:, [via]] + wanted[via])
    least = np.empty((devices, devices))
    distances(source, target, latency, np.arange(devices, dtype=np.int32), least)
    assert np.array_equal(least, wanted)


@each_case("shape", ["ring", "line", "star", "torus", "tree", "dragonfly", "nodes"])
def test_large_shapes_have_the_distances_of_scipy(shape: str) -> None:
    """To the bit, compiled or not: the sums along a way are the same."""
    topology = SHAPES[shape](512, bandwidth=1e9, latency=1.1e-6)
    edges = topology.source, topology.target, topology.latency
    devices, starts = len(topology.device_names), topology.placement[[0, 100]].astype(np.int32)
    table = csr_array((edges[2], edges[:2]), shape=(devices, devices))
    for search in (distances, compiled(distances)):
        least = np.empty((2, devices))
        search(*edges, starts, least)
        assert np.array_equal(least, dijkstra(table, indices=starts))


@pytest.mark.parametrize("shape", ["ring", "torus", "star"])
def test_devices_of_a_regular_shape_are_looked_at_once(shape: str) -> None:
    topology = SHAPES[shape](1024, bandwidth=1e9, latency=1e-6)
    edges = topology.source, topology.target, topology.latency
    least = np.empty((1, len(topology.device_names)))
    assert distances(*edges, topology.placement[:1].astype(np.int32), least) <= least.size
