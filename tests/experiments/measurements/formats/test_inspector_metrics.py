"""The Prometheus text of NCCL Inspector: sizes from ranges, GPUs of a job, and what is no gauge."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from experiments.measurements import Curve, doubts, read, read_all
from experiments.measurements.formats.inspector_metrics import read_metrics
from grouped_cases import each_case
from monitor_files import collective_us, gauges
from refusals import changes_of, refusal

UNITS = ("B", "KB", "MB", "GB", "TB")
GOOD = gauges(0, 103.0, 2**23, "8-9MB")


def label_of(size: int) -> str:
    """The range that Inspector prints for some bytes."""
    unit = min((size.bit_length() - 1) // 10, 4)
    low = size >> 10 * unit
    return f"{low}-{low + 1}{UNITS[unit]}"


def curve_of(text: str) -> Curve:
    (curve,) = read_metrics(text, "x.prom").measurements().curves
    return curve


def test_gpus_of_a_job_are_a_curve(tmp_path: Path) -> None:
    sizes = [2**k for k in range(13, 31)]
    for gpu in range(4):
        text = "".join(
            gauges(
                gpu, collective_us(size) * (1 + 0.1 * ((gpu + size.bit_length()) % 4)), size, label
            )
            for size in sizes
            for label in [label_of(size)]
        )
        (tmp_path / f"nccl_inspector_metrics_{gpu}.prom").write_text(text)
    measurements = read_all([tmp_path])
    (curve,) = measurements.curves
    assert (curve.collective, curve.ranks, curve.nodes) == ("all_reduce", 4, 2)
    assert [point.size for point in curve.points] == sizes
    for point in curve.points:
        assert point.time_s * 1e6 == pytest.approx(collective_us(point.size), rel=1e-5)
    assert (measurements.skipped, [*doubts([curve])]) == ((), [])
    assert "on the GPU that waits least of 4" in curve.notes[0]
    assert curve.notes[0].endswith("NCCL chose Ring_LL")


@given(st.integers(1, 2**44), st.floats(5, 1e7))
@example(8_796_083_333_334, 5.0)  # the rounded bandwidth is beyond the range
def test_a_size_is_bandwidth_times_time(size: int, time_us: float) -> None:
    """Whatever the range: within a percent, and the lower end as it is."""
    point = curve_of(gauges(0, time_us, size, label_of(size))).points[0]
    assert point.size == pytest.approx(size, rel=0.0101, abs=1)
    low = int(label_of(size).split("-")[0]) << 10 * UNITS.index(
        label_of(size).lstrip("0123456789-")
    )
    assert point.size == low or point.size > 1.005 * low


@each_case(("word", "factor"), [("AllGather", 4), ("ReduceScatter", 4), ("Broadcast", 1)])
def test_a_range_is_of_one_rank_and_a_size_of_the_array(word: str, factor: int) -> None:
    """The helper has the bus factor of an all-reduce."""
    bus = 1.0 if factor == 1 else 0.75
    text = gauges(0, 103.0, round(2**23 * factor * bus / 1.5), "8-9MB", collective=word)
    assert curve_of(text).points[0].size == 2**23 * factor


def test_a_size_that_nobody_knows_is_the_middle_of_its_range() -> None:
    wide = gauges(0, 103.0, 3 * 2**20, "1-2MB")
    lonely = "".join(line + "\n" for line in GOOD.splitlines() if "exec_time" in line)
    single = gauges(0, 103.0, 0, "8-9MB", nranks="1", n_nodes="1")
    for text, size in ((wide, 1482910), (lonely, 8897462), (single, 8897462)):
        curve = curve_of(text)
        assert curve.points[0].size == size
        assert any("size taken as the middle of its range" in doubt for doubt in doubts([curve]))


def test_the_last_of_equal_gauges_counts() -> None:
    later = gauges(0, 206.0, 2**23, "8-9MB")
    assert curve_of(GOOD + later).points[0].time_s == pytest.approx(206e-6)


def test_fewer_or_more_gpus_than_ranks_are_named() -> None:
    assert "metrics of 1 of 4 ranks: times may contain waiting" in curve_of(GOOD).notes
    many = "".join(gauges(gpu, 103.0, 2**23, "8-9MB") for gpu in range(6))
    assert "several communicators have this name: 6 GPUs, 4 ranks each" in curve_of(many).notes


def test_messages_are_of_two_ranks() -> None:
    text = GOOD.replace("nccl_bus", "nccl_p2p_bus").replace("nccl_collective", "nccl_p2p")
    text = text.replace('collective="AllReduce"', 'p2p_operation="Send"')
    curve = curve_of(text)
    assert (curve.collective, curve.ranks, curve.nodes) == ("send_recv", 2, None)


def test_comments_other_metrics_and_a_cut_line_are_left_out() -> None:
    text = f'# HELP x\n# TYPE x gauge\nnode_load1 0.5\nup{{a="b"}} 1\n\n{GOOD}{GOOD[:-3]}'
    measurements = read_metrics(text, "x.prom").measurements()
    assert measurements.skipped == (
        "line 9, the last, is cut: left out",
        "2 lines of other metrics: line 3, line 4",
    )


def test_what_has_no_size_or_time_is_named() -> None:
    zero = gauges(0, 103.0, 2**23, "0B") + gauges(1, 103.0, 2**23, "8-9MB", collective="All2All")
    idle = GOOD.splitlines()[0].replace("GPU0", "GPU5") + "\n"
    measurements = read_metrics(GOOD + zero + idle, "x.prom").measurements()
    assert measurements.skipped == (
        "4 lines of calls whose bytes are not known: line 3, line 4, line 5, line 6",
        "1 gauge without a time above 0",
    )
    assert "no usable metric of NCCL Inspector in x.prom" in refusal(
        read_metrics(zero, "x.prom").measurements
    )


@each_case(
    ("old", "new", "words"),
    changes_of("metrics of NCCL Inspector"),
)
def test_a_gauge_that_is_none_is_refused_with_its_line(old: str, new: str, words: str) -> None:
    text = refusal(read_metrics, GOOD.replace(old, new), "x.prom")
    assert text.startswith("x.prom line ")
    assert words in text


def test_a_file_of_metrics_is_read_by_its_content(tmp_path: Path) -> None:
    file = tmp_path / "scraped.txt"
    file.write_text("node_load1 0.5\n" * 10_000 + GOOD)
    assert read(file).curves[0].points[0].size == 2**23
