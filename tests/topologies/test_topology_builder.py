"""Columns added at once, and copies of a topology, are columns added one by one."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from built_columns import BANDWIDTHS, SECONDS, pair, same, with_devices
from grouped_cases import each_case
from refusals import refusal
from topologies.link import Link
from topologies.shapes import SHAPES, bus
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder

Pair = tuple[int, int]


# The same topology by columns and by rows.


@st.composite
def crowds(draw: st.DrawFn) -> list[tuple[str, str, float, float, int, bool]]:
    """Groups of devices that are alike: a prefix of the names, kind, γ, copy, node and
    in_network."""
    kinds = st.sampled_from(("gpu", "cpu", "nic", "pcie switch"))
    group = st.tuples(kinds, SECONDS, SECONDS, st.integers(-1, 3), st.booleans())
    return [
        (f"g{number}.", *drawn) for number, drawn in enumerate(draw(st.lists(group, max_size=4)))
    ]


@given(crowds(), st.lists(st.integers(0, 5), min_size=4, max_size=4))
def test_devices_are_device_after_device(
    crowd: list[tuple[str, str, float, float, int, bool]], sizes: list[int]
) -> None:
    at_once, one_by_one = TopologyBuilder("same"), TopologyBuilder("same")
    for (prefix, kind, reduction, copy, node, in_network), size in zip(crowd, sizes, strict=False):
        names, first = [f"{prefix}{number}" for number in range(size)], len(at_once)
        numbers = at_once.devices(
            names, kind, reduction=reduction, copy=copy, node=node, in_network=in_network
        )
        assert numbers.tolist() == list(range(first, first + size))
        for name in names:
            assert name == one_by_one.device(
                name, kind, reduction=reduction, copy=copy, node=node, in_network=in_network
            )
    same(at_once.build([]), one_by_one.build([]))


@given(st.lists(st.integers(-1, 5), max_size=6))
def test_every_device_may_have_a_node_of_its_own(nodes: list[int]) -> None:
    names = [f"d{number}" for number in range(len(nodes))]
    at_once, one_by_one = TopologyBuilder("same"), TopologyBuilder("same")
    at_once.devices(names, "gpu", node=nodes)
    for name, node in zip(names, nodes, strict=True):
        one_by_one.device(name, node=node)
    same(at_once.build(names), one_by_one.build(names))


@st.composite
def meshes(draw: st.DrawFn) -> tuple[int, list[tuple[Pair, float]]]:
    """A number of devices, and full-duplex links between some pairs: ends and cables."""
    count = draw(st.integers(2, 7))
    pairs = [(target, source) for target in range(count) for source in range(target)]
    ends = draw(st.lists(st.sampled_from(pairs), unique=True))
    return count, [(end, draw(st.sampled_from((0.5, 1.0, 3.0)))) for end in ends]


LINK = st.builds(Link, BANDWIDTHS, SECONDS, SECONDS)


@given(meshes(), LINK, st.booleans())
def test_a_wire_for_each_pair_is_a_connection_for_each(
    mesh: tuple[int, list[tuple[Pair, float]]], link: Link, assumed: bool
) -> None:
    count, links = mesh
    names = [f"d{number}" for number in range(count)]
    at_once, one_by_one = with_devices(*names), with_devices(*names)
    ends = np.array([end for end, *_ in links], dtype=np.int32).reshape(-1, 2)
    cables = [number for _, number in links]
    at_once.wire(ends[:, 0], ends[:, 1], link, cables=cables, kind="ib", assumed=assumed)
    for (source, target), number in links:
        several = replace(link, bandwidth=link.bandwidth * number)
        one_by_one.connect(names[source], names[target], several, kind="ib", assumed=assumed)
    if not links:  # a call without links names no kind
        assert at_once.build(names).links == 0
        return
    same(at_once.build(names), one_by_one.build(names))


def test_ends_of_wires_are_broadcast_and_their_figures_follow_row_by_row() -> None:
    """Two leaves and three spines: leaf 0 to each spine, then leaf 1."""
    builder = with_devices("l0", "l1", "s0", "s1", "s2")
    builder.wire([[0], [1]], [2, 3, 4], Link(1.0), cables=[[1, 2, 3], [4, 5, 6]])
    topology = builder.build([])
    assert topology.source.tolist() == [0, 2, 0, 3, 0, 4, 1, 2, 1, 3, 1, 4]
    assert topology.target.tolist() == [2, 0, 3, 0, 4, 0, 2, 1, 3, 1, 4, 1]
    assert topology.medium_bandwidth.tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]


def test_two_pairs_with_two_numbers_of_cables_have_one_each() -> None:
    """Four links and two numbers of cables: a number is of a pair, in both directions."""
    builder = with_devices("a", "b", "c")
    builder.wire([0, 1], [1, 2], Link(1.0, 3.0), cables=[1, 2])
    topology = builder.build([])
    assert topology.medium_bandwidth.tolist() == [1, 1, 2, 2]
    assert topology.latency.tolist() == [3, 3, 3, 3]


# Media.


def test_empty_calls_add_nothing() -> None:
    builder = with_devices("a")
    assert builder.devices([], "gpu").tolist() == []
    builder.wire([], [], Link(1.0))
    builder.wire(np.zeros((0, 3), dtype=np.int32), np.zeros((0, 3), dtype=np.int32), Link(1.0))
    assert builder.copies(pair(), 0).tolist() == []
    assert len(builder) == 1
    same(builder.build(["a"]), with_devices("a").build(["a"]))


def test_nothing_is_a_topology() -> None:
    topology = TopologyBuilder("nothing").build([])
    assert (topology.ranks, topology.links, topology.device_names) == (0, 0, ())
    assert len(topology.bandwidth) == len(topology.medium_names) == 0
    assert topology.graph.number_of_nodes() == 0


# Building.


def test_ranks_are_placed_by_names_or_by_numbers() -> None:
    builder = with_devices("a", "b", "c")
    by_name = builder.build(["c", "a"])
    same(by_name, builder.build(np.array([2, 0], dtype=np.int32)))
    assert by_name.placement.tolist() == [2, 0]


def test_build_takes_the_columns_over() -> None:
    """Nothing is copied, so that a hundred thousand GPUs cost no second set of columns."""
    builder = with_devices("a", "b")
    builder.connect("a", "b", Link(1e9))
    topology, successor = builder.build(["a"]), builder.build(["b"])
    for column in ("source", "target", "latency", "medium_bandwidth", "reduction", "node"):
        assert np.shares_memory(getattr(topology, column), getattr(successor, column)), column


@each_case(
    "add",
    [
        lambda builder: builder.device("c", "new"),
        lambda builder: builder.devices(["c", "d"], "gpu"),
        lambda builder: builder.link("b", "a", Link(2.0)),
        lambda builder: builder.wire([1], [2], Link(2.0)),
        lambda builder: builder.copies(pair(), 2),
        lambda builder: builder.medium("bus", 1.0),
    ],
)
def test_what_is_added_later_is_in_the_next_topology_only(
    add: Callable[[TopologyBuilder], object],
) -> None:
    late, early = with_devices("a", "b", "x"), with_devices("a", "b", "x")
    for builder in (late, early):
        builder.link("a", "b", Link(1.0, 3.0))
    built, alike = late.build(["a"]), early.build(["a"])
    add(late)
    same(built, alike)
    del built
    anew = with_devices("a", "b", "x")
    anew.link("a", "b", Link(1.0, 3.0))
    add(anew)
    same(late.build(["b"]), anew.build(["b"]))


def test_notes_and_paths_are_the_builders() -> None:
    builder = TopologyBuilder("noted", paths="hash")
    builder.notes.append("from a table")
    assert (builder.build([]).notes, builder.build([]).paths) == (("from a table",), "hash")


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
