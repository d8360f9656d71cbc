"""CSV files of curves with rows that are refused or noted, and any text."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curve_csvs import PLAIN, POINTS, written
from experiments.measurements import Point, read
from experiments.measurements.formats.runs_csv.csv_reader import parse_csv
from grouped_cases import each_case
from topologies.errors import InputError


def test_rows_of_nothing_are_counted(tmp_path: Path) -> None:
    result = read(written(tmp_path, "run.csv", PLAIN + "0,3\n2048,0\n"))
    assert result.curves[0].points == POINTS
    assert result.skipped == ("2 rows of size or time 0: line 4, line 5",)


def test_a_bandwidth_that_disagrees_is_noted(tmp_path: Path) -> None:
    text = "size_bytes,time_us,algbw_GBps\n1048576,0.1,10.48576\n2097152,200,10.48576\n"
    (curve,) = read(written(tmp_path, "run.csv", text)).curves
    assert curve.notes == (
        "1 row whose algbw_GBps is not size_bytes / time_us (another unit?): line 2",
    )


@each_case(
    ("text", "says"),
    [
        ("", "is empty"),
        (
            "size,time\n8,1\n",
            "line 1: no column size_bytes and time_us: expected size_bytes,time_us",
        ),
        ("size_bytes;time_us\n8;1\n", "line 1: no column size_bytes and time_us"),
        ("size_bytes,time\n8,1\n", "line 1: no column time_us"),
        ("size_bytes,time_us,time_us\n8,1,1\n", "line 1: a column name twice"),
        ("size_bytes,time_us\n", "a header and no rows"),
        ("size_bytes,time_us\n0,0\n", "a header and no rows with a size and a time above 0"),
        ("size_bytes,time_us\n8,abc\n", "line 2: time_us 'abc' is not a number"),
        ("size_bytes,time_us\n8,\n", "line 2: time_us '' is not a number"),
        ("size_bytes,time_us\n8,1_0\n", "line 2: time_us '1_0' is not a number"),
        (
            "size_bytes,time_us\n\n8,nan\n",
            "line 3: time_us 'nan': expected a finite number above 0",
        ),
        ("size_bytes,time_us\n8,inf\n", "line 2: time_us 'inf': expected a finite number above 0"),
        ("size_bytes,time_us\n8,-1\n", "line 2: time_us '-1': expected a finite number above 0"),
        ("size_bytes,time_us\n-8,1\n", "line 2: size_bytes '-8': expected a finite number above 0"),
        (
            "size_bytes,time_us\n8.5,1\n",
            "line 2: size_bytes '8.5': expected a whole number of bytes",
        ),
        ("size_bytes,time_us\n64M,1\n", "line 2: size_bytes '64M' is not a number"),
        (
            "size_bytes,time_us\n8,1\n8,2\n",
            "line 3: size_bytes 8 a second time: expected each size once",
        ),
        (
            "size_bytes,time_us,rate\n8,1,5\n8,2,9\n",
            "line 3: size_bytes 8 a second time: expected each size once (put what rate says "
            "under topology)",
        ),
        ("size_bytes,time_us\n8\n", "line 2: 1 value under 2 columns"),
        ("size_bytes,time_us\n8,1,2\n", "line 2: 3 values under 2 columns"),
        (
            "size_bytes,time_us,inplace_time_us\n8,1,x\n",
            "line 2: inplace_time_us 'x' is not a number",
        ),
        (
            "size_bytes,time_us,ranks\n8,1,two\n",
            "line 2: ranks 'two': expected a whole number above 0",
        ),
        ("size_bytes,time_us,in_place\n8,1,yes\n", "line 2: in_place 'yes': expected 0 or 1"),
        ("size_bytes,time_us,in_place\n8,1,1\n8,1,1\n", "line 3: size_bytes 8 a second time"),
        ("size_bytes,time_us,cv\n8,1,-1\n", "line 2: cv '-1': expected a finite number above 0"),
        (
            "size_bytes,time_us,repetitions\n8,1,0\n",
            "line 2: repetitions '0': expected a whole number above 0",
        ),
        ("size_bytes,time_us,wrong\n8,1,1.5\n", "line 2: wrong '1.5': expected a whole number"),
        ("size_bytes,time_us,min_us\n8,1,fast\n", "line 2: min_us 'fast' is not a number"),
        ("size_bytes,time_us,nodes\n8,1,0\n", "line 2: nodes '0': expected a whole number above 0"),
        ("size_bytes,time_us\n" + "9" * 5000 + ",1\n", "line 2: size_bytes '" + "9" * 40 + "'"),
        (
            "size_bytes,time_us\n1e300,1\n",
            "line 2: size_bytes '1e300': expected a whole number of bytes below 1e18",
        ),
        ("size_bytes,time_us,ranks\n8,1," + "9" * 5000 + "\n", "line 2: ranks '" + "9" * 40 + "'"),
        (
            "size_bytes,time_us,kind\n8,1,fast\n",
            "line 2: kind 'fast': expected one of collective, latency, ",
        ),
        (
            "size_bytes,time_us,collective\n8,1,foo\n",
            "line 2: collective 'foo': expected one of all_reduce, ",
        ),
        (
            'size_bytes,time_us\n8,"' + "x" * 200_000 + "\n",
            "not a CSV: field larger than field limit",
        ),
        ("size_bytes,time_us\n8,1\0\n", "line 2: a NUL byte"),
    ],
)
def test_a_bad_csv_is_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = written(tmp_path, "run.csv", text)
    with pytest.raises(InputError) as caught:
        read(path)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_mistakes_of_a_file_are_reported_together(tmp_path: Path) -> None:
    path = written(tmp_path, "run.csv", "size_bytes,time_us\n8,a\n9,b\n10,c\n11,d\n12,e\n")
    with pytest.raises(InputError, match=r"line 2: .*; line 3: .*; line 4: .*; and 2 more$"):
        read(path)


SIZES = st.lists(st.integers(1, 2**50), min_size=1, unique=True)
TIMES = st.floats(1e-3, 1e9)


@given(SIZES, st.data())
def test_what_is_written_is_read(sizes: list[int], data: st.DataObject) -> None:
    times = [data.draw(TIMES) for _ in sizes]
    text = "size_bytes,time_us\n" + "".join(
        f"{size},{us!r}\n" for size, us in zip(sizes, times, strict=True)
    )
    (curve,) = parse_csv(text, Path("nowhere/run.csv")).curves
    assert curve.points == tuple(
        Point(size, us / 1e6) for size, us in sorted(zip(sizes, times, strict=True))
    )


@given(st.text(alphabet="size_byt,mu\n\r\"' 0123456789.-enaif;", max_size=200))
def test_any_text_is_read_or_refused(tail: str) -> None:
    try:
        curves = parse_csv("size_bytes,time_us\n" + tail, Path("nowhere/run.csv")).curves
    except InputError as error:
        message = str(error)
    else:
        message = ""
        assert all(
            point.size > 0 and point.time_s > 0 for curve in curves for point in curve.points
        )
    assert "\n" not in message
