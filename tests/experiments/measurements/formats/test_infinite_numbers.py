"""Numbers that are not finite, as a benchmark prints them after a time of 0, or as damage leaves
them."""

import json
from pathlib import Path

from experiments.measurements import read
from experiments.measurements.formats.json_reader import parse_json
from experiments.measurements.formats.osu_reader import parse_osu
from grouped_cases import each_case
from nccl_logs import SIZES, WHOLE, log, only, parse, rows
from refusals import refusal

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


@each_case("word", WORDS)
def test_a_log_of_such_rows_alone_is_refused_in_one_line(word: str) -> None:
    message = refusal(lambda: parse(log(*(with_word(line, "busbw", word) for line in rows()))))
    assert "4 rows with a number that is not finite: line 13, line 14, line 15, line 16" in message


def test_a_number_of_wrong_elements_without_end_is_no_number() -> None:
    lines = rows()
    lines[2] = f"{lines[2][:-5]}1e400"
    measurements = parse(log(*lines))
    assert measurements.skipped == ("1 row with a number that is not finite: line 15",)


def test_the_other_rows_are_as_they_were() -> None:
    assert only(log()) == WHOLE


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
