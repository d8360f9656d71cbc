"""Benchmarks of speed: arguments, works in turn, revisions, peers, the page, and bad input."""

import csv
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from experiments import output
from experiments.benchmarks import growth, process_usage, revisions, speed, speed_page
from experiments.benchmarks.__main__ import main, parse
from experiments.benchmarks.process_usage import (
    Usage,
    alternate,
    environment,
    in_process,
    least,
    usage,
)
from experiments.benchmarks.speed_rows import ROWS, Row, select
from grouped_cases import each_case
from topologies.errors import InputError

PYTHON = (sys.executable, "-c")
TINY = Row("tiny", (*PYTHON, "pass"), 1.0, 0.5, 1e9)
BAD = Row("bad", (*PYTHON, "import sys; sys.exit('no such flag')"), 1.0)


def git(folder: Path, *line: str) -> None:
    names = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(("git", "-C", folder, *names, *line), check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose first commit is named old, with all that the comparison needs."""
    folder = tmp_path / "repository"
    (folder / "simulator" / "kernels").mkdir(parents=True)
    for name in ("", "kernels/"):
        (folder / "simulator" / name / "__init__.py").touch()
    (folder / "simulator" / "kernels" / "__main__.py").write_text("pass\n")
    (folder / "which.py").write_text("print('old')\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    git(folder, "tag", "old")
    (folder / "which.py").write_text("print('new')\n")
    return folder


@pytest.fixture
def quick_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "unit", lambda: 0.5)
    monkeypatch.setattr(revisions, "unit", lambda: 0.5)


def test_a_run_without_names_runs_what_matters_most() -> None:
    assert parse([]).names == ["speed", "cold", "growth", "startup", "engine", "commands"]
    assert parse(["machines", "steps"]).names == ["machines", "steps"]
    assert parse(["--against", "main"]).names == []
    assert parse(["--peer", "a=b {p}"]).peer == {"a": "b {p}"}
    assert parse(["--out", "."]).names == ["speed"]


@each_case(
    ("arguments", "message"),
    [
        (["sped"], "'sped' is no benchmark: speed, cold, growth, startup"),
        (["--repeats", "0"], "--repeats is 0: it is at least 1"),
        (["--repeats", "x"], "invalid int value: 'x'"),
        (["--agains", "x"], "unrecognized arguments: --agains"),
        (["--peer", "sim"], "--peer is 'sim': it is NAME=CMD"),
        (["--peer", "sim="], "--peer is 'sim=': it is NAME=CMD"),
        (["--peer", "sim=run 8"], "the command of peer 'sim' lacks {p}"),
        (["growth", "--out", "x"], "--out writes the rows of `speed`"),
        (["--out", "no/such/folder"], "--out 'no/such/folder' is no folder: make it"),
        (["speed", "--row", "no such row"], "no row has 'no such row' in its name"),
        (["speed", "--row", "--p 4096"], "takes more than a minute: add --long"),
        (["--against", "no-such-revision"], "no revision 'no-such-revision' in"),
        (["--against", "--all"], "expected one argument"),
        (["--against", ""], "no revision '' in"),
    ],
)
def test_bad_arguments_are_named_in_one_line(arguments: list[str], message: str) -> None:
    with pytest.raises(InputError) as raised:
        main(arguments)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_bad_argument_ends_the_process_with_2() -> None:
    line = (sys.executable, "-m", "experiments.benchmarks", "--against", "no-such-revision")
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("benchmarks: no revision 'no-such-revision'")


def test_all_rows_have_names_and_goals_of_their_own() -> None:
    assert len({row.work for row in ROWS}) == len(ROWS)
    assert all(row.aim is None or row.aim < row.must for row in ROWS)
    assert [row.work for row in select(["--help"], with_long=False)] == ["--help"]
    assert set(select([], with_long=True)) == set(ROWS)


def test_a_process_is_measured_with_those_it_waits_for() -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'b = bytes(9**8)'])"
    alone, waits = usage(TINY.line), usage((*PYTHON, script))
    assert min(alone.cpu, alone.elapsed) > 0
    assert waits.peak >= 9**8
    assert in_process((*PYTHON, "print(7, 1.5, 100)")) == (1.5, 1.5, 100.0, "7 1.5 100\n")


def test_a_failure_is_named_by_the_last_line_of_stderr() -> None:
    with pytest.raises(InputError, match=r"^exit code 1: no such flag$"):
        usage(BAD.line)
    with pytest.raises(InputError, match=r"^/no/such/file does not start: No such file"):
        usage(("/no/such/file",))


def test_a_process_that_takes_too_long_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_usage, "LIMIT", 0.5)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(InputError, match=r"^ended after 0 s$"):
        usage(("/bin/sh", "-c", f"sh -c 'exec tail -f /dev/null > {pipe}'; true"))
    os.set_blocking(end, True)
    assert os.read(end, 1) == b""  # nobody is left to write
    os.close(end)


def test_a_work_that_takes_long_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_usage, "ENOUGH", 0.0)
    file = tmp_path / "runs"
    alternate({"a": partial(usage, ("/bin/sh", "-c", f"echo a >> {file}"))}, 3)
    assert file.read_text() == "a\n"


def test_an_old_revision_compiles_what_its_command_needs(tmp_path: Path) -> None:
    cache = "import os; print(os.environ['SIMCTL_CACHE_DIR'])"
    done = process_usage.with_empty_cache((*PYTHON, cache), {"PYTHONPATH": str(tmp_path)})
    assert done.cpu > 0
    assert not process_usage.compiles(tmp_path)
    assert process_usage.compiles(process_usage.ROOT)


def test_works_run_in_turn_and_a_failure_once() -> None:
    order = []

    def work(name: str, seconds: float) -> Usage:
        order.append(name)
        if name == "b":
            raise InputError("lost")
        return Usage(seconds - len(order), seconds, 1.0)

    measures = {name: partial(work, name, 9.0) for name in "abc"}
    assert alternate(measures, 3) == {
        "a": (3.0, 9.0, 1.0, ""),
        "b": "lost",
        "c": (2.0, 9.0, 1.0, ""),
    }
    assert "".join(order) == "abcacac"
    assert least([Usage(1, 4, 2), Usage(3, 2, 1)]) == (1, 2, 1, "")


@pytest.mark.usefixtures("quick_unit")
def test_both_revisions_import_files_of_their_own(repository: Path) -> None:
    row = Row("which", (sys.executable, "-P", "-m", "which"), 1.0)
    with revisions.worktree("old", repository) as files:
        places = [environment(folder, repository) for folder in (files, repository)]
        assert [usage(row.line, place).printed for place in places] == ["old\n", "new\n"]
    assert not files.exists()
    table = revisions.against("old", [row, BAD], 2, repository)
    head, first, second = table.splitlines()
    assert head.split() == ["work", "old,", "y", "now,", "y", "ratio", "peak,", "ratio", "note"]
    assert first.startswith("which ")
    assert second.split(maxsplit=3) == ["bad", "fails", "fails", "exit code 1: no such flag"]
    listed = subprocess.run(
        ("git", "-C", repository, "worktree", "list"), capture_output=True, text=True, check=True
    )
    assert listed.stdout.count("\n") == 1


def test_a_row_slower_by_more_than_5_percent_has_a_note() -> None:
    old, new = Usage(1.0, 9.0, 2e6), Usage(1.2, 9.0, 1e6)
    assert speed._ratios(TINY, old, new, 0.5) == ["2.00", "2.40", "1.20", "0.50", "slower by 20%"]
    assert speed._ratios(TINY, new, old, 0.5)[2:] == ["0.83", "2.00", ""]


def test_a_folder_without_git_has_no_revision(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match="no revision 'main' in"),
        revisions.worktree("main", tmp_path),
    ):
        pass


@pytest.mark.usefixtures("quick_unit")
def test_a_peer_has_a_line_beside_simctl(tmp_path: Path) -> None:
    file = tmp_path / "called"
    rows = revisions.peer_rows({"sim": f"echo {{p}} {{size}} >> {file}"}, 1, ranks=(4, 8))
    assert [row[:2] for row in rows[1:]] == [
        ["simctl sweep", "4"],
        ["sim", "4"],
        ["simctl sweep", "8"],
        ["sim", "8"],
    ]
    assert file.read_text() == "4 67108864\n8 67108864\n"
    with pytest.raises(InputError, match=r"^the command of 'sim' fails at 4 ranks: exit code 3"):
        revisions.peer_rows({"sim": "echo no input >&2; exit 3 # {p}"}, 1, ranks=(4,))


def test_exponents_are_slopes_of_logarithms() -> None:
    points = [(p, 2 * p * (p - 1), p**1.5, 1e5 * p**2) for p in (64, 256, 1024)]
    rows = {row[0]: row[1:] for row in growth.exponents(points)}
    assert rows["CPU"] == ["1.50", "0.75"]
    assert rows["bytes"] == ["2.00", "1.00"]
    assert rows["a transfer at 1024 ranks over 256"] == ["0.50", ""]


def test_imports_are_summed_by_package() -> None:
    text = (
        "import time: self [us] | cumulative | imported package\n"
        "import time:       100 |        300 | numpy.core\n"
        "import time:       200 |        300 |   numpy\n"
        "import time:       100 |        100 | csv\n"
    )
    assert growth.imports(text)[1:] == [["numpy", "300us", "75%"], ["csv", "100us", "25%"]]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder with two measured rows and the text of the page."""
    good = speed._record(TINY, Usage(0.5, 1.0, 5e7), 0.45)
    bad = speed._record(BAD, "exit code 1: no", 0.45)
    speed_page.write(tmp_path, [good, bad], [[["p", "CPU"], ["64", "1s"]]])
    (tmp_path / speed_page.TEXT).write_text("$growth\n$rows\n")
    return tmp_path


def test_the_page_has_the_rows_of_the_csv_file(results: Path) -> None:
    text = speed_page.page(results)
    assert text.startswith("| p | CPU |\n| --- | --- |\n| 64 | 1s |\n")
    *_, good, bad = text.splitlines()
    assert good == "| tiny | cpu | 500ms | 1.11 | 500ms | 1s | 500ms | 50MB | 1GB | aim |"
    assert bad == "| bad | cpu |  |  |  | 1s |  |  |  | fails: exit code 1: no |"
    with (results / speed_page.ROWS).open(newline="") as file:
        records: list[output.Record] = list(csv.DictReader(file))
    assert speed.table(records).startswith("y = 450ms of CPU\n\nwork")


def test_goals_are_for_a_machine_whose_y_is_0_45() -> None:
    def reached(seconds: float, peak: float, y: float) -> str:
        return speed.reached(speed._record(TINY, Usage(seconds, 0, peak), y))

    assert reached(0.9, 1e8, 0.9) == "aim"
    assert reached(0.9, 1e8, 0.45) == "must"
    assert reached(1.1, 1e8, 0.45) == "no"
    assert reached(0.1, 2e9, 0.45) == "no"


@pytest.mark.parametrize(
    ("old", "new"), [("seconds", "second"), ("0.5,0.45", "x,0.45"), ("0.5,0.45", "0.5,0")]
)
def test_a_damaged_csv_file_is_named(results: Path, old: str, new: str) -> None:
    file = results / speed_page.ROWS
    file.write_text(file.read_text().replace(old, new, 1))
    with pytest.raises(InputError, match=r"rows\.csv is damaged .*: measure it anew"):
        speed_page.page(results)


def test_a_csv_file_without_rows_is_damaged(results: Path) -> None:
    file = results / speed_page.ROWS
    file.write_text(file.read_text().splitlines()[0] + "\n")
    with pytest.raises(InputError, match=r"rows\.csv is damaged"):
        speed_page.page(results)
