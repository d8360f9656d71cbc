"""Packed trees span all ranks, keep within every link, and reach the tightest cut."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from random_networks import SEEDS, random_network
from refusals import refusal
from topologies._flow_kernels import Arcs, least_flow
from topologies.capacity import arcs
from topologies.catalogue import find
from topologies.clusters import MACHINES
from topologies.jit import compiled
from topologies.packing import Branch, Forest, pack, pack_pair
from topologies.packing.flow_graph import TreeUnit, least_cut, unit, usage, wiring
from topologies.packing.forest import spanned
from topologies.packing.spanning_trees import NoWay, Split, split_off
from topologies.shapes import SHAPES, bus, full_mesh, hypercube, line, ring, star, torus
from topologies.topology import Longs, Topology

seeds = st.integers(0, SEEDS - 1)


def trees_of(forest: Forest) -> dict[tuple[int, int], list[Branch]]:
    """The branches of each tree, by its root and number."""
    trees: dict[tuple[int, int], list[Branch]] = {}
    for branch in forest.branches:
        for number in range(branch.first, branch.first + branch.trees):
            trees.setdefault((branch.root, number), []).append(branch)
    return trees


def check_trees(forest: Forest, ranks: int, *, towards: bool = False) -> None:
    """Every tree leads from its root to every other rank once, or back."""
    trees = trees_of(forest)
    wanted = {(root, tree) for root in range(ranks) for tree in range(forest.trees[root])}
    assert set(trees) == wanted or ranks == 1
    for (root, _), branches in trees.items():
        depth = {root: 0}
        for branch in branches:
            near, far = branch.source, branch.target
            if towards:
                near, far = far, near
            assert far not in depth
            depth[far] = depth[near] + 1
            assert branch.depth == depth[far]
        assert len(depth) == ranks


def check_links(topology: Topology, branches: Iterable[Branch]) -> Counter[int]:
    """Every branch takes links from its source to its target. Returns the trees on each medium."""
    load: Counter[int] = Counter()
    for branch in branches:
        place = int(topology.placement[branch.source])
        for link in branch.links:
            assert topology.source[link] == place
            place = int(topology.target[link])
            for medium in topology.media_of(link).tolist():
                load[medium] += branch.trees
        assert place == topology.placement[branch.target]
    return load


def check_forest(topology: Topology, forest: Forest, ranks: int, *, towards: bool = False) -> None:
    check_trees(forest, ranks, towards=towards)
    for medium, trees in check_links(topology, forest.branches).items():
        assert trees * forest.unit <= topology.medium_bandwidth[medium] * (1 + 1e-8)


def tightest(topology: Topology, weight: np.ndarray) -> float:
    """Bytes/s of all roots together at the tightest of all cuts, tried one by one."""
    devices = range(len(topology.device_names))
    best = np.inf
    placed = set(topology.placement.tolist())
    for size in range(1, len(devices)):
        for chosen in combinations(devices, size):
            inside = np.isin(devices, chosen)
            if weight[inside].any() and not placed <= set(chosen):
                leaving = inside[topology.source] & ~inside[topology.target]
                bandwidth = topology.bandwidth[leaving].sum()
                best = min(best, float(bandwidth / weight[inside].sum()))
    return best * float(weight.sum())


@given(seed=seeds, root=st.sampled_from([None, 0]), towards=st.booleans())
@settings(max_examples=12)
def test_trees_of_a_random_network_are_trees_and_fit(
    seed: int, root: int | None, towards: bool
) -> None:
    network = random_network(seed)
    forest = pack(network, network.ranks, root, towards=towards)
    check_forest(network, forest, network.ranks, towards=towards)
    assert forest.loss < 0.01


@given(seed=seeds)
@settings(max_examples=8)
def test_trees_fit_where_links_differ_by_direction(seed: int) -> None:
    network = random_network(seed, both_ways_alike=False)
    check_forest(network, pack(network, network.ranks), network.ranks)


@given(seed=seeds, root=st.sampled_from([None, 0]))
@settings(max_examples=8)
def test_the_limit_is_the_tightest_of_all_cuts(seed: int, root: int | None) -> None:
    network = random_network(seed)
    if len(network.device_names) <= 9:
        forest = pack(network, network.ranks, root)
        weight = np.zeros(len(network.device_names))
        weight[network.placement if root is None else network.placement[[root]]] = 1.0
        assert forest.limit == pytest.approx(tightest(network, weight), rel=1e-9)


@given(seed=seeds)
@settings(max_examples=4)
def test_pairs_share_the_links(seed: int) -> None:
    network = random_network(seed)
    pair = pack_pair(network, network.ranks)
    check_trees(pair.into, network.ranks, towards=True)
    check_trees(pair.out, network.ranks)
    seconds: Counter[int] = Counter()
    for forest in (pair.into, pair.out):
        for medium, trees in check_links(network, forest.branches).items():
            share = trees / sum(forest.trees) / network.medium_bandwidth[medium]
            seconds[medium] += share
    assert max(seconds.values()) <= (1 + 1e-8) / pair.bandwidth
    phases = 1 / pair.into.limit + 1 / pair.out.limit
    assert pair.bandwidth >= 0.99 / phases or pair.into.trees == pair.out.trees


@pytest.mark.parametrize("shape", SHAPES)
def test_trees_of_shapes_fit(shape: str) -> None:
    topology = SHAPES[shape](8, bandwidth=1e9)
    forest = pack(topology, 8)
    check_forest(topology, forest, 8)
    assert forest.loss < 1e-6


def test_by_hand() -> None:
    """What all chunks together reach everyone with, or those of rank 0 alone."""
    for topology, everyone, alone in (
        (ring(8, bandwidth=7.0), 16.0, 14.0),
        (star(8, bandwidth=7.0), 8.0, 7.0),
        (full_mesh(8, bandwidth=1.0), 8.0, 7.0),
        (bus(8, bandwidth=7.0), 1.0, 1.0),
        (line(3, bandwidth=2.0), 3.0, 2.0),
        (hypercube(8, bandwidth=7.0), 24.0, 21.0),
        (torus(16, bandwidth=15.0), 64.0, 60.0),
    ):
        assert pack(topology, topology.ranks).bandwidth == pytest.approx(everyone)
        assert pack(topology, topology.ranks, root=0).bandwidth == pytest.approx(alone)


@pytest.mark.parametrize("name", [name for name in MACHINES if name not in ("nvl72", "gb300")])
def test_trees_of_machines_fit(name: str) -> None:
    topology = find(name).build(MACHINES[name].node().ranks, 0)
    forest = pack(topology, topology.ranks)
    check_forest(topology, forest, topology.ranks)
    assert forest.loss < 0.01


def test_fewer_trees_lose_what_they_say() -> None:
    topology = find("dgx1").build(8, 0)
    losses = [pack(topology, 8, most=most).loss for most in (1, 4, 32)]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] > 0.05 > 0.005 > losses[-1]


def test_ranks_on_one_device_hand_data_to_each_other() -> None:
    crowded = star(4, bandwidth=1e9)
    together = replace(crowded, placement=crowded.placement[[0, 0, 1, 2]])
    forest = pack(together, 4)
    check_trees(forest, 4)
    assert any(not branch.links for branch in forest.branches)


def test_one_root_is_enough_on_a_line() -> None:
    """Everything is added up towards one end and comes back: V/β, not 2(p - 1)V/(pβ)."""
    pair = pack_pair(line(5, bandwidth=3.0), 5)
    assert pair.bandwidth == pytest.approx(3.0)
    assert sum(count > 0 for count in pair.out.trees) == 1


def test_media_that_any_end_may_use_are_nodes() -> None:
    for topology in (bus(4, bandwidth=1.0), SHAPES["full_mesh_one_port"](4, bandwidth=1.0)):
        nodes = len(topology.device_names) + 2 * len(topology.shared_names)
        assert wiring(topology).shape == (nodes, nodes)


def test_wrong_numbers_of_ranks_are_refused() -> None:
    topology = star(200, bandwidth=1.0)
    assert refusal(pack, topology, 129).startswith("trees are packed for up to 128 ranks, got 129")
    assert refusal(pack, topology, 0).startswith("ranks is 0")


def test_edges_that_cannot_be_split_evenly_are_split_one_by_one() -> None:
    topology = find("pcie_box").build(13)
    into, out, bandwidth = pack_pair(topology, 13, 32)
    assert into.branches
    assert out.branches
    assert bandwidth > 0


def test_cuts_of_equal_shares_only_shorten_the_search() -> None:
    network = random_network(6)
    bandwidth, sinks = (wiring(network), spanned(network.placement, len(network.device_names)))
    limits = tuple(pack(network, network.ranks, towards=way).limit for way in (False, True))
    rates = [usage(bandwidth, sinks, both=True, alike=alike).roots.sum() for alike in ((), limits)]
    assert rates[0] == pytest.approx(rates[1])


def test_equal_shares_between_machines_are_settled_at_once() -> None:
    """The program would need 91 rounds without the cuts of equal shares."""
    topology = find("dgx1").build(32, 0)
    assert pack_pair(topology, 32, most=1).bandwidth == pytest.approx(32e9)


def test_trees_that_have_no_way_out_of_their_root_have_no_bandwidth() -> None:
    chosen = unit(np.zeros((2, 2)), np.array([1, 0]), np.ones(2, np.bool_), 1.0)
    assert (chosen.bandwidth, chosen.capacity.sum()) == (0.0, 0)


def test_more_trees_than_have_room_are_not_split_off() -> None:
    """Three trees from rank 0, with room for one to rank 1 over a switch, and for one to rank 2."""
    capacity = np.zeros((4, 4), np.int64)
    capacity[[0, 3, 0], [3, 1, 2]] = 1
    trees, sinks = np.array([3, 0, 0, 0]), np.arange(4) < 3
    with pytest.raises(NoWay):
        Split(capacity, trees, sinks).off(3)
    assert split_off(TreeUnit(1.0, trees, capacity), sinks) is None


MOST = 40


def _graph(capacity: Longs) -> tuple[Arcs, Longs]:
    key = np.flatnonzero((capacity > 0) | (capacity.T > 0))
    return arcs(key, len(capacity)), capacity.ravel()[key]


@pytest.mark.parametrize("nodes", [2, 3, 8, 24])
def test_the_least_flow_is_that_of_scipy(nodes: int) -> None:
    """Compiled or not. The cut that is told has as much room."""
    random = np.random.default_rng(nodes)
    for _ in range(6):
        capacity = random.integers(0, 9, (nodes, nodes)) * (random.random((nodes, nodes)) < 0.4)
        np.fill_diagonal(capacity, 0)
        graph = csr_array(capacity.astype(np.int32))
        flows = [maximum_flow(graph, 0, sink).flow_value for sink in range(1, nodes)]
        for search in (least_flow, compiled(least_flow)):
            sinks, inside = np.arange(1, nodes), np.zeros(nodes, dtype=np.int8)
            ends = np.array([0]), np.array([], dtype=np.int64)
            least = search(*_graph(capacity), ends, sinks, (-1, MOST), inside)
            assert least == min(MOST, *flows)
            if least < MOST:
                assert inside[0]
                assert not inside[sinks[0]]
                assert capacity[np.ix_(inside == 1, inside == 0)].sum() == least


def test_a_search_ends_at_a_flow_that_is_low_enough() -> None:
    """The sink of that flow comes first from then on."""
    capacity = np.array([[0, 3, 2, 1], [0] * 4, [0] * 4, [0] * 4])
    sinks, inside = np.array([1, 2, 3]), np.zeros(4, dtype=np.int8)
    ends = np.array([0]), np.array([], dtype=np.int64)
    assert least_flow(*_graph(capacity), ends, sinks, (2, MOST), inside) == 2
    assert sinks.tolist() == [2, 1, 3]


def test_a_source_that_is_there_twice_counts_once() -> None:
    """Edges that lead to a node and back are split off with their neighbour twice."""
    capacity = np.array([[0, 3], [0, 0]])
    assert least_cut(capacity, [0, 0], np.array([1]), 9)[0] == 3
