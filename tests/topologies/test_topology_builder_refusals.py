"""Impossible figures, unknown ends, names that are there twice and too many kinds are refused."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from built_columns import INF, NAN, pair, same, with_devices
from grouped_cases import each_case
from refusals import refusal
from topologies.link import Link
from topologies.topology_builder import KINDS, TopologyBuilder


@each_case("bandwidth", [0.0, -0.0, -1.0, NAN, -INF])
def test_a_bad_bandwidth_of_many_is_found(bandwidth: float) -> None:
    for figure, cables in ((bandwidth, 1.0), (1.0, [1e9, bandwidth, 1e9])):
        builder = with_devices(*"abcd")
        builder.wire([0, 1, 2], [1, 2, 3], Link(figure), cables=cables)
        message = refusal(lambda builder=builder: builder.build([]))
        first = "a->b" if figure == bandwidth or cables == 1.0 else "b->c"
        assert message == f"bandwidth of {first} is {bandwidth}B/s: it is above 0B/s"


@each_case("what", ["latency", "gap"])
@each_case("seconds", [-1e-9, NAN, INF, -INF])
def test_a_bad_time_of_many_is_found(what: str, seconds: float) -> None:
    link = replace(Link(1e9), **{what: seconds})
    builder = with_devices(*"abcd")
    builder.wire([0, 1, 2], [1, 2, 3], link)
    message = refusal(lambda: builder.build([]))
    assert message == f"{what} of a->b is {seconds}s: it is at least 0s"


def test_a_wire_may_be_infinitely_fast() -> None:
    builder = with_devices("a", "b")
    builder.wire(0, 1, Link(INF))
    assert builder.build([]).bandwidth.tolist() == [INF, INF]


@each_case("ends", [([0], [2]), ([2], [0]), ([-1], [0]), ([0, 0], [1, 5])])
def test_a_wire_to_an_unknown_device_is_refused(ends: tuple[list[int], list[int]]) -> None:
    builder = with_devices("a", "b")
    builder.wire(*ends, Link(1.0))
    assert "expected 0 to 1" in refusal(lambda: builder.build([]))


@each_case(
    ("sources", "targets", "name"),
    [
        ([0], [0], "a->a"),
        ([0, 0], [1, 1], "a->b"),
        ([0, 1], [1, 0], "a->b"),
        ([1, 2, 1], [2, 0, 2], "b->c"),
    ],
)
def test_a_wire_that_is_there_twice_or_leads_nowhere_is_refused(
    sources: list[int], targets: list[int], name: str
) -> None:
    builder = with_devices("a", "b", "c")
    builder.wire(sources, targets, Link(1.0))
    assert f"link {name} is there twice or leads nowhere" in refusal(lambda: builder.build([]))


def test_a_wire_over_a_link_is_refused() -> None:
    builder = with_devices("a", "b")
    builder.link("b", "a", Link(1.0))
    builder.wire([0], [1], Link(1.0))
    assert "link b->a is there twice" in refusal(lambda: builder.build([]))


def test_devices_that_are_there_twice_are_refused() -> None:
    assert "device 'b' is there twice" in refusal(
        lambda: with_devices("a").devices(["b", "c", "b"], "gpu")
    )
    assert "device 'a' is there twice" in refusal(
        lambda: with_devices("a").devices(["b", "a"], "gpu")
    )
    builder = with_devices("node0.gpu", "x")
    assert "device 'node0.gpu' is there twice" in refusal(lambda: builder.copies(pair(), 1))
    once = TopologyBuilder("once")
    once.copies(pair(), 2)
    assert "device 'node0.gpu' is there twice" in refusal(lambda: once.copies(pair(), 1))


@pytest.mark.parametrize(
    "call",
    [
        lambda builder: builder.devices(["b", "b"], "gpu"),
        lambda builder: builder.devices(["b", "a"], "gpu"),
        lambda builder: builder.copies(with_devices("gpu", "a").build([]), 1, ""),
    ],
)
def test_refused_devices_leave_nothing_behind(call: Callable[[TopologyBuilder], object]) -> None:
    builder = with_devices("a", "0.a")
    refusal(lambda: call(builder))
    same(builder.build(["a"]), with_devices("a", "0.a").build(["a"]))


@pytest.mark.parametrize("cost", [-1e-12, NAN, INF])
def test_merging_and_copying_cost_many_devices_zero_or_more(cost: float) -> None:
    for column in ("reduction", "copy"):
        builder = with_devices()
        builder.devices(["a", "b"], "gpu", **{column: cost})
        assert f"{cost}s/B" in refusal(lambda builder=builder: builder.build([]))


def crowded() -> TopologyBuilder:
    """As many kinds as there may be."""
    builder = TopologyBuilder("zoo")
    for kind in range(KINDS):
        builder.device(f"d{kind}", f"kind{kind}")
    return builder


def test_there_are_as_many_kinds_as_a_byte_counts() -> None:
    topology = crowded().build([])
    assert topology.device_kinds[-1] == f"kind{KINDS - 1}"
    assert "'one' is one too many: a topology has at most 127 kinds" in refusal(
        lambda: crowded().device("d", "one")
    )
    for add in (
        lambda builder: builder.wire([0], [1], Link(1.0), kind="one"),
        lambda builder: builder.link("d0", "d1", Link(1.0), kind="one"),
        lambda builder: builder.copies(pair(), 1),
    ):
        assert "one too many" in refusal(lambda add=add: add(crowded()))


def test_a_link_over_unknown_media_leaves_nothing_behind() -> None:
    builder = TopologyBuilder("two")
    for name in ("a", "b"):
        builder.device(name)
    medium = builder.medium("bus", 1.0)
    assert "crosses medium 7" in refusal(
        lambda: builder.link("a", "b", Link(1e9), media=(medium, 7))
    )
    builder.link("a", "b", Link(1e9))
    topology = builder.build([])
    _, crossed = topology.crossings(np.array([0]))
    assert topology.medium_bandwidth[crossed].tolist() == [1e9]


def test_a_link_of_one_kind_too_many_leaves_nothing_behind() -> None:
    builder = crowded()
    refusal(lambda: builder.link("d0", "d1", Link(1.0), kind="one"))
    builder.link("d0", "d1", Link(1.0), kind="kind0")
    assert builder.build([]).medium_names == ("d0->d1",)
