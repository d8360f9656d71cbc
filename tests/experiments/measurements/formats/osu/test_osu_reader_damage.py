"""Damaged output of OSU micro-benchmarks: torn and lost rows, launchers' prefixes, other text."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.measurements import read
from experiments.measurements.formats.osu.osu_reader import parse_osu
from grouped_cases import each_case
from nccl_logs import INFO
from osu_outputs import (
    AVERAGE,
    AVERAGES,
    FULL,
    LATENCY,
    PLAIN,
    RATES,
    WHOLE,
    only,
    parse,
    renamed,
    seconds,
)
from topologies.errors import InputError


def test_kinds_that_are_not_known_are_counted() -> None:
    unknown_benchmarks = (
        "# OSU MPI Non-blocking Allreduce Latency Test v7.1\n# Size   Overall(us)  Compute(us)\n"
        "4   1.20   2.30\n"
    )
    barrier = "# OSU MPI Barrier Latency Test v7.1\n# Avg Latency(us)\n             5.55\n"
    result = parse(unknown_benchmarks + PLAIN + barrier)
    assert len(result.curves) == 1
    assert result.skipped == ("2 tests of a kind or with columns not known here: line 1, line 11",)


@pytest.mark.parametrize("foreign", [f"\n{INFO}\n", f"{INFO}\n", "\n"])
@pytest.mark.parametrize("text", [FULL, PLAIN])
def test_a_torn_row_is_never_taken_for_another(text: str, foreign: str) -> None:
    truth = WHOLE if text == FULL else AVERAGES
    at = text.index("1024 ")
    end = text.index("\n", at)
    for column in range(at + 1, end):
        result = parse(text[:column] + foreign + text[column:])
        points = result.curves[0].points
        assert [(point.size, point.time_s) for point in points if point not in truth] == []
        assert len(points) == 3 or "row" in result.skipped[0]


def test_tables_without_rows_are_counted() -> None:
    assert parse("".join(PLAIN.splitlines(keepends=True)[:4]) + PLAIN).skipped == (
        "1 table without rows: line 4",
    )


PREFIXES = [
    "[1,0]<stdout>:",
    " 0: ",
    "node1: ",
    "2024-05-01T10:00:00.123Z ",
    "[12:00:01] worker-0 | ",
    "> ",
]


@each_case("prefix", PREFIXES)
def test_a_launchers_prefix_on_every_line_is_taken_off(prefix: str) -> None:
    curve = only("".join(f"{prefix}{line}\n" for line in FULL.splitlines()))
    assert curve.points == WHOLE


def test_carriage_returns_colours_and_lines_of_others_do_no_harm() -> None:
    assert only(FULL.replace("\n", "\x1b[0m\r\n\x1b[32m")).points == WHOLE
    assert only(FULL.replace("\n1", f"\n{INFO}\nwarning: 7 of 9\n1")).points == WHOLE
    assert only(re.sub(" +", " ", FULL)).points == WHOLE


@each_case(
    ("text", "says"),
    [
        (
            "# OSU MPI Allreduce Latency Test v7.4\n",
            "1 test of a kind or with columns not known here: line 1",
        ),
        (
            "# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n",
            "1 table without rows: line 2",
        ),
        (
            "# OSU MPI Alltoallv Latency Test v7.4\n# Size       Avg Latency(us)\n4  1.00\n",
            "1 test of a kind or with columns",
        ),
        (
            "# OSU MPI Bandwidth Test v7\n# Size      Bandwidth (MB/s)\n4     0.00\n",
            "1 row of size or time 0: line 3",
        ),
    ],
)
def test_output_without_rows_is_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "run.out"
    path.write_text(text)
    with pytest.raises(
        InputError, match=f"no usable row of OSU micro-benchmarks in .*run.out: {says}"
    ) as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_other_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.out"
    path.write_text("hello\n")
    with pytest.raises(InputError, match="no title"):
        parse_osu(path.read_text(), str(path))
    path.write_text("")
    with pytest.raises(InputError, match="is empty"):
        read(path)


@pytest.mark.parametrize(
    "piece", ["# OSU ", "mpirun osu_ ", "1 ", "# Size ", "Latency (us) ", "x\n", "8 1.00\n"]
)
def test_a_large_file_of_garbage_is_read_soon(piece: str) -> None:
    began = time.monotonic()
    assert len(parse(PLAIN + piece * (100_000 // len(piece))).curves) == 1
    assert len(parse(PLAIN + (piece.strip() * 400 + "\n") * 200).curves) == 1
    assert time.monotonic() - began < 5


ALL = FULL + LATENCY + RATES + renamed(PLAIN, "Allgather Latency")
LINES = ALL.splitlines()


def all_points(text: str) -> set[tuple[int, float]]:
    """Sizes and times; the file refused gives none. The number of pairs may be lost, and the table
    with it."""
    try:
        curves, message = parse(text).curves, ""
    except InputError as error:
        curves, message = (), str(error)
    assert "\n" not in message
    return {(point.size, point.time_s) for curve in curves for point in curve.points}


TRUTH = all_points(ALL) | {(point.size, point.time_s) for point in seconds(AVERAGE)}


@given(st.integers(0, len(ALL)))
def test_truncation_invents_nothing(length: int) -> None:
    assert all_points(ALL[:length]) <= TRUTH


@given(st.sets(st.integers(0, len(LINES) - 1).filter(lambda line: not LINES[line].startswith("#"))))
def test_lost_rows_invent_nothing(lost: set[int]) -> None:
    assert (
        all_points(
            "\n".join(line for number, line in enumerate(LINES) if number not in lost) + "\n"
        )
        <= TRUTH
    )


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    all_points("# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n" + text)


@given(
    st.lists(
        st.sampled_from([*LINES, INFO, "   8", "0.50  1.00", "mpirun -np 4 osu_allgather"]),
        max_size=30,
    )
)
def test_lines_in_any_order_are_read_or_refused(lines: list[str]) -> None:
    all_points("\n".join(lines))
