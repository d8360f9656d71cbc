"""The JSON of nccl-tests: both versions, its habits, cut anywhere, and what is no such JSON."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.measurements import Curve, Measurements, Point, read
from experiments.measurements.formats.json_reader import parse_json
from experiments.output import counted
from grouped_cases import each_case
from refusals import refusal
from topologies.errors import InputError

SIZES = (1024, 131072, 16777216)
TIMES = (21.92, 40.57, 1311.4)


def body(
    size: int, time_us: float, wrong: float | None = 0.0, factor: float = 1.5
) -> dict[str, Any]:
    algbw = size / time_us / 1e3
    return {
        "time": time_us,
        "alg_bw": round(algbw, 6),
        "bus_bw": round(factor * algbw, 6),
        "nwrong": wrong,
    }


def result(size: int, time_us: float, **more: Any) -> dict[str, Any]:
    places = {"out_of_place": body(size, time_us), "in_place": body(size, time_us - 1)}
    kind = {"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1"}
    return {**kind, **places, "actual_iterations": 20, "experiment_name": "", **more}


def device(rank: int, host: str) -> dict[str, Any]:
    where = {
        "rank": rank,
        "group": 0,
        "pid": 4242,
        "hostname": host,
        "device": rank,
        "device_hex": "0x01",
    }
    return {**where, "device_info": "NVIDIA H100 80GB HBM3"}


def document(**more: Any) -> dict[str, Any]:
    config: dict[str, Any] = {
        "nthreads": 1,
        "ngpus": 1,
        "minimum_bytes": 1024,
        "maximum_bytes": 16777216,
        "step_factor": 128,
    }
    config |= {"warmup_iters": 5, "iterations": 20, "blocking_collectives": "false"}
    config["devices"] = [device(rank, f"node{rank // 2}") for rank in range(4)]
    fields = {
        "version": 2,
        "start_time": "2025-10-14 01:02:03",
        "args": ["./build/all_reduce_perf", "-J", "out.json"],
        "env": [
            "HOME=/",
            'ODD={"results": [',
            "NCCL_ALGO=Ring",
            "NCCL_PROTO=LL128",
            "RUN=srun NCCL_ALGO=Tree x",
        ],
        "nccl_version": 22902,
        "config": config,
        "results": [result(size, us) for size, us in zip(SIZES, TIMES, strict=True)],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "end_time": "2025-10-14 01:02:13",
    }
    return {**fields, **more}


WHOLE = Curve(
    "all_reduce",
    4,
    2,
    tuple(Point(size, us / 1e6, 0, repetitions=20) for size, us in zip(SIZES, TIMES, strict=True)),
    tuple(
        Point(size, (us - 1) / 1e6, 0, repetitions=20)
        for size, us in zip(SIZES, TIMES, strict=True)
    ),
    "x.json",
    (),
    "ring",
    "LL128",
    "NCCL 2.29.2",
    2,
    device="NVIDIA H100 80GB HBM3",
    dtype="float",
    hosts=("node0", "node1"),
    variables=("NCCL_ALGO", "NCCL_PROTO"),
)


def written(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def parse(text: str) -> Measurements:
    return parse_json(text, "x.json")


def only(**more: Any) -> Curve:
    (curve,) = parse(written(document(**more))).curves
    return curve


def test_a_whole_file_is_one_curve(tmp_path: Path) -> None:
    assert parse(written(document())) == Measurements((WHOLE,), ())
    path = tmp_path / "out.json.0"
    path.write_text(json.dumps(document(), indent=2))
    assert read(path).curves == (replace(WHOLE, source=str(path)),)


def test_the_first_version_is_the_same() -> None:
    assert only(version=1) == WHOLE
    assert only(version=3).notes == ("version 3 of the JSON: known here are 1 and 2",)


def test_iterations_apart_tell_noise_and_least_time() -> None:
    more = {
        "min_us": 20.5,
        "max_us": 30.0,
        "avg_us": 22.0,
        "p99_us": 29.0,
        "cv_pct": 12.5,
        "times_us": [20.5, 23.5],
    }
    curve = only(results=[result(1024, 21.92, out_of_place_per_iter=more)])
    assert curve.points == (Point(1024, 21.92 / 1e6, 0, 0.125, 20, 20.5 / 1e6),)
    assert curve.in_place[0].cv is None


def test_a_process_of_several_gpus_lists_only_its_first() -> None:
    config = document()["config"] | {
        "ngpus": 2,
        "devices": [device(0, "node0"), device(2, "node1")],
    }
    assert only(config=config) == WHOLE
    config |= {"devices": [device(0, "node0")], "ngpus": 4}
    assert (only(config=config).ranks, only(config=config).nodes) == (4, 1)


def test_a_list_of_devices_that_busbw_contradicts_tells_no_ranks() -> None:
    curve = only(
        config=document()["config"] | {"devices": [device(0, "node0"), device(1, "node0")]}
    )
    assert (curve.ranks, curve.notes) == (
        None,
        ("number of ranks unknown: busbw is not all_reduce's on 2 ranks",),
    )


def test_cpu_times_say_so() -> None:
    row = result(1024, 21.92)
    row["out_of_place"]["cpu_time"] = row["out_of_place"].pop("time")
    curve = only(results=[row])
    assert curve.points[0].time_s == 21.92 / 1e6
    assert "cputime" in curve.notes[1]


def test_wrong_results_are_kept_and_noted() -> None:
    curve = only(results=[result(1024, 21.92, out_of_place=body(1024, 21.92, 77.0))])
    assert curve.points[0].wrong == 77
    assert "wrong results out-of-place: 1 row with #wrong above 0: result 1" in curve.notes


def test_unchecked_results_have_no_wrong_count() -> None:
    assert (
        only(results=[result(1024, 21.92, out_of_place=body(1024, 21.92, None))]).points[0].wrong
        is None
    )


def test_a_limit_that_the_tool_lowered_is_seen() -> None:
    config = document()["config"] | {"maximum_bytes": 2**34, "step_factor": 2}
    assert only(config=config).capped
    assert "lowered by the benchmark" in only(config=config).notes[0]
    unfinished = {
        name: value for name, value in document(config=config).items() if name != "end_time"
    }
    assert not parse(written(unfinished)).curves[0].capped
    assert not WHOLE.capped


def test_results_that_cannot_be_used_are_counted() -> None:
    bad = [result(0, 5.0), result(2048, 20.0, out_of_place=body(4096, 20.0)), 7, {"size": "many"}]
    bad += [
        result(4096, 20.0, out_of_place=None),
        result(8192, 20.0, out_of_place=body(8192, 20.0) | {"time": "nan"}),
    ]
    measurements = parse(written(document(results=[*bad, result(1024, 21.92)])))
    assert measurements.curves[0].points == WHOLE.points[:1]
    assert measurements.skipped == (
        "2 rows without the values expected: result 3, result 4",
        "1 row inconsistent (size / time is not the algbw printed): result 2",
        "1 row with a number that is not finite: result 6",
        "1 row of size 0: result 1",
        "1 row with a time of 0 or N/A: result 5",
    )


def test_several_tests_in_one_file() -> None:
    gather = [
        result(
            1024, 21.92, out_of_place=body(1024, 21.92, factor=0.75), in_place=None, redop="none"
        )
    ]
    text = written(document()) + "\n" + written(document(args=["all_gather_perf"], results=gather))
    first, second = parse(text).curves
    assert (first.collective, second.collective) == ("all_reduce", "all_gather")
    assert (first.source, second.source, second.algorithm) == (
        "x.json:1",
        "x.json:2",
        "ring_all_gather",
    )


@given(st.data())
def test_a_file_cut_short_keeps_its_whole_results(data: st.DataObject) -> None:
    text = written(document())
    at = data.draw(st.integers(1, len(text) - 1))
    if at < text.index(',{"size":131072'):
        with pytest.raises(InputError, match=r"not JSON, or cut short|cut short after 0 results"):
            parse(text[:at])
        return
    measurements = parse(text[:at])
    (curve,) = measurements.curves
    assert curve.points == WHOLE.points[: len(curve.points)]
    assert len(measurements.skipped) == 1
    assert measurements.skipped[0].startswith(
        f"the end of the file, cut short after {counted(len(curve.points), 'result')} ("
    )
    assert "the file ends before the test does" in curve.notes


@each_case(
    ("text", "says"),
    [
        ('{"a": 1}', "line 1: no list of results"),
        ('{"communicators": []}', "is of a job: simctl diagnose --job reads it"),
        ('{"traceEvents": []}', "is of a job: simctl diagnose --job reads it"),
        ('{"results": 3}', "no list of results"),
        ('{"results": []}', "no usable result in .*: 1 table without rows: result 1"),
        (
            '{"results": [1, null]}',
            "no usable result in .*: 2 rows without the values expected: result 1, result 2",
        ),
        ('{"version": ', "line 1: not JSON, or cut short before its results"),
        ('{"x" "results": [', "not JSON"),
        ('{"a":' + "[" * 200_000, "not JSON"),
        ('{"results": [' + "[" * 200_000, "no usable result"),
        ('{"results": [{"size": ' + "9" * 200_000 + "}]}", "no usable result"),
    ],
)
def test_what_is_no_such_json_is_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    message = refusal(read, path)
    assert re.search(says, message)
    assert len(message) < 500
