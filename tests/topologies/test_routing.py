"""Routes: least latency, then fewest hops, then first by device order, however they are found."""

from dataclasses import replace
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from grouped_cases import each_case
from refusals import refusal
from topologies import _kernels
from topologies.errors import InputError
from topologies.jit import compiled
from topologies.link import Link
from topologies.routing import distances
from topologies.shapes import SHAPES, ring
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder
from transfers import devices_of

MICROSECOND, TICK = 1e-6, 2.0**-20


@st.composite
def topologies(draw: st.DrawFn, unit: float = MICROSECOND) -> Topology:
    """A few devices, links with small whole latencies, so that ties are common; ranks placed in any
    order."""
    count = draw(st.integers(2, 6))
    builder = TopologyBuilder("random")
    names = [
        builder.device(f"d{k}", draw(st.sampled_from(("gpu", "switch")))) for k in range(count)
    ]
    pairs = [(source, target) for source in names for target in names if source != target]
    for ends in draw(st.lists(st.sampled_from(pairs), unique=True, max_size=18)):
        builder.link(*ends, Link(1e9, draw(st.integers(0, 4)) * unit))
    return builder.build(draw(st.lists(st.sampled_from(names), min_size=2, max_size=6)))


def best_way(topology: Topology, source: int, target: int, unit: float) -> list[int] | None:
    """All simple paths of networkx, and the first of them by (latency, hops, devices)."""
    index = {name: device for device, name in enumerate(topology.device_names)}
    start, end = (topology.device_names[topology.placement[rank]] for rank in (source, target))
    if start == end:
        return [index[start]]
    ways = []
    for names in nx.all_simple_paths(topology.graph, start, end):
        latency = sum(
            round(topology.graph.edges[ends]["latency"] / unit) for ends in pairwise(names)
        )
        ways.append((latency, len(names), [index[name] for name in names]))
    return min(ways)[2] if ways else None


def check_routes(topology: Topology, unit: float) -> None:
    for source in range(topology.ranks):
        for target in range(topology.ranks):
            wanted = best_way(topology, source, target, unit)
            if wanted is None:
                assert f"no route from rank {source} to rank {target} in random" in refusal(
                    topology.route, source, target
                )
            else:
                assert devices_of(topology, source, topology.route(source, target)) == wanted


@given(topologies())
def test_routes_are_the_first_of_all_paths_by_latency_hops_and_devices(topology: Topology) -> None:
    check_routes(topology, MICROSECOND)


@given(topologies(TICK))
def test_ties_are_exact_for_binary_fractions_of_a_second_too(topology: Topology) -> None:
    check_routes(topology, TICK)


@given(topologies())
def test_distances_are_networkxs(topology: Topology) -> None:
    known = dict(nx.all_pairs_dijkstra_path_length(topology.graph, weight="latency"))
    names = [topology.device_names[device] for device in topology.placement]
    wanted = [[known[source].get(target, np.inf) for target in names] for source in names]
    np.testing.assert_allclose(distances(topology), wanted, rtol=1e-12, atol=0)


@given(topologies())
def test_a_distance_is_the_latency_of_the_route(topology: Topology) -> None:
    least = distances(topology)
    for source, target in np.argwhere(np.isfinite(least)).tolist():
        route = list(topology.route(source, target))
        assert topology.latency[route].sum() == pytest.approx(least[source, target], rel=1e-12)


@each_case("shape", SHAPES)
def test_the_route_of_a_rank_to_itself_is_empty(shape: str) -> None:
    topology = SHAPES[shape](4, bandwidth=1e9, latency=1e-6)
    assert [topology.route(rank, rank) for rank in range(4)] == [()] * 4
    assert not np.diagonal(distances(topology)).any()


def test_two_ranks_on_one_device_need_no_link() -> None:
    builder = TopologyBuilder("crowded")
    builder.device("a")
    topology = builder.build(["a", "a"])
    assert topology.route(0, 1) == ()
    assert distances(topology).tolist() == [[0, 0], [0, 0]]


@each_case("pair", [(0, 4), (4, 0), (-1, 0), (0, -1), (7, 7)])
def test_a_rank_without_a_device_is_refused(pair: tuple[int, int]) -> None:
    outside = next(rank for rank in pair if not 0 <= rank < 4)
    assert f"rank {outside} has no device" in refusal(ring(4, bandwidth=1e9).route, *pair)


def test_of_many_ranks_the_one_without_a_device_is_named() -> None:
    for rank in (-1, 4):
        with pytest.raises(InputError, match=f"rank {rank} has no device: ring has 4 ranks"):
            ring(4, bandwidth=1e9).routes(np.array([0, 1, rank]), np.array([1, 2, 3]))


def test_islands_whose_every_device_has_one_way_out_do_not_hang() -> None:
    builder = TopologyBuilder("islands")
    names = [builder.device(f"d{k}") for k in range(4)]
    builder.connect(names[0], names[1], Link(1e9))
    builder.connect(names[2], names[3], Link(1e9))
    topology = builder.build(names)
    assert topology.route(0, 1) == (0,)
    for pair in ((0, 2), (0, 3), (3, 1)):
        assert f"no route from rank {pair[0]} to rank {pair[1]} in islands" in refusal(
            topology.route, *pair
        )
    assert distances(topology)[0, 2] == np.inf


def test_no_pairs_have_no_routes() -> None:
    empty = np.zeros(0, dtype=np.int32)
    indptr, links = ring(4, bandwidth=1e9).routes(empty, empty)
    assert (indptr.tolist(), links.tolist()) == ([0], [])


def test_absurd_latencies_do_not_wrap_around() -> None:
    """Three hours are more femtoseconds than an int64 holds."""
    builder = TopologyBuilder("slow")
    names = [builder.device(f"d{k}") for k in range(3)]
    builder.link(names[0], names[2], Link(1e9, 1.0))
    builder.link(names[0], names[1], Link(1e9, 1e4))
    builder.link(names[1], names[2], Link(1e9))
    assert builder.build(names).route(0, 2) == (0,)


def test_many_long_latencies_do_not_wrap_around_together() -> None:
    """Each of them fits, and the sum of twenty is more femtoseconds than an int64 holds."""
    builder = TopologyBuilder("far")
    names = [builder.device(f"d{k}") for k in range(21)]
    for source, target in pairwise(names):
        builder.link(source, target, Link(1e9, 0.5))
    builder.link(names[0], names[20], Link(1e9, 6.0))
    assert builder.build(names).route(0, 20) == (20,)


def test_a_device_into_which_its_next_hop_alone_leads_is_found() -> None:
    """Two ways out, the first of them shorter and the only one back."""
    builder = TopologyBuilder("one way back")
    names = [builder.device(name) for name in ("start", "near", "far", "end")]
    builder.connect(names[0], names[1], Link(1e9, 1e-6))
    builder.link(names[0], names[2], Link(1e9, 2e-6))
    builder.link(names[1], names[3], Link(1e9, 1e-6))
    builder.link(names[2], names[3], Link(1e9, 1e-6))
    topology = builder.build(names)
    assert devices_of(topology, 0, topology.route(0, 3)) == [0, 1, 3]


def test_the_only_way_out_is_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def searched(*_: object) -> None:
        pytest.fail("searched")

    monkeypatch.setattr("topologies.routing.kernel", searched)
    builder = TopologyBuilder("one way")
    names = [builder.device(name) for name in ("start", "between", "end", "aside")]
    for source, target in ((0, 1), (1, 2), (3, 2)):
        builder.link(names[source], names[target], Link(1e9))
    assert builder.build(names).route(0, 2) == (0, 1)


def test_changed_machines_have_routes_of_their_own() -> None:
    topology = ring(4, bandwidth=1.0, latency=1.0)
    moved = replace(topology, placement=topology.placement[::-1].copy())
    assert moved.route(0, 1) == topology.route(3, 2)
    slow = topology.latency.copy()
    slow[list(topology.route(0, 1))] = 9.0
    assert len(topology.route(0, 1)) == 1
    assert len(replace(topology, latency=slow).route(0, 1)) == 3


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
