"""Logs of NCCL Inspector: the time of a call, damage, and what is no record."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.measurements import Curve, doubts, read, read_all
from experiments.measurements.formats.inspector_log import read_inspector
from grouped_cases import each_case
from monitor_files import SIZES, collective_us, gauges, line, log_folder, message, rank_logs, record
from nccl_logs import log
from refusals import refusal
from simctl_process import Simctl

ROOT = Path(__file__).parents[4]
GOOD = line(record(0, 1, 8192, 30))


def curve_of(*records: dict[str, Any], name: str = "x.log") -> Curve:
    lines = [line(each).encode() for each in records]
    (curve,) = read_inspector(lines, name).measurements().curves
    return curve


def called(times: Sequence[int], number: int = 1, **more: Any) -> list[dict[str, Any]]:
    """A call of 8 KiB that took each rank so many microseconds."""
    return [record(rank, number, 8192, us, **more) for rank, us in enumerate(times)]


def test_a_folder_of_ranks_is_a_curve_of_shortest_kernels(tmp_path: Path) -> None:
    folder = log_folder(tmp_path / "logs", rank_logs())
    measurements = read_all([folder])
    (curve,) = measurements.curves
    assert (curve.collective, curve.library) == ("all_reduce", "NCCL")
    assert (curve.ranks, curve.nodes, curve.gpus_per_node) == (4, 2, 2)
    assert [point.size for point in curve.points] == [*SIZES]
    for point in curve.points:
        assert point.time_s * 1e6 == pytest.approx(collective_us(point.size), abs=1)
        assert point.repetitions == 20
        assert point.min_s == collective_us(point.size) / 1e6
    assert curve.source == f"{folder}:0x7f8c"
    (note,) = curve.notes
    assert "communicator 'DP' of 4 ranks: a size has the median of 20 calls" in note
    assert measurements.skipped == ()
    assert not [*doubts([curve])]


def test_the_log_of_one_rank_may_contain_waiting(tmp_path: Path) -> None:
    folder = log_folder(tmp_path / "logs", rank_logs())
    curve = read(folder / "node1-pid4200.log").curves[0]
    assert curve.points[0].time_s * 1e6 > 50
    (doubt,) = doubts([curve])
    assert "9 sizes without a call that has the records of all ranks: times may contain" in doubt


def test_a_call_without_all_ranks_is_left_out_where_others_have_them() -> None:
    curve = curve_of(*called([30, 31, 80, 90], 1), *called([500, 700], 2))
    assert curve.points[0].time_s == pytest.approx(30e-6)
    assert curve.notes[1:] == ("1 call without the records of all ranks: left out",)


def test_a_record_that_stands_twice_counts_once() -> None:
    curve = curve_of(*called([30, 31, 80, 90], 1), record(0, 1, 8192, 35))
    assert curve.points[0].time_s == pytest.approx(30e-6)
    assert curve.points[0].repetitions == 1
    assert curve.notes[1:] == ("1 record of the same call and rank as another: left out",)


@each_case(
    ("word", "collective", "factor"),
    [
        ("AllGather", "all_gather", 4),
        ("ReduceScatter", "reduce_scatter", 4),
        ("AllReduce", "all_reduce", 1),
        ("Broadcast", "broadcast", 1),
        ("Reduce", "reduce", 1),
    ],
)
def test_bytes_are_those_of_nccl_tests(word: str, collective: str, factor: int) -> None:
    curve = curve_of(*called([30] * 4, coll=word))
    assert (curve.collective, curve.points[0].size) == (collective, 8192 * factor)
    assert any("times may be short" in note for note in curve.notes) is (
        word in ("Broadcast", "Reduce")
    )


@each_case(
    ("word", "size", "time_us", "rate", "total"),
    [
        ("AllReduce", 17179869184, 61974, 277.210914, 17179869184),
        ("ReduceScatter", 2147483648, 41057, 418.439467, 17179869184),
    ],
)
def test_bytes_and_bandwidths_of_inspectors_page_agree(
    word: str, size: int, time_us: int, rate: float, total: int
) -> None:
    """The records that Inspector's README shows, of eight ranks on one node."""
    shown = {"n_ranks": 8, "nnodes": 1, "coll": word, "coll_algobw_gbs": rate}
    curve = curve_of(record(2, 1407, size, time_us, **shown))
    assert (curve.points[0].size, curve.ranks, curve.nodes) == (total, 8, 1)


def test_records_whose_bytes_are_not_bandwidth_times_time_do_not_count() -> None:
    bad = record(0, 1, 8192, 30, coll="AllGather", coll_algobw_gbs=0.273067)
    calls = read_inspector([line(bad).encode()], "x.log")
    assert calls.uncounted == {"whose bytes are not bandwidth times time": 1}
    assert "1 record whose bytes are not" in refusal(calls.measurements)


@each_case(("hosts", "nodes"), [(1, 1), (4, 2), (2, None)])
def test_a_message_is_of_two_ranks(hosts: int, nodes: int | None) -> None:
    made = [message(rank, k, 65536, 20 + k) for rank in range(4) for k in range(3)]
    for each in made:
        each["header"]["nnodes"] = hosts
    curve = curve_of(*made)
    assert (curve.collective, curve.ranks, curve.nodes) == ("send_recv", 2, nodes)
    assert curve.points[0].time_s == pytest.approx(21e-6)
    assert curve.points[0].repetitions == 12
    assert any("waiting for the peer" in doubt for doubt in doubts([curve]))


def test_communicators_are_curves_of_their_own() -> None:
    lines = [line(each).encode() for each in (*called([30] * 4), *called([60] * 4, id="0x9"))]
    curves = read_inspector(lines, "x.log").measurements().curves
    assert [curve.source for curve in curves] == ["x.log:0x7f8c", "x.log:0x9"]
    assert [round(curve.points[0].time_s * 1e6) for curve in curves] == [30, 60]


def test_times_of_the_best_clock_count() -> None:
    gpu, cpu = called([30] * 4), called([10] * 4, 2, coll_timing_source="kernel_cpu")
    measurements = read_inspector(
        [line(each).encode() for each in (*cpu, *gpu)], "x.log"
    ).measurements()
    assert measurements.curves[0].points[0].time_s == pytest.approx(30e-6)
    assert measurements.skipped == ("4 records by kernel_cpu, where others are by kernel_gpu",)
    assert "the clock of the times is kernel_cpu, not the GPU's" in curve_of(*cpu).notes
    old = called([30] * 4)
    for each in old:
        del each["coll_perf"]["coll_timing_source"], each["header"]["comm_name"]
    assert "the clock of the times is unknown, not the GPU's" in curve_of(*old).notes


def test_what_has_no_known_bytes_or_no_time_is_counted() -> None:
    bad = [record(0, 2, 8192, 30, coll="All2All"), record(0, 3, 8192, 0), record(0, 4, 0, 9)]
    calls = read_inspector([line(each).encode() for each in (*called([30] * 4), *bad)], "x.log")
    assert calls.measurements().skipped == (
        "1 record of All2All",
        "2 records without bytes or time",
    )
    alone = read_inspector([line(bad[0]).encode()], "x.log")
    assert "no usable record of NCCL Inspector in x.log: 1 record of All2All" in refusal(
        alone.measurements
    )


@each_case(
    ("change", "words"),
    [
        ({"rank": 4}, "the rank 4: expected a whole number from 0 to 3"),
        ({"rank": -1}, "the rank -1: expected"),
        ({"rank": True}, "the rank true: expected"),
        ({"n_ranks": 0}, "the n_ranks 0: expected a whole number from 1"),
        ({"n_ranks": 4.0}, "the n_ranks 4.0: expected"),
        ({"nnodes": 5}, "the nnodes 5: expected a whole number from 1 to 4"),
        ({"id": 7}, "the id 7: expected a text"),
        ({"id": ""}, "the id '': expected a text"),
        ({"id": "\x1b[1m"}, "the id '\\x1b[1m': expected a text"),
        ({"comm_name": ["a"]}, "the comm_name a list: expected a text"),
        ({"coll": None}, "the coll none: expected a text"),
        ({"coll_sn": 2**64}, "the coll_sn 18446744073709551616: expected"),
        ({"coll_msg_size_bytes": "8"}, "the coll_msg_size_bytes '8': expected"),
        ({"coll_exec_time_us": float("nan")}, "the coll_exec_time_us nan: expected"),
        ({"coll_exec_time_us": 10**12}, "the coll_exec_time_us 1000000000000: expected"),
        ({"coll_exec_time_us": 10**400}, "the coll_exec_time_us a number of more than 60 digits"),
        ({"coll_timing_source": [[]]}, "the coll_timing_source a list: expected kernel_gpu"),
        ({"inspector_output_format_version": "v9"}, "the version 'v9': only v4.0 is known"),
    ],
)
def test_wrong_values_are_refused_with_their_line(change: dict[str, Any], words: str) -> None:
    lines = [GOOD.encode(), line(record(1, 1, 8192, 30, **change)).encode()]
    text = refusal(read_inspector, lines, "x.log")
    assert text.startswith("x.log line 2 has the ")
    assert words in text


@each_case(
    "text",
    [
        "[]",
        "7",
        "{}",
        '{"header":{},"metadata":{}}',
        '{"header":[],"metadata":{},"coll_perf":{}}',
        '{"header":{},"metadata":3,"coll_perf":{}}',
        "hello",
        "[" * 10**5,
        '{"header":' * 10**4,
        "9" * 5000,
        '{"a":1,"a":1}',
        GOOD.strip().replace('"rank":0', '"rank":0,"rank":0'),
        "\udcff\udcfe",
        "x" * (2**20 + 5),
    ],
)
def test_a_line_that_is_no_record_is_refused(text: str) -> None:
    data = f"{GOOD}{text}\n{GOOD}".encode(errors="surrogateescape")
    lines = [piece for part in data.splitlines(keepends=True) for piece in _pieces(part)]
    assert "x.log line 2 is no record of NCCL Inspector" in refusal(read_inspector, lines, "x.log")


def _pieces(data: bytes) -> list[bytes]:
    return [data[at : at + 2**20] for at in range(0, len(data), 2**20)]


@given(st.integers(1, 3000))
def test_a_log_that_is_cut_gives_its_whole_lines(length: int) -> None:
    text = "".join(line(each) for each in called([30, 40, 50, 60], 1) * 2)
    data = text.encode()[:length]
    calls = read_inspector(data.splitlines(keepends=True), "x.log")
    whole = data.count(b"\n") + (len(data) > 1 and len(data) < len(text) and text[length] == "\n")
    assert sum(map(len, calls.rows.values())) == 3 * whole
    last = data.count(b"\n") + 1
    cut = (
        [f"line {last}, the last, is cut: left out"] if whole < last and data[-1:] != b"\n" else []
    )
    assert calls.skipped == cut


def test_a_bad_log_in_a_folder_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    folder = log_folder(tmp_path / "logs", rank_logs(2))
    bad = folder / "node3-pid1.log"
    bad.write_text(GOOD + "{}\n")
    (folder / "nccl.log").write_text(log())
    measurements = read_all([folder])
    assert [curve.ranks for curve in measurements.curves] == [4, 4]
    (skipped,) = measurements.skipped
    assert skipped.startswith(f"{bad}: not read: line 2 is no record of NCCL Inspector")
    assert f"{bad} line 2" in refusal(read_all, [bad])


@each_case("text", ["".join(line(each) for each in called([30] * 4)), gauges(0, 30, 8192, "8-9KB")])
def test_a_pipe_is_read(text: str) -> None:
    """Its begin cannot be read twice. Records have the word size_bytes, as a CSV has."""
    reader, writer = os.pipe()
    os.write(writer, text.encode())
    os.close(writer)
    (curve,) = read(Path(f"/dev/fd/{reader}")).curves
    os.close(reader)
    assert curve.points[0].time_s == pytest.approx(30e-6)


def test_a_log_that_is_given_twice_counts_once(tmp_path: Path) -> None:
    folder = log_folder(tmp_path / "logs", rank_logs(2))
    measurements = read_all([folder, folder / "node1-pid4200.log"])
    assert measurements.curves[0].points[0].repetitions == 2
    assert "given twice, counted once" in measurements.skipped[0]


def test_a_cut_line_of_a_folder_is_named_with_its_file(tmp_path: Path) -> None:
    logs = rank_logs(2)
    folder = log_folder(tmp_path / "logs", [*logs[:3], logs[3][:-20]])
    measurements = read_all([folder])
    assert measurements.skipped == (
        f"{folder}/node2-pid4203.log: line 18, the last, is cut: left out",
    )


def test_the_example_is_healthy(simctl: Simctl) -> None:
    done = simctl("diagnose", ROOT / "examples" / "nccl_inspector.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    assert "0 of 1 curve abnormal" in done.stdout
