"""Pictures of machines: every one renders, nothing lies on anything else, and each level is a
row."""

import re
import struct
from collections import Counter
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.machine_facts import link_groups
from experiments.pictures.figures import to_bytes
from experiments.pictures.machines.level_layout import Layout
from experiments.pictures.machines.machine_layout import machine_layout
from experiments.pictures.machines.machine_picture import HALF, machine_drawing
from grouped_cases import each_case
from law_cases import a_third
from refusals import refusal
from topologies.catalogue import find
from topologies.clusters import MACHINES
from topologies.link import Link
from topologies.shapes import SHAPES, ring, torus
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder

LARGER = {
    "hgx_h100:nodes=2": 16,
    "hgx_h100:nodes=16": 128,
    "leonardo:nodes=4": 16,
    "nvl72:nodes=3,network=fat_tree": 216,
    "pcie_box:nodes=2,nics=3": 16,
    "dgx1:nics=0": 8,
    "torus:dims=3x3x3": 27,
    "hypercube": 32,
    "fat_tree": 16,
    "leaf_spine": 16,
    "dragonfly": 72,
    "line": 40,
    "star": 300,
}
MACHINE_RANKS = {name: machine.node().ranks for name, machine in MACHINES.items()}


def machine(text: str, ranks: int = 8) -> Topology:
    return find(text).build(ranks)


def texts(topology: Topology) -> list[str]:
    """Every text in the picture: SVG has it as comments."""
    return re.findall(
        r"<!-- (.*?) -->", to_bytes(machine_drawing(topology), "svg").decode(), re.DOTALL
    )


def level(topology: Topology, where: Layout, kind: str) -> list[float]:
    """The heights at which devices of a kind are drawn."""
    chosen = topology.device_kinds.are(kind)[where.devices]
    return sorted(set(where.places[chosen, 1].tolist()))


EXHAUSTIVE = pytest.param("hgx_h100:nodes=16", marks=pytest.mark.exhaustive)


@pytest.mark.parametrize(
    "text", [*a_third([*SHAPES, *MACHINES], 1), "torus:dims=3x3x3", EXHAUSTIVE]
)
def test_every_shape_and_machine_renders(text: str) -> None:
    topology = machine(
        text, {"torus:dims=3x3x3": 27, "hgx_h100:nodes=16": 128, **MACHINE_RANKS}.get(text, 8)
    )
    picture = to_bytes(machine_drawing(topology), "png")
    width, height = struct.unpack(">II", picture[16:24])
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert 600 < width < 3200
    assert 300 < height < 2500
    assert picture == to_bytes(machine_drawing(topology), "png"), "the same every time"


@each_case(("text", "ranks"), [*((s, 8) for s in SHAPES), *MACHINE_RANKS.items(), *LARGER.items()])
def test_no_device_is_drawn_over_another(text: str, ranks: int) -> None:
    where = machine_layout(machine(text, ranks))
    assert len(set(where.devices.tolist())) == len(where.devices) == len(where.places)
    left, right = where.places[:, 0] - where.widths / 2, where.places[:, 0] + where.widths / 2
    y = where.places[:, 1]
    for a, b in combinations(range(len(y)), 2):
        separate = left[a] > right[b] or left[b] > right[a] or abs(y[a] - y[b]) > 2 * HALF
        assert separate, (where.devices[a], where.devices[b])


@each_case(("text", "ranks"), [*MACHINE_RANKS.items(), *LARGER.items()])
def test_nodes_do_not_overlap_and_hold_their_devices(text: str, ranks: int) -> None:
    topology = machine(text, ranks)
    where = machine_layout(topology)
    frames = sorted(where.frames.values(), key=lambda frame: frame[0, 0])
    for left, right in pairwise(frames):
        assert left[1, 0] < right[0, 0]
    for node, (low, high) in where.frames.items():
        places = where.places[topology.node[where.devices] == node]
        assert ((places > low) & (places < high)).all()


@each_case(("text", "ranks"), MACHINE_RANKS.items())
def test_gpus_are_one_row_with_nvswitches_below_and_nics_on_top(text: str, ranks: int) -> None:
    topology = machine(text, ranks)
    where = machine_layout(topology)
    (gpus,) = level(topology, where, "gpu")
    assert [height < gpus for height in level(topology, where, "nvswitch")] in ([], [True])
    assert level(topology, where, "nic") == [where.places[:, 1].max()]


def test_levels_rise_from_gpus_to_spines() -> None:
    topology = machine("hgx_h100:nodes=2", 16)
    where = machine_layout(topology)
    rows = [
        level(topology, where, kind)
        for kind in ("nvswitch", "gpu", "pcie switch", "cpu", "nic", "switch")
    ]
    assert [len(row) for row in rows] == [1, 1, 1, 1, 1, 2]
    assert len(where.devices) == len(topology.device_names)
    assert where.left_out == ()
    assert np.concatenate(rows).tolist() == sorted(np.concatenate(rows).tolist())
    spine = where.devices.tolist().index(topology.device_names.index("spine0"))
    assert where.places[spine, 1] == rows[-1][1]


def test_levels_follow_the_links_and_not_the_names() -> None:
    builder = TopologyBuilder("renamed")
    gpus = [builder.device(f"spine{k}", "accelerator") for k in range(4)]
    edges = [builder.device(f"gpu{k}", "box") for k in range(2)]
    core = builder.device("nic0", "box")
    for k, gpu in enumerate(gpus):
        builder.connect(gpu, edges[k // 2], Link(1e9))
    for edge in edges:
        builder.connect(edge, core, Link(1e9))
    where = machine_layout(builder.build(gpus))
    assert where.places[:4, 1].tolist() == [where.places[0, 1]] * 4
    assert where.places[0, 1] < where.places[4, 1] == where.places[5, 1] < where.places[6, 1]


def test_nvlinks_of_a_hybrid_cube_mesh_are_arcs_below_the_gpus() -> None:
    topology = machine("dgx1")
    where = machine_layout(topology)
    kinds = topology.device_kinds
    mesh = [
        curve
        for (source, target), curve in where.curves.items()
        if kinds[source] == kinds[target] == "gpu"
    ]
    assert len(mesh) == 16
    assert all(curve[1:3, 1].max() < -HALF for curve in mesh)
    assert len({curve[1:3, 1].min().round(6) for curve in mesh}) > 1, "longer arcs are higher"
    leaving = Counter(tuple(end.round(6)) for curve in mesh for end in curve[[0, 3]])
    assert set(leaving.values()) == {1}, "no two leave a GPU at the same place"


def test_a_ring_is_a_circle_in_the_order_of_its_links() -> None:
    builder = TopologyBuilder("shuffled ring")
    order = [0, 3, 1, 4, 2]
    gpus = [builder.device(f"gpu{k}") for k in range(5)]
    for k, rank in enumerate(order):
        builder.connect(gpus[rank], gpus[order[(k + 1) % 5]], Link(1e9))
    places = machine_layout(builder.build(gpus)).places
    steps = np.linalg.norm(places[order] - places[np.roll(order, -1)], axis=1)
    assert np.linalg.norm(places, axis=1) == pytest.approx(np.linalg.norm(places[0]))
    assert steps == pytest.approx(steps[0])


@given(widths=st.tuples(st.integers(2, 5), st.integers(2, 5)))
def test_a_torus_lies_on_a_grid(widths: tuple[int, int]) -> None:
    ranks = widths[0] * widths[1]
    where = machine_layout(torus(ranks, bandwidth=1e9, dims=widths))
    across, down = (len(set(where.places[:, axis].tolist())) for axis in (0, 1))
    if max(widths) > 2:
        assert (down, across) == widths
        assert len(where.curves) == sum(ranks // width for width in widths if width > 2), (
            "one goes round each row"
        )


def test_the_star_has_its_switch_in_the_middle() -> None:
    where = machine_layout(machine("star", 8))
    assert where.places[-1].tolist() == [0, 0]
    assert np.linalg.norm(where.places[:-1], axis=1) == pytest.approx(
        np.linalg.norm(where.places[0])
    )


def test_the_picture_says_what_is_there() -> None:
    labels = texts(machine("dgx1"))
    assert {"gpu0", "gpu7", "cpu1", "pcie3", "nic3", "dgx1: 8 ranks"} <= set(labels)
    assert {
        "8 gpu",
        "8 nvlink: 40GB/s, 600ns",
        "8 nvlink: 20GB/s, 600ns",
        "1 upi: 6GB/s, 100ns",
    } <= set(labels)


def test_what_is_left_out_is_said() -> None:
    labels = texts(machine("hgx_h100:nodes=16", 128))
    assert {"16 x hgx_h100: 128 ranks on 16 nodes", "nodes 2 to 13 of 16 not drawn"} <= set(labels)
    assert [text for text in labels if text.startswith("node ")] == [
        "node 0",
        "node 1",
        "node 14",
        "node 15",
    ]
    assert Counter(labels)["gpu0"] == 4
    assert "128 nvlink: 370.8GB/s, 300ns" in labels, "the legend counts the whole machine"


def test_what_is_drawn_of_a_large_machine_hangs_together() -> None:
    topology = machine("nvl72:nodes=100,network=fat_tree", 7200)
    where = machine_layout(topology)
    drawn = np.zeros(len(topology.device_names), dtype=np.bool_)
    drawn[where.devices] = True
    kept = drawn[topology.source] & drawn[topology.target]
    reached = {int(where.devices[0])}
    pairs = list(zip(topology.source[kept].tolist(), topology.target[kept].tolist(), strict=True))
    while more := {target for source, target in pairs if source in reached} - reached:
        reached |= more
    assert reached == set(where.devices.tolist())
    assert len(where.devices) < 200


def test_assumed_figures_are_dashed_and_names_are_no_formulas() -> None:
    builder = TopologyBuilder("$x_{$")
    for name in ("a$_$", "0000:17:00.0"):
        builder.device(name, "g$p$u")
    builder.connect("a$_$", "0000:17:00.0", Link(1e9), assumed=True)
    topology = builder.build(["a$_$", "0000:17:00.0"])
    assert {"1 link: 1GB/s, 0s, assumed", "17:00.0"} <= set(texts(topology))
    assert b"stroke-dasharray" in to_bytes(machine_drawing(topology), "svg")
    lonely = TopologyBuilder("lonely")
    for solid in (machine("ring", 4), lonely.build([lonely.device("gpu0")])):
        assert b"stroke-dasharray" not in to_bytes(machine_drawing(solid), "svg")


def test_what_no_one_could_read_is_refused() -> None:
    assert "ring has 257 devices and 514 links: a picture of it shows at most 256" in refusal(
        machine_layout, ring(257, bandwidth=1e9)
    )


@pytest.mark.parametrize(("text", "ranks"), [("dgx1", 8), ("bus", 5), ("hgx_h100:nodes=2", 16)])
def test_groups_of_links_count_every_link_once(text: str, ranks: int) -> None:
    topology = machine(text, ranks)
    groups, group = link_groups(topology)
    assert sum(each.number * (2 if each.duplex else 1) for each in groups) == topology.links
    assert np.bincount(group[group >= 0]).tolist() == [each.number for each in groups]
    for link in np.flatnonzero(group >= 0).tolist():
        of = groups[group[link]]
        figures = (topology.link_kinds[link], topology.bandwidth[link], topology.latency[link])
        assert figures == (of.kind, of.bandwidth_Bps, of.latency_s)
