"""The columns of a topology hold together, built or replaced, and nothing impossible is in them."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from refusals import refusal
from topologies.link import Link
from topologies.shapes import SHAPES
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder

NAN, INF = float("nan"), float("inf")


def two_gpus() -> TopologyBuilder:
    builder = TopologyBuilder("pair")
    builder.device("a")
    builder.device("b")
    return builder


def check_columns(topology: Topology) -> None:
    devices, links, media = (
        len(topology.device_names),
        len(topology.link_kinds),
        len(topology.medium_names),
    )
    assert len(set(topology.device_names)) == devices == len(topology.device_kinds)
    assert topology.reduction.shape == topology.copy.shape == (devices,)
    assert topology.source.shape == topology.target.shape == topology.latency.shape == (links,)
    assert topology.medium_bandwidth.shape == topology.medium_gap.shape == (media,)
    assert topology.link_indptr.shape == (links + 1,)
    assert topology.link_indptr[0] == 0
    assert topology.link_indptr[-1] == len(topology.link_media)
    assert np.all(np.diff(topology.link_indptr) >= 1)
    for ends in (topology.source, topology.target, topology.placement):
        assert np.all((ends >= 0) & (ends < devices))
    assert np.all(topology.source != topology.target)
    assert len(set(zip(topology.source.tolist(), topology.target.tolist(), strict=True))) == links
    assert np.all((topology.link_media >= 0) & (topology.link_media < media))
    assert np.all((topology.latency >= 0) & np.isfinite(topology.latency))
    assert np.all(topology.medium_bandwidth > 0)
    assert np.all((topology.medium_gap >= 0) & np.isfinite(topology.medium_gap))
    link_media = topology.link_media[topology.link_indptr[:-1]]
    assert len(set(link_media.tolist())) == links
    names = (
        [topology.device_names[k] for k in topology.source],
        [topology.device_names[k] for k in topology.target],
    )
    assert [topology.medium_names[m] for m in link_media] == [
        f"{source}->{target}" for source, target in zip(*names, strict=True)
    ]
    for column in (
        topology.placement,
        topology.source,
        topology.target,
        topology.link_indptr,
        topology.link_media,
    ):
        assert column.dtype == np.int32
    for number in (
        topology.latency,
        topology.medium_bandwidth,
        topology.medium_gap,
        topology.reduction,
        topology.copy,
    ):
        assert number.dtype == np.float64
    assert topology.ranks == len(topology.placement)


@each_case("shape", [name for name in SHAPES if name != "hypercube"])
@each_case("ranks", [2, 3, 4, 5, 8, 13])
def test_the_columns_of_every_shape_hold_together(shape: str, ranks: int) -> None:
    topology = SHAPES[shape](ranks, bandwidth=1e9, latency=1e-6, gap=2e-6, reduction=1e-12)
    check_columns(topology)
    assert topology.ranks == ranks
    assert [topology.device_names[device] for device in topology.placement] == [
        f"gpu{rank}" for rank in range(ranks)
    ]


@st.composite
def built(
    draw: st.DrawFn,
) -> tuple[Topology, dict[tuple[str, str], tuple[float, float, float, list[int]]]]:
    """A random topology, and what was asked for: bandwidth, latency, gap and shared media by
    link."""
    count = draw(st.integers(1, 6))
    builder = TopologyBuilder("random")
    names = [
        builder.device(f"d{k}", draw(st.sampled_from(("gpu", "cpu", "nic", "switch"))))
        for k in range(count)
    ]
    number = st.sampled_from((0.0, 1e-6, 3e-6))
    media = [
        builder.medium(f"m{k}", draw(st.sampled_from((1e8, 1e9))), draw(number))
        for k in range(draw(st.integers(0, 3)))
    ]
    asked = {}
    pairs = [(source, target) for source in names for target in names if source != target]
    for ends in draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []:
        crossed = draw(st.lists(st.sampled_from(media), unique=True)) if media else []
        asked[ends] = (draw(st.sampled_from((5e8, 2e9, INF))), draw(number), draw(number), crossed)
        bandwidth, latency, gap, _ = asked[ends]
        builder.link(*ends, Link(bandwidth, latency, gap), media=crossed)
    return builder.build(draw(st.lists(st.sampled_from(names), min_size=1, max_size=5))), asked


@given(built())
def test_what_was_asked_for_is_in_the_columns_and_in_the_graph(
    case: tuple[Topology, dict[tuple[str, str], tuple[float, float, float, list[int]]]],
) -> None:
    topology, asked = case
    check_columns(topology)
    assert len(topology.link_kinds) == len(asked)
    shared = len(asked)
    for link, (ends, (bandwidth, latency, gap, crossed)) in enumerate(asked.items()):
        wire, *shared_media = topology.media_of(link).tolist()
        assert (
            topology.device_names[topology.source[link]],
            topology.device_names[topology.target[link]],
        ) == ends
        assert (topology.medium_bandwidth[wire], topology.medium_gap[wire]) == (bandwidth, gap)
        assert topology.latency[link] == latency
        assert shared_media == [shared + medium for medium in crossed]
        edge = topology.graph.edges[ends]
        assert edge["latency"] == latency
        assert edge["bandwidth"] == min(
            [bandwidth, *topology.medium_bandwidth[shared_media].tolist()]
        )
        assert edge["kind"] == "link"
    assert set(topology.graph.edges) == set(asked)
    assert list(topology.graph.nodes) == list(topology.device_names)
    assert (
        tuple(topology.graph.nodes[name]["kind"] for name in topology.device_names)
        == topology.device_kinds
    )


def test_the_graph_is_made_once_and_is_named() -> None:
    topology = SHAPES["ring"](3, bandwidth=1e9)
    assert topology.graph is topology.graph
    assert topology.graph.name == "ring"


@pytest.mark.parametrize(
    ("source", "target", "missing"), [("a", "x", "'x'"), ("x", "a", "'x'"), ("", "a", "''")]
)
def test_a_link_to_an_unknown_device_is_refused(source: str, target: str, missing: str) -> None:
    assert missing in refusal(lambda: two_gpus().link(source, target, Link(1e9)))


@each_case("medium", [-2, -1, 1, 7])
def test_a_link_across_an_unknown_medium_is_refused(medium: int) -> None:
    """-1 would be the last link's own wire: two links that share it by accident."""
    builder = two_gpus()
    builder.medium("bus", 1e9)
    refusal(lambda: builder.link("a", "b", Link(1e9), media=(medium,)))


def test_a_rank_on_an_unknown_device_is_named() -> None:
    message = refusal(lambda: two_gpus().build(["a", "c"]))
    assert "rank 1" in message
    assert "'c'" in message


def test_a_topology_loads_networkx_only_for_its_graph() -> None:
    code = (
        "import sys; from topologies.shapes import line; pair = line(2, bandwidth=1.0); "
        "before = 'networkx' in sys.modules; print(before, len(pair.graph), 'networkx' in "
        "sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False 2 True\n"


def machine() -> Topology:
    builder = TopologyBuilder("small")
    for name in ("a", "b", "c"):
        builder.device(name)
    bus = builder.medium("bus", 1e9)
    builder.link("a", "b", Link(1e9), media=[bus])
    builder.link("b", "a", Link(1e9))
    builder.connect("b", "c", Link(1e9))
    return builder.build(["a", "b", "c"])


def altered(column: str, value: Any, at: int = 0) -> Any:
    """A column of the machine with one value changed."""
    values = getattr(machine(), column).copy()
    values[at] = value
    return values


@each_case(
    ("column", "value", "at", "message"),
    [
        ("medium_bandwidth", NAN, 0, "bandwidth of a->b is nanB/s: it is above 0B/s"),
        ("medium_bandwidth", 0.0, 2, "bandwidth of b->c is 0.0B/s: it is above 0B/s"),
        ("medium_bandwidth", -1.0, 4, "bandwidth of bus is -1.0B/s: it is above 0B/s"),
        ("medium_gap", INF, 1, "gap of b->a is infs: it is at least 0s"),
        ("medium_gap", NAN, 4, "gap of bus is nans: it is at least 0s"),
        ("latency", NAN, 0, "latency of a->b is nans: it is at least 0s"),
        ("latency", -1e-6, 3, "latency of c->b is -1e-06s: it is at least 0s"),
        ("reduction", NAN, 1, "reduction of b is nans/B: it is at least 0s/B"),
        ("copy", -1.0, 2, "copy of c is -1.0s/B: it is at least 0s/B"),
        ("placement", 3, 0, "placement holds 3: expected 0 to 2"),
        ("placement", -1, 1, "placement holds -1: expected 0 to 2"),
        ("source", 7, 1, "source holds 7: expected 0 to 2"),
        ("target", -1, 0, "target holds -1: expected 0 to 2"),
        (
            "target",
            0,
            0,
            "link a->a is there twice or leads nowhere: one link a direction between two devices",
        ),
        (
            "source",
            2,
            0,
            "link c->b is there twice or leads nowhere: one link a direction between two devices",
        ),
        ("link_media", 5, 1, "link_media holds 5: expected 0 to 4"),
        (
            "link_media",
            1,
            0,
            "link_media gives link 0 the medium 1 first: its own comes first, medium 0",
        ),
        (
            "link_indptr",
            1,
            0,
            "link_indptr runs from 1 to 5: expected steps of 1 or more from 0 to 5",
        ),
        (
            "link_indptr",
            0,
            1,
            "link_indptr runs from 0 to 5: expected steps of 1 or more from 0 to 5",
        ),
    ],
)
def test_a_value_that_cannot_be_is_refused(
    column: str, value: float, at: int, message: str
) -> None:
    assert refusal(lambda: replace(machine(), **{column: altered(column, value, at)})) == message


@each_case("column", ["node", "reduction", "copy", "in_network", "latency", "assumed", "target"])
@each_case("change", [-1, 1])
def test_a_column_of_another_length_is_refused(column: str, change: int) -> None:
    values: Any = np.resize(getattr(machine(), column), len(getattr(machine(), column)) + change)
    message = refusal(lambda: replace(machine(), **{column: values}))
    rows = 3 if column in ("node", "reduction", "copy", "in_network") else 4
    assert message == (
        f"{column} has {rows + change} values: expected {rows}, one a "
        f"{'device' if rows == 3 else 'link'}"
    )


@pytest.mark.parametrize("column", ["medium_bandwidth", "medium_gap"])
def test_a_medium_more_or_less_is_refused(column: str) -> None:
    short: Any = np.ones(4)
    message = refusal(lambda: replace(machine(), **{column: short}))
    assert message == f"{column} has 4 values: expected 5, one a medium"


@each_case(
    ("column", "value", "message"),
    [
        (
            "placement",
            np.array([0.0, 1.0]),
            "placement is an array of float64: expected one of int32",
        ),
        ("placement", [0, 1], "placement is a list: expected an array of int32"),
        ("placement", np.zeros((1, 2), dtype=np.int32), "placement has 2 dimensions: expected 1"),
        (
            "latency",
            np.zeros(4, dtype=np.int64),
            "latency is an array of int64: expected one of float64",
        ),
        ("in_network", np.zeros(3), "in_network is an array of float64: expected one of bool"),
        ("paths", "shortest", "paths is 'shortest': expected first, link, hash or rail"),
        ("device_names", ("a", "a", "c"), "device 'a' is there twice: names are unique"),
        ("shared_names", (), "medium_bandwidth has 5 values: expected 4, one a medium"),
    ],
)
def test_a_column_of_another_kind_is_refused(column: str, value: Any, message: str) -> None:
    assert refusal(lambda: replace(machine(), **{column: value})) == message


def test_what_is_right_is_taken() -> None:
    changed = replace(
        machine(),
        medium_bandwidth=altered("medium_bandwidth", INF),
        placement=np.zeros(2, np.int32),
    )
    assert changed.ranks == 2
    assert changed.bandwidth.tolist() == [1e9] * 4
    assert replace(machine(), placement=np.zeros(0, np.int32)).ranks == 0


def test_only_what_changes_is_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    topology, latency = machine(), altered("latency", NAN)
    monkeypatch.setattr("topologies.topology._check_ends", None)
    changed = replace(topology, placement=np.array([2, 1, 0], dtype=np.int32))
    assert changed.placement.tolist() == [2, 1, 0]
    assert refusal(lambda: replace(changed, latency=latency)) == (
        "latency of a->b is nans: it is at least 0s"
    )
