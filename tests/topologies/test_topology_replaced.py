"""A topology that is changed by `dataclasses.replace` passes the same checks as one that is
built."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from grouped_cases import each_case
from refusals import refusal
from topologies.link import Link
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder

NAN, INF = float("nan"), float("inf")


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
