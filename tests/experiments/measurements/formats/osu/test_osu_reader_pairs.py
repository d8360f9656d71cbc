"""OSU micro-benchmarks between pairs of ranks: latencies, bandwidths, message rates."""

import re

import pytest

from experiments.measurements import Point
from grouped_cases import each_case
from osu_outputs import LATENCY, PLAIN, RATES, only, parse


def test_a_latency_is_one_way_between_two() -> None:
    result = parse(LATENCY)
    (curve,) = result.curves
    assert (curve.collective, curve.ranks, curve.device) == ("send_recv", 2, "CUDA")
    assert curve.points == (Point(1, 21.07 / 1e6), Point(4194304, 183.66 / 1e6))
    assert "Send Buffer on DEVICE (D) and Receive Buffer on HOST (H)" in curve.notes
    assert result.skipped == ("1 row of size or time 0: line 4",)


@pytest.mark.parametrize(("name", "messages"), [("Bandwidth", 1), ("Bi-Directional Bandwidth", 2)])
def test_a_bandwidth_is_no_latency(name: str, messages: int) -> None:
    text = (
        f"# OSU MPI {name} Test v5.6.2\n# Size      Bandwidth (MB/s)\n1000                 "
        f"2000.00\n"
    )
    curve = only(text)
    assert (curve.ranks, curve.points) == (2, (Point(1000, messages * 0.5e-6),))
    assert "not a latency" in curve.notes[1]


@each_case(
    ("name", "kind"),
    [
        ("Latency", "latency"),
        ("Multi Latency", "multi-pair latency"),
        ("Bandwidth", "bandwidth"),
        ("Bi-Directional Bandwidth", "bidirectional bandwidth"),
    ],
)
def test_a_curve_says_what_was_measured(name: str, kind: str) -> None:
    column = "Bandwidth (MB/s)" if kind.endswith("bandwidth") else "Latency (us)"
    curve = only(
        f"# OSU MPI {name} Test v7.4\n# Size      {column}\n1000                 2000.00\n"
    )
    assert curve.kind == kind
    assert curve.streams == kind.endswith("bandwidth")
    assert only(RATES).kind == "multi-pair bandwidth"
    assert only(PLAIN).kind == "collective"


def test_a_rate_of_all_pairs_is_shared_by_them() -> None:
    curve = only(RATES)
    assert (curve.ranks, curve.dtype) == (8, "char")
    assert curve.points == (Point(1, 0.5e-6), Point(1048576, 4 * 1048576 / 20e9))


def test_a_rate_of_nobody_knows_how_many_pairs_is_skipped() -> None:
    result = parse(PLAIN + re.sub("# .*pairs.*\n", "", RATES))
    assert len(result.curves) == 1
    assert result.skipped == ("1 table of all pairs together that does not say how many: line 10",)
