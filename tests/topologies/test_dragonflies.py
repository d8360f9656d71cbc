"""Closed forms of dragonflies."""

from collections import Counter
from dataclasses import replace
from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from grouped_cases import each_case
from joined_ports import EQUIPMENT, across, below, built, switches
from refusals import refusal
from topologies.errors import InputError
from topologies.fabrics import join_dragonfly
from topologies.routing import distances
from topologies.topology import Topology


def routers_of(topology: Topology, group: int) -> list[str]:
    return [name for name in switches(topology, "router") if name.startswith(f"group{group}.")]


def group_pairs(topology: Topology) -> Counter[tuple[str, str]]:
    """How many links lead from one group to another."""
    ends = [
        tuple(end.partition(".router")[0] for end in link)
        for link in topology.graph.edges
        if "nic" not in "".join(link)
    ]
    return Counter((source, target) for source, target in ends if source != target)


@pytest.mark.parametrize("h", [1, 2, 3])
def test_a_full_balanced_dragonfly_is_kims(h: int) -> None:
    a, p, groups = 2 * h, h, 2 * h * h + 1
    topology = built(join_dragonfly, a * p * groups)
    assert len(switches(topology, "router")) == a * groups
    assert topology.links == 2 * (
        a * p * groups + groups * a * (a - 1) // 2 + groups * (groups - 1) // 2
    )
    degrees = dict(topology.graph.out_degree)
    assert {degrees[name] for name in switches(topology, "router")} == {p + (a - 1) + h}
    pairs = group_pairs(topology)
    assert len(pairs) == groups * (groups - 1)
    assert set(pairs.values()) == {1}
    assert nx.diameter(topology.graph) == 5


@each_case(
    ("ports", "hosts", "routers", "global_links"),
    [(8, 1, 4, 1), (20, 1, 4, 1), (30, 2, 3, 2), (42, 2, 3, 2), (9, 3, 1, 2), (50, 2, 5, 1)],
)
def test_groups_are_meshed_inside_and_joined_by_one_link_placed_evenly(
    ports: int, hosts: int, routers: int, global_links: int
) -> None:
    topology = built(join_dragonfly, ports, hosts=hosts, routers=routers, global_links=global_links)
    groups = -(-ports // (hosts * routers))
    assert len(switches(topology, "router")) == groups * routers
    pairs = group_pairs(topology)
    assert (len(pairs), set(pairs.values())) == (groups * (groups - 1), {1})
    for group in range(groups):
        inside = routers_of(topology, group)
        assert all(
            topology.graph.has_edge(source, target) for source, target in combinations(inside, 2)
        )
        outward = [
            sum("router" in end and end not in inside for end in topology.graph[name])
            for name in inside
        ]
        assert sum(outward) == groups - 1
        assert max(outward) - min(outward) <= 1
        assert max(outward) <= global_links


def test_links_to_the_next_groups_lie_on_the_routers_in_order() -> None:
    graph = built(join_dragonfly, 20, hosts=2, routers=2, global_links=2).graph
    ends = [
        sorted(end for end in graph[f"group1.router{place}"] if "router" in end) for place in (0, 1)
    ]
    assert ends[0] == ["group1.router1", "group2.router1", "group3.router1"]
    assert ends[1] == ["group0.router0", "group1.router0", "group4.router0"]


@each_case(("ports", "groups"), [(16, 2), (24, 3), (32, 4), (64, 8), (72, 9)])
@each_case("cables", [1, 2, None])
def test_cables_between_groups_are_as_many_as_asked_for(
    ports: int, groups: int, cables: int | None
) -> None:
    """Eight global links a group: over two groups all eight, over four two to each other one."""
    most = 8 // (groups - 1)
    if cables is not None and cables > most:
        assert f"cables must be at most {most} with {groups} groups of 8 global links" in refusal(
            built, join_dragonfly, ports, cables=cables
        )
        return
    topology = built(join_dragonfly, ports, cables=cables)
    for group in range(groups):
        inside = routers_of(topology, group)
        outward = [
            sum(
                out["bandwidth"]
                for end, out in topology.graph[name].items()
                if "router" in end and end not in inside
            )
            for name in inside
        ]
        assert sum(outward) == (groups - 1) * (cables or most) * 4e9
        assert max(outward) - min(outward) <= 4e9
        assert max(outward) <= 2 * 4e9
    pairs = across(topology, below(topology, routers_of(topology, 0)))
    assert pairs == (groups - 1) * (cables or most) * 4e9


def test_what_a_route_over_a_dragonfly_costs() -> None:
    """On the same router; in the same group; in another one by its gateway, from a router beside
    it, on either side."""
    far = replace(EQUIPMENT, global_latency=16.0)
    topology = built(join_dragonfly, 8, 1, far, hosts=1, routers=4, global_links=1)
    assert group_pairs(topology) == {("group0", "group1"): 1, ("group1", "group0"): 1}
    assert topology.graph.has_edge("group0.router0", "group1.router0")
    assert distances(topology)[0].tolist() == [0, 2.25, 2.25, 2.25, 18, 18.25, 18.25, 18.25]
    assert distances(topology)[1].tolist() == [2.25, 0, 2.25, 2.25, 18.25, 18.5, 18.5, 18.5]


@each_case(("ports", "h"), [(1, 1), (6, 1), (7, 2), (72, 2), (73, 3)])
def test_by_default_a_dragonfly_is_balanced_and_the_smallest_that_fits(ports: int, h: int) -> None:
    default = built(join_dragonfly, ports)
    balanced = built(join_dragonfly, ports, hosts=h, routers=2 * h, global_links=h)
    assert default.device_names == balanced.device_names
    assert np.array_equal(default.source, balanced.source)


def test_more_groups_than_global_links_reach_are_refused() -> None:
    message = "the ports make 6 groups, with 4 global links each at most 5$"
    with pytest.raises(InputError, match=message):
        built(join_dragonfly, 21, hosts=1, routers=4, global_links=1)
