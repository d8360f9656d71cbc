"""Damaged logs and numbers that are not finite: no point is ever made up."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.measurements import Curve, Point, read
from experiments.measurements.formats.json_reader import parse_json
from experiments.measurements.formats.osu_reader import parse_osu
from grouped_cases import each_case
from law_cases import tries
from nccl_logs import INFO, SIZES, log, parse, rows
from refusals import refusal
from topologies.errors import InputError

LOGS = Path(__file__).parents[4] / ".." / "shared" / "measured" / "logs"
FULL = (Path(__file__).parent / "nccl_tests.log").read_text()
"""An all-reduce with wrong results and an unchecked all-to-all."""


def all_points(curves: Sequence[Curve]) -> set[Point]:
    """All points, without what may be lost while the rows are not: the number of iterations, and
    digits of the number of wrong elements, which ends a row."""
    points = [point for curve in curves for point in (*curve.points, *curve.in_place)]
    assert {point.repetitions for point in points} <= {None, 8, 20, 24, 100}
    return {
        replace(point, repetitions=None, wrong=point.wrong and bool(point.wrong))
        for point in points
    }


TRUTH = all_points(parse(FULL).curves)
PREFIXES = [
    "",
    " 0: ",
    "[1,0]<stdout>:",
    "node1: ",
    "2024-05-01 10:00:00 ",
    "12 ",
    "7",
    "# ",
    "x",
    "   3   ",
]


def check(text: str) -> None:
    """Only points that were in the undamaged log, or one line that says why there are none."""
    try:
        curves, message = parse(text).curves, ""
    except InputError as error:
        curves, message = (), str(error)
    assert "\n" not in message
    assert all_points(curves) <= TRUTH


def torn(line: str, column: int, foreign: str) -> list[str]:
    return f"{line[:column]}{foreign}\n{line[column:]}".split("\n")


LINES = FULL.splitlines()
TEARS = st.dictionaries(
    st.integers(0, len(LINES) - 1),
    st.tuples(st.integers(0, 120), st.sampled_from(["", INFO, "\n" + INFO])),
    max_size=8,
)


@tries(75, 300)
@given(st.data())
def test_all_damage_at_once_invents_nothing(data: st.DataObject) -> None:
    column = data.draw(st.integers(0, 120))
    tears = data.draw(TEARS)
    if data.draw(st.booleans()):
        tears = {number: (column, foreign) for number, (_, foreign) in tears.items()}
    pieces = [
        torn(line, *tears[number]) if number in tears else [line]
        for number, line in enumerate(LINES)
    ]
    flat = [piece for line in pieces for piece in line]
    lost = data.draw(st.sets(st.integers(0, len(flat) - 1), max_size=12))
    prefix = data.draw(st.sampled_from(PREFIXES))
    text = (
        "\n".join(prefix + piece for number, piece in enumerate(flat) if number not in lost) + "\n"
    )
    check(text[: data.draw(st.integers(0, len(text)))])


# Real logs


REAL = [
    ("abci_v100_p32.log", [("all_reduce", 32, 8, 24)]),
    ("alps_gh200_p16_aws-ofi-1.9.2.log", [("all_reduce", 16, 4, 30)]),
    (
        "h100_one_node.log",
        [
            (name, 4, 1, 10)
            for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")
        ],
    ),
    ("h100_pair_alltoall_then_sendrecv.log", [("all_to_all", 2, 2, 10), ("send_recv", 2, 2, 10)]),
]
needs_logs = pytest.mark.skipif(
    not LOGS.is_dir(), reason="the measured logs are not beside this checkout"
)


@needs_logs
@pytest.mark.parametrize(("name", "curves"), REAL)
def test_real_logs_are_read_in_full(name: str, curves: list[tuple[str, int, int, int]]) -> None:
    result = read(LOGS / name)
    assert result.skipped == ()
    assert [(c.collective, c.ranks, c.nodes, len(c.points)) for c in result.curves] == curves
    assert all(len(curve.in_place) == len(curve.points) for curve in result.curves)


@needs_logs
def test_real_logs_have_the_values_printed() -> None:
    (alps,) = read(LOGS / "alps_gh200_p16_aws-ofi-1.9.2.log").curves
    assert alps.points[0] == Point(8, 58.31 / 1e6, 0, repetitions=24)
    assert Point(16777216, 3136.5 / 1e6, 208752, repetitions=24) in alps.points
    assert alps.points[-1] == Point(4294967296, 87178 / 1e6, 0, repetitions=24)
    assert "Out of bounds values : 16 FAILED" in alps.notes
    assert (alps.device, alps.gpus_per_node, alps.dtype, alps.library) == (
        "NVIDIA GH200 120GB",
        4,
        "float",
        "",
    )
    (abci,) = read(LOGS / "abci_v100_p32.log").curves
    assert abci.points[0] == Point(4, 41.36 / 1e6, None, repetitions=100)
    assert "inferred" in abci.notes[0]
    h100 = read(LOGS / "h100_one_node.log").curves
    assert h100[3].in_place[-1] == Point(17179869184, 36437.3 / 1e6, None, repetitions=20)
    assert h100[0].notes == ("Reducing maxBytes to 26549638485 due to memory limitation",)
    assert all((curve.capped, curve.library) == (True, "NCCL 2.29.2") for curve in h100)


@needs_logs
@tries(6, 25)
@given(st.sampled_from([name for name, _ in REAL]), st.data())
def test_real_logs_cut_anywhere_invent_nothing(name: str, data: st.DataObject) -> None:
    text = (LOGS / name).read_text()
    truth = all_points(parse(text).curves)
    try:
        cut = parse(text[: data.draw(st.integers(0, len(text)))])
    except InputError:
        return
    assert all_points(cut.curves) <= truth


def test_a_header_without_a_size_is_none() -> None:
    assert "no nccl-tests table" in refusal(parse, log().replace("#       size ", "        size#"))


COLUMNS = ["time", "algbw", "busbw"]
WORDS = ["1e400", "inf", "-inf", "nan", "-nan"]


def with_word(line: str, column: str, word: str) -> str:
    """A row with a word in a column of its first place, as wide as what stood there."""
    start = 54 + {"time": 0, "algbw": 9, "busbw": 17}[column]
    width = {"time": 7, "algbw": 6, "busbw": 6}[column]
    assert line[start - 2 : start] == "  "
    return line[:start] + word.rjust(width) + line[start + width :]


@each_case("column", COLUMNS)
@each_case("word", WORDS)
def test_a_row_with_a_number_that_is_not_finite_is_named_and_left_out(
    column: str, word: str
) -> None:
    lines = rows()
    lines[1] = with_word(lines[1], column, word)
    measurements = parse(log(*lines))
    (curve,) = measurements.curves
    assert [point.size for point in curve.points] == [size for size in SIZES if size != 1024]
    assert measurements.skipped == ("1 row with a number that is not finite: line 14",)


def test_a_number_of_wrong_elements_without_end_is_no_number() -> None:
    lines = rows()
    lines[2] = f"{lines[2][:-5]}1e400"
    measurements = parse(log(*lines))
    assert measurements.skipped == ("1 row with a number that is not finite: line 15",)


def document(**cell: object) -> str:
    place = {"time": "20.0", "alg_bw": "0.0512", "bus_bw": "0.0768", "nwrong": "0"}
    good = {
        "size": 1024,
        "count": 256,
        "type": "float",
        "redop": "sum",
        "root": -1,
        "out_of_place": place,
    }
    bad = good | {"size": 2048, "count": 512, "out_of_place": place | cell}
    return json.dumps({"version": 1, "config": {"devices": []}, "results": [good, bad]}).replace(
        '"1e400"', "1e400"
    )


@each_case("value", ["1e400", float("inf"), float("-inf"), float("nan")])
@each_case("name", ["time", "alg_bw", "bus_bw", "nwrong"])
def test_a_result_with_a_number_that_is_not_finite_is_named_and_left_out(
    name: str, value: object
) -> None:
    measurements = parse_json(document(**{name: value}), "x.json")
    assert [point.size for point in measurements.curves[0].points] == [1024]
    assert measurements.skipped == ("1 row with a number that is not finite: result 2",)


@each_case("word", WORDS)
def test_osu_rows_with_a_number_that_is_not_finite_are_named(word: str) -> None:
    rows = [f"{size:<10d}{value:>18}" for size, value in ((1, "5.10"), (2, word), (4, "20.30"))]
    text = "\n".join(("# OSU MPI Bandwidth Test v7.3", "# Size      Bandwidth (MB/s)", *rows, ""))
    measurements = parse_osu(text, "x.out")
    assert [point.size for point in measurements.curves[0].points] == [1, 4]
    assert measurements.skipped == ("1 row with a number that is not finite: line 4",)


@each_case("word", WORDS)
def test_a_csv_with_such_a_time_is_refused_and_such_a_bandwidth_is_noted(
    word: str, tmp_path: Path
) -> None:
    file = tmp_path / "runs.csv"
    file.write_text(f"size_bytes,time_us\n8,{word}\n")
    assert f"line 2: time_us '{word}'" in refusal(lambda: read(file))
    file.write_text(f"size_bytes,time_us,algbw_GBps\n8,2.0,{word}\n")
    assert (
        "1 row whose algbw_GBps is not size_bytes / time_us (another unit?): line 2"
        in read(file).curves[0].notes
    )
