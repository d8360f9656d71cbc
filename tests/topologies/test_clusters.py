"""Nodes joined by networks: devices, links and bandwidths, and what no cluster has."""

import re
import tracemalloc
from math import ceil
from typing import Any, get_args

import networkx as nx
import pytest

from grouped_cases import each_case
from joined_ports import switches, switchless
from refusals import refusal
from topologies.catalogue import find as find_machine
from topologies.clusters import MACHINES, MOST_DEVICES, SWITCH_LATENCY, Network, cluster, joined
from topologies.errors import InputError
from topologies.link import LINKS, NETWORKS, Link, link_kind
from topologies.ring_search import find_rings
from topologies.shapes import full_mesh_one_port
from topologies.topology import Paths, Topology
from topologies.topology_builder import TopologyBuilder

JOINTS: tuple[str, ...] = get_args(Network)


def wires(network: str, nodes: int, nics: int) -> int:
    """Full-duplex links of a network: of its ports, and between its switches."""
    count = nodes * nics
    if network in ("rails", "leaf_spine"):
        # a leaf for every NIC of up to 32 nodes, and as many spines as a leaf has ports
        rails = network == "rails"
        leaves = nics * ceil(nodes / 32) if rails else ceil(count / 32)
        spines = min(nodes, 32) if rails else 32
        return count + (leaves * spines if leaves > 1 else 0)
    if network == "dragonfly":  # 16 ports a router, all routers of the one group joined
        routers = ceil(count / 16)
        return count + routers * (routers - 1) // 2
    half = next(half for half in range(1, 99) if 2 * half**3 >= count)  # a fat tree of k = 2 half
    edges = ceil(count / half)
    return count + edges * half + ceil(edges / half) * half**2


def nics_of(topology: Topology) -> int:
    return int(topology.device_kinds.are("nic").sum())


# Two nodes of everything by everything.


@each_case("network", JOINTS)
@each_case("machine", MACHINES)
def test_two_nodes_of_every_machine_by_every_network(machine: str, network: str) -> None:
    node, pair = MACHINES[machine].node(), cluster(machine, 2, network=network)
    size, nics = len(node.device_names), nics_of(node)
    assert pair.name == f"2 x {machine}"
    assert pair.ranks == 2 * node.ranks
    assert pair.device_names[: 2 * size] == tuple(
        f"node{k}.{name}" for k in range(2) for name in node.device_names
    )
    assert pair.device_kinds[: 2 * size] == 2 * tuple(node.device_kinds)
    assert pair.node[: 2 * size].tolist() == [0] * size + [1] * size
    assert set(pair.device_kinds[2 * size :]) == {"switch"}
    assert set(pair.node[2 * size :].tolist()) == {-1}
    assert not pair.in_network[2 * size :].any()
    assert [pair.device_names[device] for device in pair.placement] == [
        f"node{k}.{node.device_names[gpu]}" for k in range(2) for gpu in node.placement
    ]
    assert pair.links == 2 * node.links + 2 * wires(network, 2, nics)
    assert nx.is_strongly_connected(pair.graph)


@pytest.mark.parametrize("machine", MACHINES)
def test_nodes_keep_their_links(machine: str) -> None:
    node, trio = MACHINES[machine].node(), cluster(machine, 3)
    for column in ("latency", "assumed"):
        assert (
            getattr(trio, column)[: 3 * node.links].tolist() == 3 * getattr(node, column).tolist()
        )
    assert trio.bandwidth[: 3 * node.links].tolist() == 3 * node.bandwidth.tolist()
    assert trio.link_kinds[: 3 * node.links] == 3 * tuple(node.link_kinds)
    for rank in range(0, node.ranks, 3):
        kept = [link + 2 * node.links for link in node.route(rank, node.ranks - 1)]
        assert list(trio.route(2 * node.ranks + rank, 3 * node.ranks - 1)) == kept


@pytest.mark.parametrize("network", JOINTS)
@pytest.mark.parametrize("machine", ["dgx1", "alps"])
def test_all_nics_are_ports_with_the_figures_of_their_kind(machine: str, network: str) -> None:
    """α from a NIC to its switch is the port's, between switches that of a switch; β is the port's
    on both."""
    topology = cluster(machine, 5, network=network, port="hdr")
    nics, hdr = DEVICES_OF[machine], link_kind("hdr")
    first = 5 * MACHINES[machine].node().links
    near, far = topology.source[first:], topology.target[first:]
    of_ports = topology.device_kinds.are("nic")[near] | topology.device_kinds.are("nic")[far]
    assert of_ports.sum() == 2 * 5 * nics
    assert set(topology.latency[first:][of_ports].tolist()) == {hdr.link.latency}
    assert set(topology.latency[first:][~of_ports].tolist()) <= {SWITCH_LATENCY}
    assert topology.bandwidth[first:].min() == hdr.link.bandwidth
    assert set(topology.link_kinds[first:]) == {"ib"}
    degree = nx.Graph(topology.graph).degree
    assert {degree[f"node{node}.nic{nic}"] for node in range(5) for nic in range(nics)} == {2}


DEVICES_OF = {"dgx1": 4, "alps": 4}


@each_case("name", ["edr", "ndr", "slingshot", "ethernet10", "ethernet400"])
def test_the_port_is_what_is_asked_for(name: str) -> None:
    topology = cluster("dgx1", 2, port=name)
    way = list(topology.route(0, 8))
    kinds = {topology.link_kinds[link] for link in way}
    assert kinds == {"pcie", link_kind(name).kind}
    assert topology.bandwidth[way].min() == min(12e9, link_kind(name).link.bandwidth)
    assert f"{name}: {link_kind(name).source}" in topology.notes


@each_case("machine", MACHINES)
def test_one_node_stays_as_it_is(machine: str) -> None:
    alone, node = cluster(machine), MACHINES[machine].node()
    assert alone.device_names == node.device_names
    assert (alone.links, alone.notes, alone.name) == (node.links, node.notes, machine)


@each_case("paths", get_args(Paths))
@each_case("nodes", [1, 2])
def test_paths_are_those_asked_for(paths: Paths, nodes: int) -> None:
    assert cluster("dgx1", nodes).paths == "rail"
    assert find_machine(f"dgx1:nodes={nodes},paths={paths}").whole().paths == paths


def test_usual_networks_are_the_machines_own() -> None:
    for name, machine in MACHINES.items():
        usual = cluster(name, 2)
        asked = cluster(name, 2, network=machine.network, port=machine.port)
        assert usual.device_names == asked.device_names
        assert usual.bandwidth.tolist() == asked.bandwidth.tolist()
        assert usual.paths == "rail"


# Sizes.


def test_routers_of_a_dragonfly_have_16_ports_and_a_group_32_of_them() -> None:
    """4 ports a node: 4 nodes a router, 128 a group."""
    for nodes, routers in ((2, 1), (4, 1), (5, 2), (9, 3), (128, 32), (129, 64)):
        assert len(switches(cluster("alps", nodes), "router")) == routers


# Bandwidth.


@pytest.mark.parametrize(("machine", "bandwidth"), [("alps", 100e9), ("leonardo", 50e9)])
def test_two_routers_do_not_slow_four_nics_down_to_one(machine: str, bandwidth: float) -> None:
    """Five nodes, the first with a port on another router than the last: 15 more links of each
    router are idle."""
    assert find_rings(cluster(machine, 5), 20).bandwidth == pytest.approx(bandwidth)


def test_devices_of_kind_port_lead_to_the_network_before_nics() -> None:
    topology = joined(switchless(nic=2, port=1), 2, network="leaf_spine")
    assert nx.Graph(topology.graph).degree["node1.port0"] == 2
    assert nx.Graph(topology.graph).degree["node1.nic0"] == 1
    assert nx.Graph(joined(switchless(nic=2), 2).graph).degree["node1.nic1"] == 2


def test_a_node_with_ranks_in_any_order_keeps_it() -> None:
    node = cluster("leonardo")
    turned = TopologyBuilder("turned")
    first = turned.copies(node, 1, "")
    backwards = turned.build(first[0] + node.placement[::-1])
    topology = joined(backwards, 2)
    names = [topology.device_names[device] for device in topology.placement]
    assert names == [f"node{node}.0.gpu{gpu}" for node in range(2) for gpu in (3, 2, 1, 0)]


# Scale.


def peak_of(nodes: int) -> tuple[Topology, int]:
    """A cluster, and the most bytes that were held while it was built."""
    tracemalloc.start()
    try:
        return cluster("hgx_h100", nodes), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_link_is_a_row_of_columns_and_no_object() -> None:
    """30 bytes a link in columns and as many while they grow; names are a string a device, four
    links each."""
    topology, peak = peak_of(256)
    assert topology.ranks == 2048
    assert peak < 130 * topology.links


@pytest.mark.exhaustive
def test_131072_gpus_are_built_in_200_megabytes() -> None:
    topology, peak = peak_of(16384)
    assert topology.ranks == 131072
    assert topology.links == 2 * (16384 * (1 + 4 + 8 + 8 + 8) + 16384 * 8 + 512 * 8 * 32)
    assert peak < 200e6
    assert len(topology.route(0, 131071)) == 8
    assert topology.node[topology.placement[[0, 7, 8, 131071]]].tolist() == [0, 0, 1, 16383]


NAN, INF = float("nan"), float("inf")


@each_case("nodes", [0, -1, 10**9])
@each_case("machine", MACHINES)
def test_there_is_no_such_number_of_nodes(machine: str, nodes: int) -> None:
    most = MOST_DEVICES // len(MACHINES[machine].node().device_names)
    assert (
        refusal(lambda: cluster(machine, nodes))
        == f"nodes is {nodes}: {machine} comes 1 to {most} times"
    )


@each_case(
    ("options", "message"),
    [
        (
            {"network": "mesh"},
            "network is 'mesh': it is one of rails, leaf_spine, fat_tree, dragonfly",
        ),
        ({"port": "token-ring"}, "port is 'token-ring': it is one of "),
        ({"port": "nvlink4"}, "port is 'nvlink4': it is one of "),
        ({"nics": 0}, "hgx_h100 has no NIC to join 2 nodes by: give nics=1"),
        ({"nics": -1}, "nics is -1: a node has 0 to 1024 NICs"),
        ({"oversubscription": 0.0}, "oversubscription must be above 0, got 0.0"),
        ({"oversubscription": -2.0}, "oversubscription must be above 0, got -2.0"),
        ({"oversubscription": NAN}, "oversubscription must be above 0, got nan"),
        ({"oversubscription": INF}, "oversubscription must be above 0, got inf"),
        ({"spines": -1}, "spines must be at least 0, got -1|spines must be at least 1, got -1"),
        ({"spines": 10**9}, "spines must be at most 16777216, got 1000000000"),
        ({"spines": 2**24}, "spines is 16777216: 4096 at most"),
        ({"oversubscription": 1e-9}, "a network of .* links between switches is too large"),
        ({"spines": 2.5}, "spines must be a whole number, got 2.5"),
        ({"network": "leaf_spine", "spines": 0}, "spines must be at least 1, got 0"),
        (
            {"network": "fat_tree", "spines": 2},
            "a fat_tree takes no oversubscription, no spines and no nodes_per_leaf",
        ),
        (
            {"network": "dragonfly", "oversubscription": 2.0},
            "a dragonfly takes no oversubscription, no spines and no nodes_per_leaf",
        ),
    ],
)
def test_a_wrong_value_is_named(options: dict[str, Any], message: str) -> None:
    assert re.match(message.replace("(", r"\("), refusal(lambda: cluster("hgx_h100", 2, **options)))


@each_case(
    "options",
    [
        {"network": "mesh"},
        {"port": "nvlink4"},
        {"nics": -1},
        {"network": "fat_tree", "spines": 2},
        {"oversubscription": -1.0},
        {"oversubscription": NAN},
        {"nics": 1.5},
    ],
)
def test_one_node_is_asked_for_as_carefully(options: dict[str, Any]) -> None:
    messages = {
        refusal(lambda nodes=nodes: cluster("hgx_h100", nodes, **options)) for nodes in (1, 2)
    }
    assert len(messages) == 1


@each_case(
    "options", [{"nodes": 1, "spines": -1}, {"spines": 0, "oversubscription": NAN}, {"nodes": 1.5}]
)
def test_what_no_network_takes_is_refused(options: dict[str, Any]) -> None:
    refusal(lambda: cluster("hgx_h100", **({"nodes": 2} | options)))


def test_there_is_no_such_machine() -> None:
    message = refusal(lambda: cluster("dgx2"))
    assert message.startswith("'dgx2' is no machine: there are pcie_box, dgx1, dgx_a100, hgx_h100")


def test_too_many_groups_of_a_dragonfly_are_refused() -> None:
    """512 links out of a group: at most 513 groups, of 128 nodes each."""
    box = switchless(nic=1)
    message = refusal(lambda: joined(box, 513 * 512 + 1, network="dragonfly"))
    assert message == "the ports make 514 groups, with 512 global links each at most 513"


def test_a_node_with_shared_media_is_not_joined() -> None:
    builder = TopologyBuilder("bussed")
    wire = builder.medium("bus", 1e9)
    gpu, nic = builder.device("gpu"), builder.device("nic", "nic")
    builder.link(gpu, nic, Link(1e9), media=(wire,))
    builder.link(nic, gpu, Link(1e9), media=(wire,))
    assert "bussed has shared media (bus)" in refusal(lambda: joined(builder.build([gpu]), 2))
    assert "has no NIC" in refusal(lambda: joined(full_mesh_one_port(4, bandwidth=1e9), 2))


@each_case("port", LINKS)
def test_every_kind_of_link_is_a_port_or_none(port: str) -> None:
    if link_kind(port).kind in NETWORKS:
        assert cluster("dgx1", 2, port=port).ranks == 16
    else:
        assert f"port is {port!r}" in refusal(lambda: cluster("dgx1", 2, port=port))


@pytest.mark.parametrize(("network", "leaves"), [("leaf_spine", 3), ("rails", 12)])
def test_a_leaf_has_as_many_nodes_as_the_user_says(network: str, leaves: int) -> None:
    """Five nodes of four NICs, two on a leaf, or on the four leaves of a group of rails."""
    topology = cluster("leonardo", 5, network=network, nics=4, nodes_per_leaf=2)
    names = [name for name in topology.device_names if "leaf" in name]
    assert len(names) == leaves


def test_a_leaf_has_a_node_at_least() -> None:
    with pytest.raises(InputError, match="nodes_per_leaf must be at least 1, got 0"):
        cluster("leonardo", 5, nodes_per_leaf=0)


@pytest.mark.parametrize("name", MACHINES)
def test_without_peer_access_all_goes_through_a_cpu(name: str) -> None:
    """No NVLink is left, and no PCIe switch turns what comes up down again."""
    machine = cluster(name, p2p=False)
    assert not {"nvlink", "xgmi"} & {*machine.link_kinds.vocabulary}
    kinds = machine.device_kinds
    kind = MACHINES[name]
    reached = kind.gpus if kind.socket else kind.gpus // kind.sockets
    assert reached > 1
    for peer in range(1, reached):
        way = machine.target[list(machine.route(0, peer))]
        assert "cpu" in {str(kinds[device]) for device in way}


def test_gpus_of_a_switch_share_its_way_to_the_host() -> None:
    """Four GPUs pass on a quarter each in a ring; with peer access the whole link."""
    box = {p2p: cluster("pcie_box", p2p=p2p) for p2p in (True, False)}
    rates = {p2p: find_rings(machine, 4).bandwidth for p2p, machine in box.items()}
    assert rates[True] == pytest.approx(4 * rates[False])
