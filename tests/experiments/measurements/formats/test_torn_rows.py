import re
import time
from pathlib import Path

import pytest

from experiments.measurements import read
from experiments.measurements.formats import text as text_files
from grouped_cases import each_case
from nccl_logs import FOOTER, HEADER, INFO, WHOLE, cell, log, only, parse, preamble, row, rows, same
from refusals import refusal

# Rows that are not to be used


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


@pytest.mark.parametrize(
    "row",
    [
        0,
        pytest.param(1, marks=pytest.mark.exhaustive),
        pytest.param(2, marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.parametrize("foreign", [f"\n{INFO}\n", f"{INFO}\n", "\n", "10.0.0.1:7: warning\n"])
def test_a_row_torn_anywhere_is_put_together(row: int, foreign: str) -> None:
    for column in range(len(rows()[row]) + 1):
        body = rows()
        body[row] = body[row][:column] + foreign + body[row][column:]
        same(log(*body))


def test_a_row_torn_in_two_says_so() -> None:
    body = rows()
    body[1] = body[1][:60] + INFO + "\n" + body[1][60:]
    curve = only(log(*body))
    assert curve.points == WHOLE.points
    assert curve.notes == ("1 row torn in two and put together again: line 14",)


def test_a_header_torn_in_its_last_name_is_mended() -> None:
    for missing in range(1, 7):
        same(log().replace(HEADER, f"{HEADER[:-missing]}\n{HEADER[-missing:]}"))
        same(log().replace(HEADER, f"{HEADER[:-missing]}{INFO}\n{HEADER[-missing:]}"))


def test_a_torn_row_with_a_prefix_on_both_pieces() -> None:
    body = rows()
    body[1] = body[1][:60] + "\n" + INFO + "\n" + body[1][60:]
    text = log(*body)
    assert (
        only("".join(f"[1,0]<stdout>:{line}\n" for line in text.splitlines())).points
        == WHOLE.points
    )


def test_a_torn_row_that_lost_a_piece_is_counted() -> None:
    body = rows()
    first, second = body[1][:60], body[3][60:]
    result = parse(log(body[0], first, INFO, body[2], INFO, second))
    assert [point.size for point in result.curves[0].points] == [8, 131072]
    assert result.skipped == ("2 rows torn beyond repair: line 14, line 18",)


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


def test_a_wrong_count_cut_short_is_not_taken_for_whole() -> None:
    text = "\n".join(
        [*preamble(), *rows()[:3], row(16777216, "1311.4") + cell(16777216, "1302.7", "12345")]
    )
    assert only(text + "\n").in_place[-1].wrong == 12345
    assert len(only(text).in_place) == 3


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


@pytest.mark.parametrize(
    "piece", ["garbage 1 2 3\n", "1 ", "x", "8 2 float sum -1 20.31 0.00 0.00 0\n"]
)
def test_a_large_file_of_garbage_is_refused_soon(piece: str) -> None:
    text = piece * (20_000_000 // len(piece))
    began = time.monotonic()
    assert "no nccl-tests table" in refusal(parse, text)
    assert time.monotonic() - began < 5
