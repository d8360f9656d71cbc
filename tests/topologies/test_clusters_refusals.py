"""Numbers of nodes, options, ports and machines that no cluster has are refused."""

import re
from typing import Any

import pytest

from grouped_cases import each_case
from joined_ports import switchless
from refusals import refusal
from topologies.clusters import MACHINES, MOST_DEVICES, cluster, joined
from topologies.link import LINKS, NETWORKS, Link, link_kind
from topologies.shapes import full_mesh_one_port
from topologies.topology_builder import TopologyBuilder

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
            "a fat_tree takes no oversubscription and no spines",
        ),
        (
            {"network": "dragonfly", "oversubscription": 2.0},
            "a dragonfly takes no oversubscription and no spines",
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
    ],
)
def test_one_node_is_asked_for_as_carefully(options: dict[str, Any]) -> None:
    assert refusal(lambda: cluster("hgx_h100", 1, **options)) == refusal(
        lambda: cluster("hgx_h100", 2, **options)
    )


@pytest.mark.parametrize(
    "options", [{"oversubscription": -1.0}, {"oversubscription": NAN}, {"spines": -1}]
)
def test_what_no_network_takes_one_node_does_not_take_either(options: dict[str, Any]) -> None:
    refusal(lambda: cluster("hgx_h100", 1, **options))


@pytest.mark.parametrize("oversubscription", [-1.0, NAN, 0.0])
def test_no_oversubscription_of_no_spines(oversubscription: float) -> None:
    refusal(lambda: cluster("hgx_h100", 2, spines=0, oversubscription=oversubscription))


@pytest.mark.parametrize("options", [{"nodes": 1.5}, {"nics": 1.5}])
def test_there_are_no_halves(options: dict[str, Any]) -> None:
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
