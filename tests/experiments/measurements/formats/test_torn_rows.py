"""Rows of a table that were torn, and tags of mpirun in the middle of a row."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.measurements import read
from experiments.measurements.formats import text as text_files
from experiments.measurements.formats.osu_reader import parse_osu
from experiments.measurements.formats.printed_table import values_of
from grouped_cases import each_case
from nccl_logs import (
    FOOTER,
    HEADER,
    INFO,
    SIZES,
    WHOLE,
    expected,
    log,
    only,
    parse,
    preamble,
    row,
    rows,
    same,
)
from refusals import refusal
from topologies.errors import InputError


def test_rows_of_size_zero_are_counted() -> None:
    result = parse(log(row(0, "5.12", "5.10"), *rows()))
    assert result.curves[0].points == WHOLE.points
    assert result.skipped == ("1 row of size 0: line 13",)


def test_rows_of_time_zero_are_counted() -> None:
    body = rows()
    body[0] = body[0].replace("20.31", " 0.00")
    assert parse(log(*body)).skipped == ("1 row with a time of 0 or N/A: line 13",)


def test_rows_that_contradict_themselves_are_counted() -> None:
    body = rows()
    body[2] = body[2].replace("40.57", "80.57")
    result = parse(log(*body))
    assert [point.size for point in result.curves[0].points] == [8, 1024, 16777216]
    assert result.skipped == ("1 row inconsistent (size / time is not the algbw printed): line 15",)


def test_rows_outside_a_table_are_counted() -> None:
    assert parse(log() + rows()[2] + "\n").skipped == (
        "1 row without a table header above: line 20",
    )


def test_a_table_without_rows_is_counted() -> None:
    empty = "\n".join([*preamble(), *FOOTER]) + "\n"
    assert parse(empty + log()).skipped == ("1 table without rows: line 11",)


def test_lines_too_long_are_counted_and_do_not_take_long() -> None:
    began = time.monotonic()
    for filling in ("1 ", "x", " ", "#", "1", "_perf", "\x1b[", "(", "aaaa_"):
        assert parse(filling * (3_000_000 // len(filling)) + "\n" + log()).skipped == (
            "1 line too long to read: line 1",
        )
    assert time.monotonic() - began < 5


# Torn rows


@each_case("foreign", [f"\n{INFO}\n", f"{INFO}\n", "\n"])
def test_a_row_torn_between_two_values_is_put_together_and_others_are_counted(
    foreign: str,
) -> None:
    line = rows()[1]
    ends = [at for at in range(45, len(line)) if line[at - 1] == " " != line[at - 2]]
    for column in range(len(line) + 1):
        body = rows()
        body[1] = line[:column] + foreign + line[column:]
        result = parse(log(*body))
        points = result.curves[0].points
        assert points == WHOLE.points or points == (WHOLE.points[0], *WHOLE.points[2:])
        assert len(points) == len(WHOLE.points) or column not in ends
        assert len(points) == len(WHOLE.points) or column < ends[0] or "torn" in result.skipped[0]


def test_a_row_torn_in_two_says_so() -> None:
    body = rows()
    at = body[1].rindex(" ")
    body[1] = body[1][:at] + INFO + "\n" + body[1][at:]
    curve = only(log(*body))
    assert curve.points == WHOLE.points
    assert curve.notes == ("1 row torn in two and put together again: line 14",)


def test_a_line_of_nccl_behind_the_last_value_is_no_tear() -> None:
    body = rows()
    body[1] += "node1:42:77 [0] NCCL INFO Connected all rings"
    same(log(*body))
    words = "  2e-07node1:42:77 [0] NCCL INFO", " 0e+00node1:42:77 x"
    assert [values_of(text) for text in words] == [["2e-07"], ["0e+00"]]


def test_a_header_torn_in_its_last_name_is_mended() -> None:
    for missing in range(1, 7):
        same(log().replace(HEADER, f"{HEADER[:-missing]}\n{HEADER[-missing:]}"))
        same(log().replace(HEADER, f"{HEADER[:-missing]}{INFO}\n{HEADER[-missing:]}"))


def test_halves_of_two_rows_are_not_one_row() -> None:
    body = rows()
    chimera = [body[0][:60], INFO, body[1][60:]]
    result = parse(log(*chimera, body[2], body[3]))
    assert [point.size for point in result.curves[0].points] == [131072, 16777216]
    assert result.skipped == ("1 row torn beyond repair: line 13",)


def test_a_last_row_cut_short_is_counted() -> None:
    text = "\n".join([*preamble(), *rows()])
    assert len(only(text).points) == 4
    for cut in range(1, 100):
        assert parse(text[:-cut]).curves[0].points == WHOLE.points[:3]


# Files that are no logs


@each_case(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"hello\n", "no nccl-tests table in"),
        (b"# size time algbw\n8 2 3\n", "expected a header line with size, time, algbw, busbw"),
        (b"some\nbytes\0\n", "line 2: a NUL byte"),
        ("\n".join(preamble()).encode("utf-16"), "line 1: not UTF-8|NUL"),
        (b"one\ntwo\xff\n", "line 2: not UTF-8"),
        ("\n".join(preamble()).encode(), "line 11: a table header with no rows below"),
        (log(row(0, "5.12", "5.10")).encode(), "no usable row in .*: 1 row of size 0: line 13"),
    ],
)
def test_a_file_that_is_no_log_is_refused_in_one_line(
    tmp_path: Path, data: bytes, says: str
) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(data)
    message = refusal(read, path)
    assert re.search(says, message)
    assert "run.log" in message


def test_a_file_that_is_not_there_or_a_directory_is_refused(tmp_path: Path) -> None:
    assert "no such file" in refusal(read, tmp_path / "none.log")
    assert "is a directory" in refusal(read, tmp_path)


def test_a_file_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.log"
    path.write_text(log())
    monkeypatch.setattr(text_files, "LIMIT", 100)
    assert "larger than 64 MiB" in refusal(read, path)


def test_lines_for_debugging_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NCCL prints more than 64 MiB of them. What a log says stays, with the numbers of lines."""
    chatter = (
        "node1:42:43 [0] NCCL INFO Channel 01/0 : 3[3] -> 4[4] via P2P/CUMEM",
        "node1:42:43 [0] NCCL INFO AllReduce: opCount 1 op 0 comm 0x5 [nranks=4] stream 0x7",
        "[1,0]<stdout>: node1:42:43 [0] NCCL TRACE line without end",
        "node1:42:43 [0] NCCL INFO NCCL_ALGO set by environment to Ring",
    )
    text = "".join(f"{line}\n" + "\n".join(chatter) + "\n" for line in log().splitlines())
    path = tmp_path / "run.log"
    path.write_text(text)
    whole = read(path)
    monkeypatch.setattr(text_files, "LIMIT", len(text) * 2 // 3)
    assert read(path) == whole
    assert text_files.load(path).count("\n") == text.count("\n")
    assert whole.curves[0].algorithm


TAG, OTHER, NEWER = "[1,0]<stdout>:", "[1,5]<stderr>:", "[prterun-node1-4242@1,0]<stdout>: "
CUTS = (52, 86)
"""Where nccl-tests ends what it prints at once: after the root, and after the first #wrong."""


def pieces(line: str) -> list[str]:
    return [
        line[start:end]
        for start, end in zip((0, *CUTS), (*CUTS, None), strict=True)
        if line[start:end]
    ]


def whole(line: str, tag: str) -> str:
    return f"{tag}{line}"


def glued(line: str, tag: str) -> str:
    """Every piece with a tag, all on one line."""
    return "".join(f"{tag}{piece}" for piece in pieces(line))


def glued_and_ended(line: str, tag: str) -> str:
    """As `glued`, and the line's end has a tag too."""
    return f"{glued(line, tag)}{tag}"


def with_a_stranger(line: str, tag: str) -> str:
    """Another rank writes a line after each piece but the last."""
    return f"{OTHER}{INFO}\n".join(f"{tag}{piece}" for piece in pieces(line))


def with_strangers_that_end_their_lines(line: str, tag: str) -> str:
    """The same on lines of their own."""
    return f"\n{OTHER}{INFO}\n".join(f"{tag}{piece}" for piece in pieces(line))


def with_a_stranger_amid(line: str, tag: str) -> str:
    """Another rank writes pieces in between, on the same line."""
    first, second, third = pieces(line)
    return f"{tag}{first}{OTHER}one two{tag}{second}{OTHER} three{tag}{third}"


SHAPES: list[Callable[[str, str], str]] = [
    glued,
    glued_and_ended,
    with_a_stranger,
    with_strangers_that_end_their_lines,
    with_a_stranger_amid,
]
OF_THREE_PIECES = (with_a_stranger_amid,)


def tagged(shape: Callable[[str, str], str], tag: str = TAG, body: list[str] | None = None) -> str:
    lines = [shape(line, tag) for line in (rows() if body is None else body)]
    return "\n".join(
        [*(f"{tag}{line}" for line in preamble()), *lines, *(f"{tag}{line}" for line in FOOTER), ""]
    )


@pytest.mark.parametrize("tag", [TAG, NEWER, "[12345,0]<stdout>:"])
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_put_together_whole_from_their_pieces(
    shape: Callable[[str, str], str], tag: str
) -> None:
    same(tagged(shape, tag))


def test_a_row_as_a_user_saw_it() -> None:
    """The start of the row has no tag, the others have."""
    line = rows()[3]
    first, second, third = pieces(line)
    same(log(*rows()[:3], f"{first}{TAG}{second}{TAG}{third}"))


@each_case("shape", [shape for shape in SHAPES if shape not in OF_THREE_PIECES])
def test_a_table_without_in_place_columns_is_read_too(shape: Callable[[str, str], str]) -> None:
    text = tagged(shape, body=[line[:86] for line in rows()])
    header = preamble()[-2]
    text = text.replace(header, header[: header.index("#wrong") + 6])
    assert only(text).points == expected(("20.31", "21.92", "40.57", "1311.4"))


def test_the_tag_of_another_rank_begins_another_line() -> None:
    """Two jobs at once in one file: the pieces of rank 5 are no pieces of rank 0's row."""
    line = rows()[1]
    text = tagged(whole).replace(f"{TAG}{line}", f"{TAG}{line[:52]}{OTHER}{line[52:]}")
    measurements = parse(text)
    assert [point.size for point in measurements.curves[0].points] == [
        size for size in SIZES if size != 1024
    ]
    assert measurements.skipped == ("1 row torn beyond repair: line 14",)


def test_lines_of_osu_are_put_together_too() -> None:
    body = [f"{TAG}{size:<10d}{TAG}{time:>18.2f}" for size, time in ((4, 5.1), (8, 5.2), (16, 6.0))]
    text = "\n".join(
        [
            f"{TAG}# OSU MPI Allreduce Latency Test v7.3",
            f"{TAG}# Size       Avg Latency(us)",
            *body,
            "",
        ]
    )
    measurements = parse_osu(text, "x.out")
    assert measurements.skipped == ()
    assert [(point.size, point.time_s) for point in measurements.curves[0].points] == [
        (4, 5.1 / 1e6),
        (8, 5.2 / 1e6),
        (16, 6.0 / 1e6),
    ]


TRUTH = {*WHOLE.points, *WHOLE.in_place}


@given(st.sampled_from(SHAPES), st.data())
def test_lost_lines_and_cut_ends_invent_nothing(
    shape: Callable[[str, str], str], data: st.DataObject
) -> None:
    lines = tagged(shape).split("\n")
    head = next(at for at, line in enumerate(lines) if re.search(r"\bsize\b", line)) + 1
    lost = data.draw(st.sets(st.integers(head, len(lines) - 1), max_size=6))
    text = "\n".join(line for number, line in enumerate(lines) if number not in lost)
    text = text[: data.draw(st.integers(len(text) // 2, len(text)))]
    try:
        curves = parse(text).curves
    except InputError:
        return
    measurements = {point for curve in curves for point in (*curve.points, *curve.in_place)}
    assert {(point.size, point.time_s) for point in measurements} <= {
        (point.size, point.time_s) for point in TRUTH
    }
