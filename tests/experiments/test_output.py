"""Tables and files of answers, and remarks that wait for them."""

import csv
import io
import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

from experiments import output, remarks
from experiments.text_lines import visible
from extras import needs
from grouped_cases import each_case
from refusals import refusal
from simctl_process import Simctl
from topologies.errors import InputError


def test_numbers_stand_to_the_right_and_words_to_the_left() -> None:
    assert (
        output.align([["name", "n"], ["a", "1"], ["bcd", "23"]]) == "name   n\na      1\nbcd   23"
    )


def test_characters_that_steer_a_terminal_are_written_visibly(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = "a\x1b]0;t\x07b\r\x9b2J\x7f\u202ec\n\tÄ 漢 d"
    shown = "a\\x1b]0;t\\x07b\\r\\x9b2J\\x7f\\u202ec\n\tÄ 漢 d"
    output.say(text)
    output.note(text)
    assert capsys.readouterr() == (f"{shown}\n", f"note: {shown}\n")
    assert output.to_csv([{"x\x1b": text}]) == f'x\\x1b\n"{shown}"\n'


def test_json_stays_json() -> None:
    text = "".join(map(chr, range(256)))
    printed = output.to_json({"x": text})
    assert visible(printed) == printed
    assert json.loads(printed) == {"x": text}


@each_case(
    ("text", "cell"),
    [
        *((text, f"'{text}") for text in ("=1+1", "+1+1", "-2+3", "@SUM(A1)", "-x", "\t=1", "--")),
        *((text, text) for text in ("a=1", "-1.5", "+3", "-1e-5", "-12.5%", "-", "", " -", "1-2")),
        ("\r=1", "'\\r=1"),
    ],
)
def test_a_spreadsheet_takes_no_text_for_a_formula(text: str, cell: str) -> None:
    printed = output.to_csv([{"x": text, "y": -1.5, "z": None}])
    assert [*csv.reader(io.StringIO(printed))] == [["x", "y", "z"], [cell, "-1.5", ""]]


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    output.write(path, "one")
    output.write(path, b"two")
    assert path.read_text() == "two"
    assert [file.name for file in tmp_path.iterdir()] == ["x.txt"]
    blocked = tmp_path / "folder"
    blocked.mkdir()
    assert "cannot write" in refusal(output.write, blocked, "three")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["folder", "x.txt"]


@contextmanager
def files_of_at_most(nbytes: int) -> Iterator[None]:
    """As on a disk that becomes full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(("table", "meta"), [(1, 10_000), (10_000, 1), (10_000, 10_000)])
def test_a_full_disk_leaves_neither_a_table_nor_how_it_was_made(
    tmp_path: Path, table: int, meta: int
) -> None:
    path = tmp_path / "x.csv"
    with (
        files_of_at_most(1000),
        pytest.raises(InputError, match=r"^cannot write '.*x\.csv.*': File too large$"),
    ):
        output.write_table(path, [{"x": "a" * table}], "b" * meta)
    assert list(tmp_path.iterdir()) == []
    output.write_table(path, [{"x": 1}], "old")
    with files_of_at_most(1000), pytest.raises(InputError):
        output.write_table(path, [{"x": "a" * table}], "b" * meta)
    assert path.read_text() == "x\n1\n"
    assert output.meta_of(path).read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_link_leads_to_the_file_that_is_written(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    output.write(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"


def test_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / ("x" * 300), Path("/dev/null")):
        assert "cannot write" in refusal(output.check_writable, path)


@each_case("folder", ["/proc", "/proc/self/fd", "/sys", "/simctl-no-such-folder"])
def test_a_folder_that_takes_no_file_is_refused_before_any_work(folder: str) -> None:
    assert (
        refusal(output.check_writable, Path(folder) / "x.csv")
        == f"cannot write '{folder}/x.csv': name a file in a folder that can be written"
    )


def test_trying_a_folder_leaves_nothing_in_it(tmp_path: Path) -> None:
    output.check_writable(tmp_path / "x.csv", (".csv",))
    assert list(tmp_path.iterdir()) == []


def test_one_is_no_plural() -> None:
    assert [output.counted(number, "point") for number in (0, 1, 2)] == [
        "0 points",
        "1 point",
        "2 points",
    ]


def test_infinity_is_null_in_json() -> None:
    assert output.to_json([{"x": float("inf"), "y": 1}]) == '[\n {\n  "x": null,\n  "y": 1\n }\n]'


def test_progress_speaks_only_after_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("experiments.output.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    progress = output.Progress("points", stream)
    progress(1, 10)
    assert stream.getvalue() == ""
    now[0] = 2.5
    progress(2, 10)
    progress(3, 10)
    now[0] = 13.0
    progress(9, 10)
    progress(10, 10)
    assert stream.getvalue() == "points: 2 of 10\npoints: 9 of 10\n"


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_makes_room_for_a_row_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("experiments.output.time.monotonic", lambda: now[0])
    stream = Terminal()
    progress = output.Progress("points", stream)
    progress.clear()
    assert stream.getvalue() == ""
    now[0] = 2.5
    progress(2, 10, ", 3 min left")
    progress.clear()
    progress.clear()
    assert stream.getvalue() == "points: 2 of 10, 3 min left\r\033[K"


COMMANDS = {
    "sweep": ("sweep", "--algo", "ring,tree", "--p", "2..5", "--size", "8B,1GiB"),
    "train": ("train", "--model", "resnet50:batch=2", "--p", "1,2"),
}


@needs("pyarrow", "parquet")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_table_is_that_of_the_csv(command: str, simctl: Simctl, tmp_path: Path) -> None:
    for name, jobs in (("x.csv", "1"), ("x.parquet", "1"), ("y.parquet", "2")):
        done = simctl(*COMMANDS[command], "--out", tmp_path / name, "--jobs", jobs)
        assert done.returncode == 0
    table = pd.read_parquet(tmp_path / "x.parquet")
    pd.testing.assert_frame_equal(table, pd.read_parquet(tmp_path / "y.parquet"), check_exact=True)
    assert table.to_csv(index=False) == (tmp_path / "x.csv").read_text()
    assert (tmp_path / "x.parquet.meta.json").exists()


def test_without_pyarrow_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        output, "find_spec", lambda name: None if name == "pyarrow" else find_spec(name)
    )
    path = tmp_path / "x.parquet"
    assert refusal(output.check_table, path, output.TABLES) == (
        f"cannot write {str(path)!r}: this needs pyarrow, which is not installed: "
        "pip install '.[parquet]'"
    )


def test_remarks_stand_in_front_of_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    with remarks.held():
        remarks.remark("first")
        assert capsys.readouterr().err == ""
        remarks.release()
        remarks.remark("second")
        assert capsys.readouterr().err == "first\nsecond\n"


def test_a_command_without_an_answer_says_its_remarks(capsys: pytest.CaptureFixture[str]) -> None:
    with remarks.held():
        remarks.remark("first")
    assert capsys.readouterr().err == "first\n"


def test_a_mistake_drops_remarks_and_holds_no_further_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with suppress(InputError), remarks.held():
        remarks.remark("first")
        raise InputError("a mistake")
    remarks.remark("second")
    assert capsys.readouterr().err == "second\n"
