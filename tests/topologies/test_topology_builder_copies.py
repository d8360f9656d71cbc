"""Copies of a topology are its devices and links, added again and again."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from built_columns import BANDWIDTHS, SECONDS, pair, same, with_devices
from grouped_cases import each_case
from refusals import refusal
from topologies.link import Link
from topologies.shapes import SHAPES, bus
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder


@st.composite
def nodes(draw: st.DrawFn) -> Topology:
    """A node of a few devices, without shared media."""
    count = draw(st.integers(1, 4))
    builder = TopologyBuilder("node")
    kinds, flags = st.sampled_from(("gpu", "nic")), st.booleans()
    names = [
        builder.device(
            f"d{number}", draw(kinds), reduction=draw(SECONDS), in_network=draw(flags), node=7
        )
        for number in range(count)
    ]
    pairs = [(source, target) for source in names for target in names if source != target]
    for ends in draw(st.lists(st.sampled_from(pairs), unique=True, max_size=6)) if pairs else []:
        kind = draw(st.sampled_from(("nvlink", "pcie")))
        builder.link(
            *ends,
            Link(draw(BANDWIDTHS), draw(SECONDS), draw(SECONDS)),
            kind=kind,
            assumed=draw(flags),
        )
    return builder.build(names)


@given(nodes(), st.integers(0, 4), st.integers(0, 3))
def test_copies_are_the_same_devices_and_links_again_and_again(
    node: Topology, count: int, before: int
) -> None:
    at_once, one_by_one = (
        with_devices(*(f"s{number}" for number in range(before))) for _ in range(2)
    )
    starts = at_once.copies(node, count)
    size = len(node.device_names)
    assert starts.tolist() == [before + size * copy for copy in range(count)]
    for copy in range(count):
        for device, name in enumerate(node.device_names):
            one_by_one.device(
                f"node{copy}.{name}",
                node.device_kinds[device],
                reduction=float(node.reduction[device]),
                copy=float(node.copy[device]),
                node=copy,
                in_network=bool(node.in_network[device]),
            )
    for copy in range(count):
        for link in range(node.links):
            one_by_one.link(
                f"node{copy}.{node.device_names[node.source[link]]}",
                f"node{copy}.{node.device_names[node.target[link]]}",
                Link(
                    float(node.medium_bandwidth[link]),
                    float(node.latency[link]),
                    float(node.medium_gap[link]),
                ),
                kind=node.link_kinds[link],
                assumed=bool(node.assumed[link]),
            )
    same(at_once.build([]), one_by_one.build([]))


def test_copies_have_a_prefix_and_may_follow_others() -> None:
    builder = TopologyBuilder("two sorts")
    assert builder.copies(pair(), 2, "left").tolist() == [0, 2]
    assert builder.copies(pair(), 1, "right").tolist() == [4]
    assert builder.build([]).device_names == (
        *("left0.gpu", "left0.switch", "left1.gpu", "left1.switch"),
        *("right0.gpu", "right0.switch"),
    )


def test_copies_of_copies_are_copies() -> None:
    rack, hall = TopologyBuilder("rack"), TopologyBuilder("hall")
    rack.copies(pair(), 2)
    hall.copies(rack.build(["node0.gpu", "node1.gpu"]), 2, "rack")
    topology = hall.build([])
    assert topology.device_names[-1] == "rack1.node1.switch"
    assert topology.links == 8
    assert topology.medium_names[-2:] == (
        "rack1.node1.gpu->rack1.node1.switch",
        "rack1.node1.switch->rack1.node1.gpu",
    )


@each_case("shape", [shape for shape in SHAPES if shape not in ("bus", "full_mesh_one_port")])
def test_every_shape_without_shared_media_can_be_copied(shape: str) -> None:
    part = replace(SHAPES[shape](4, bandwidth=1e9, latency=1e-6), paths="first")
    builder = TopologyBuilder("pod")
    first = builder.copies(part, 3)
    topology = builder.build((first[:, None] + part.placement).ravel())
    assert topology.ranks == 12
    assert topology.links == 3 * part.links
    for node in range(3):
        ways = [part.route(0, 3), topology.route(4 * node, 4 * node + 3)]
        assert [link + node * part.links for link in ways[0]] == list(ways[1])


def test_a_topology_with_shared_media_is_not_copied() -> None:
    assert "bus has shared media (bus)" in refusal(
        lambda: TopologyBuilder("two").copies(bus(3, bandwidth=1.0), 2)
    )
