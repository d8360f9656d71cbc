"""The columns of a topology hold together, and nothing impossible gets into them."""

import subprocess
import sys
from dataclasses import FrozenInstanceError

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


def test_a_connection_is_two_links() -> None:
    builder, by_hand = two_gpus(), two_gpus()
    builder.connect("a", "b", Link(1e9, 1e-6, 2e-6), kind="nvlink")
    by_hand.link("a", "b", Link(1e9, 1e-6, 2e-6), kind="nvlink")
    by_hand.link("b", "a", Link(1e9, 1e-6, 2e-6), kind="nvlink")
    connected, linked = builder.build(["a", "b"]), by_hand.build(["a", "b"])
    assert connected.medium_names == linked.medium_names == ("a->b", "b->a")
    assert connected.link_kinds == linked.link_kinds == ("nvlink", "nvlink")
    for column in (
        "source",
        "target",
        "latency",
        "link_indptr",
        "link_media",
        "medium_bandwidth",
        "medium_gap",
    ):
        assert np.array_equal(getattr(connected, column), getattr(linked, column))


def test_ranks_follow_the_stated_order_and_may_share_a_device() -> None:
    builder = two_gpus()
    assert builder.build(["b", "a", "b"]).placement.tolist() == [1, 0, 1]


def test_a_topology_cannot_be_reassigned() -> None:
    topology = SHAPES["ring"](3, bandwidth=1e9)
    with pytest.raises(FrozenInstanceError):
        topology.name = "other"  # type: ignore[misc]


def test_a_built_topology_does_not_follow_its_builder() -> None:
    builder = two_gpus()
    builder.connect("a", "b", Link(1e9))
    topology = builder.build(["a", "b"])
    builder.device("c")
    builder.connect("a", "c", Link(1e9))
    assert topology.device_names == ("a", "b")
    assert len(topology.link_kinds) == 2


def test_a_device_that_is_there_twice_is_refused() -> None:
    assert "'a'" in refusal(lambda: two_gpus().device("a", "switch"))


@pytest.mark.parametrize(
    ("source", "target", "missing"), [("a", "x", "'x'"), ("x", "a", "'x'"), ("", "a", "''")]
)
def test_a_link_to_an_unknown_device_is_refused(source: str, target: str, missing: str) -> None:
    assert missing in refusal(lambda: two_gpus().link(source, target, Link(1e9)))


@pytest.mark.parametrize("ends", [("a", "a"), ("a", "b")])
def test_a_link_that_is_there_twice_or_leads_nowhere_is_refused(ends: tuple[str, str]) -> None:
    builder = two_gpus()
    builder.link("a", "b", Link(1e9))
    builder.link(*ends, Link(1e9))
    assert "->".join(ends) in refusal(lambda: builder.build(["a"]))


@each_case("bandwidth", [0.0, -0.0, -1.0, NAN, -INF])
def test_a_bandwidth_is_above_zero(bandwidth: float) -> None:
    linked, shared = two_gpus(), two_gpus()
    linked.link("a", "b", Link(bandwidth))
    shared.medium("bus", bandwidth)
    assert f"bandwidth of a->b is {bandwidth}B/s" in refusal(lambda: linked.build(["a"]))
    assert f"bandwidth of bus is {bandwidth}B/s" in refusal(lambda: shared.build(["a"]))


@each_case("seconds", [-1e-9, -1.0, NAN, INF, -INF])
def test_a_latency_and_a_gap_are_zero_or_more_and_finite(seconds: float) -> None:
    for link, message in (
        (Link(1e9, seconds), f"latency of a->b is {seconds}s"),
        (Link(1e9, gap=seconds), f"gap of a->b is {seconds}s"),
    ):
        linked = two_gpus()
        linked.link("a", "b", link)
        assert message in refusal(lambda linked=linked: linked.build(["a"]))
    shared = two_gpus()
    shared.medium("bus", 1e9, seconds)
    assert f"gap of bus is {seconds}s" in refusal(lambda: shared.build(["a"]))


@pytest.mark.parametrize("cost", [-1e-12, NAN, INF])
def test_merging_and_copying_cost_zero_or_more(cost: float) -> None:
    for column in ("reduction", "copy"):
        builder = two_gpus()
        builder.devices(["c"], "gpu", **{column: cost})
        message = refusal(lambda builder=builder: builder.build(["a"]))
        assert f"{column} of c is {cost}s/B" in message


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
