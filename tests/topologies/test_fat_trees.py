"""Closed forms of fat trees."""

from collections import Counter, defaultdict
from itertools import pairwise
from random import Random

import networkx as nx
import numpy as np
import pytest

from grouped_cases import each_case
from joined_ports import across, built, switches
from topologies.errors import InputError
from topologies.fabrics import join_fat_tree
from topologies.routing import distances


@pytest.mark.parametrize("k", [2, 4, 6, 8])
def test_a_full_fat_tree_is_al_fares(k: int) -> None:
    ports, half = k**3 // 4, k // 2
    topology = built(join_fat_tree, ports, k=k)
    assert [len(switches(topology, word)) for word in ("edge", "aggregation", "core")] == [
        k * half,
        k * half,
        half**2,
    ]
    assert len(topology.device_names) == ports + 5 * k**2 // 4
    assert topology.links == 2 * 3 * ports
    degrees = dict(topology.graph.out_degree)
    assert {
        degrees[name]
        for word in ("edge", "aggregation", "core")
        for name in switches(topology, word)
    } == {k}
    assert nx.diameter(topology.graph) == 6
    hops = 1 + (distances(topology)[0] - 2) / 0.25
    assert Counter(hops[1:].tolist()) == +Counter(
        {1.0: half - 1, 3.0: half**2 - half, 5.0: ports - half**2}
    )


def test_an_aggregation_switch_has_cores_of_its_own() -> None:
    graph = built(join_fat_tree, 54, k=6).graph
    for pod in range(6):
        assert [core for core in graph[f"pod{pod}.aggregation1"] if "core" in core] == [
            "core3",
            "core4",
            "core5",
        ]
        assert [edge for edge in graph[f"pod{pod}.aggregation1"] if "core" not in edge] == [
            f"pod{pod}.edge{number}" for number in range(3)
        ]


@pytest.mark.parametrize("k", [4, 8])
def test_half_of_the_pods_reach_the_cores_with_the_bandwidth_of_their_ports(k: int) -> None:
    topology = built(join_fat_tree, k**3 // 4, k=k)
    half = {
        name
        for name in topology.device_names
        if name.startswith(tuple(f"pod{pod}." for pod in range(k // 2)))
    }
    half |= {f"node{port}.nic0" for port in range(k**3 // 8)}
    assert across(topology, half) == k**3 / 8 * 4e9


@pytest.mark.parametrize(("k", "ports"), [(2, 2), (4, 16), (4, 11), (6, 54)])
def test_any_half_of_the_ports_sends_to_the_other_at_full_bandwidth(k: int, ports: int) -> None:
    topology = built(join_fat_tree, ports, k=k)
    for seed in range(4):
        graph = nx.DiGraph(
            (source, target, {"capacity": 1}) for source, target in topology.graph.edges
        )
        shuffled = Random(seed).sample(range(ports), ports)
        for sender, receiver in zip(shuffled[: ports // 2], shuffled[ports // 2 :], strict=False):
            graph.add_edge("all senders", f"node{sender}.nic0", capacity=1)
            graph.add_edge(f"node{receiver}.nic0", "all receivers", capacity=1)
        assert nx.maximum_flow_value(graph, "all senders", "all receivers") == ports // 2


@pytest.mark.parametrize(("k", "ports"), [(4, 16), (4, 13), (6, 40)])
def test_any_permutation_fits_if_it_is_spread_over_all_shortest_ways(k: int, ports: int) -> None:
    """No link carries more than a port does: all ports send β at once."""
    graph = built(join_fat_tree, ports, k=k).graph
    names = [f"node{port}.nic0" for port in range(ports)]
    for seed in range(3):
        load: defaultdict[tuple[str, str], float] = defaultdict(float)
        for source, target in zip(names, Random(seed).sample(names, ports), strict=True):
            ways = list(nx.all_shortest_paths(graph, source, target))
            for way in ways:
                for link in pairwise(way):
                    load[link] += 1 / len(ways)
        assert max(load.values()) == pytest.approx(1)


@each_case(("ports", "k"), [(1, 2), (2, 2), (3, 4), (16, 4), (17, 6), (54, 6), (55, 8), (1024, 16)])
def test_by_default_a_fat_tree_is_the_smallest_that_fits(ports: int, k: int) -> None:
    default, asked = built(join_fat_tree, ports), built(join_fat_tree, ports, k=k)
    assert default.device_names == asked.device_names
    assert np.array_equal(default.source, asked.source)
    assert len(switches(default, "core")) == k**2 // 4


@each_case("ports", range(1, 17))
def test_pods_and_edge_switches_without_a_port_are_left_out(ports: int) -> None:
    topology = built(join_fat_tree, ports, k=4)
    edges, pods = -(-ports // 2), -(-ports // 4)
    assert [len(switches(topology, word)) for word in ("edge", "aggregation", "core")] == [
        edges,
        2 * pods,
        4,
    ]
    assert topology.links == 2 * (ports + 2 * edges + 4 * pods)


@each_case(("k", "least"), [(5, 4), (3, 4), (2, 4), (7, 4)])
def test_an_odd_or_small_k_is_refused(k: int, least: int) -> None:
    with pytest.raises(
        InputError, match=f"a fat tree of 12 ports takes an even k of at least {least}, got {k}$"
    ):
        built(join_fat_tree, 12, k=k)
