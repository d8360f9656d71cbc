"""Benchmarks of speed: arguments, works in turn, revisions, the page, and bad input."""

import csv
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from experiments import output
from experiments.studies import generated_pages, speed
from experiments.studies.__main__ import main, studies
from experiments.studies.speed import (
    GOALS,
    Goal,
    ProcessUsage,
    alternate,
    environment,
    select,
    usage,
)
from grouped_cases import each_case
from refusals import refusal
from topologies.errors import InputError

PYTHON = (sys.executable, "-c")
TINY = Goal("tiny", (*PYTHON, "pass"), {"must": "1", "aim": "0.5", "must_bytes": "1e9"})
MUST = {"must": "1", "aim": "", "must_bytes": ""}
BAD = Goal("bad", (*PYTHON, "import sys; sys.exit('no such flag')"), MUST)


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


def test_every_study_has_a_line_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    listed = capsys.readouterr().out
    for name, line in studies().items():
        assert line.endswith("."), name
        assert name in listed
        main([name, "--help"])
        assert f"experiments.studies {name}" in capsys.readouterr().out


@each_case(
    ("arguments", "message"),
    [
        (["sped"], "'sped' is no study: calibration, generated-pages, gloo-lab"),
        (["speed", "--repeats", "0"], "'--repeats': "),
        (["speed", "--repeats", "x"], "'--repeats': "),
        (["speed", "--agains", "x"], "No such option: --agains"),
        (["speed", "--in", "x"], "No such option: --in"),
        (["speed", "--out", "no/such/folder"], "'--out': "),
        (["speed", "--row", "no such row"], "no row has 'no such row' in its name"),
        (["speed", "--row", "--p 4096"], "takes more than a minute: add --long"),
        (["speed", "--against", "no-such-revision"], "no revision 'no-such-revision' in"),
        (["speed", "--against", ""], "no revision '' in"),
        (["plan-contention", "x"], "Invalid value for 'plans': "),
        (
            ["populations", "there", "--library", "gloo"],
            "'gloo' is not one of 'nccl', 'mpi', 'all'",
        ),
        (["populations", "there", "--out", "nowhere"], "'--out': "),
    ],
)
def test_bad_arguments_are_named_in_one_line(arguments: list[str], message: str) -> None:
    assert message in refusal(main, arguments)


def test_a_bad_argument_ends_the_process_with_2() -> None:
    line = (sys.executable, "-m", "experiments.studies", "speed", "--against", "no-such-revision")
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("studies: no revision 'no-such-revision'")


def test_all_rows_have_names_and_goals_of_their_own() -> None:
    assert len({row.work for row in GOALS}) == len(GOALS)
    limits = [row.limits for row in GOALS]
    assert all(not each["aim"] or float(each["aim"]) < float(each["must"]) for each in limits)
    assert [row.work for row in select(["--help"], with_long=False)] == ["--help"]
    assert select([], with_long=True) == [*GOALS]


def test_a_process_is_measured_with_those_it_waits_for() -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'b = bytes(9**8)'])"
    alone, waits = usage(TINY.line), usage((*PYTHON, script))
    assert min(alone.cpu, alone.elapsed) > 0
    assert waits.peak >= 9**8


def test_a_failure_is_named_by_the_last_line_of_stderr() -> None:
    assert refusal(usage, BAD.line) == "exit code 1: no such flag"
    with pytest.raises(InputError, match=r"^/no/such/file does not start: No such file"):
        usage(("/no/such/file",))


def test_a_process_that_takes_too_long_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "LIMIT", 0.5)
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
    monkeypatch.setattr(speed, "ENOUGH", 0.0)
    file = tmp_path / "runs"
    alternate({"a": partial(usage, ("/bin/sh", "-c", f"echo a >> {file}"))}, 3)
    assert file.read_text() == "a\n"


def test_works_run_in_turn_and_a_failure_once() -> None:
    order = []

    def work(name: str, seconds: float) -> ProcessUsage:
        order.append(name)
        if name == "b":
            raise InputError("lost")
        return ProcessUsage(seconds - len(order), seconds, 1.0)

    measures = {name: partial(work, name, 9.0) for name in "abc"}
    assert alternate(measures, 3) == {
        "a": (3.0, 9.0, 1.0, ""),
        "b": "lost",
        "c": (2.0, 9.0, 1.0, ""),
    }
    assert "".join(order) == "abcacac"


@pytest.mark.usefixtures("quick_unit")
def test_both_revisions_import_files_of_their_own(repository: Path) -> None:
    row = Goal("which", (sys.executable, "-P", "-m", "which"), MUST)
    with speed.files_of("old", repository) as files:
        places = [environment(folder, repository) for folder in (files, repository)]
        assert [usage(row.line, place).printed for place in places] == ["old\n", "new\n"]
    assert not files.exists()
    lines = [*speed.beside_revision("old", [row, BAD], 2, repository)]
    assert [line[:2] for line in lines] == [
        ["which", "old"],
        ["which", "now"],
        ["bad", "old"],
        ["bad", "now"],
    ]
    assert lines[0][3] == lines[0][5] == "1.00"
    assert lines[3][2:] == ["fails", "", "", "", "exit code 1: no such flag"]


@pytest.mark.usefixtures("quick_unit")
def test_a_row_slower_by_more_than_5_percent_has_a_note() -> None:
    used = {"old": ProcessUsage(1.0, 9.0, 2e6), "now": ProcessUsage(1.2, 9.0, 1e6)}
    measures = {name: partial(ProcessUsage, *each) for name, each in used.items()}
    old, now = speed.compared("work", measures, "cpu", 1)
    assert old == ["work", "old", "2.00", "1.00", "2MB", "1.00", ""]
    assert now == ["work", "now", "2.40", "1.20", "1MB", "0.50", "slower by 20%"]
    assert [line[3] for line in speed.compared("work", measures, "elapsed", 1)] == ["1.00"] * 2


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder with two measured rows and the text of the page."""
    good = speed.record(TINY, ProcessUsage(0.5, 1.0, 5e7), 0.45)
    bad = speed.record(BAD, "exit code 1: no", 0.45)
    speed._write(tmp_path, [good, bad])
    (tmp_path / "page.txt").write_text("$rows\n")
    return tmp_path


def test_the_page_has_the_rows_of_the_csv_file(results: Path) -> None:
    text = generated_pages.speed_page(results)
    *_, good, bad = text.splitlines()
    assert good == "| tiny | cpu | 500ms | 1.11 | 500ms | 1s | 500ms | 50MB | 1GB | aim |"
    assert bad == "| bad | cpu |  |  |  | 1s |  |  |  | fails: exit code 1: no |"
    with (results / speed.ROWS).open(newline="") as file:
        records: list[output.Record] = list(csv.DictReader(file))
    assert speed.table(records).startswith("y = 450ms of CPU\n\nwork")


def test_goals_are_for_a_machine_whose_y_is_0_45() -> None:
    def reached(seconds: float, peak: float, y: float) -> str:
        return speed.reached(speed.record(TINY, ProcessUsage(seconds, 0, peak), y))

    assert reached(0.9, 1e8, 0.9) == "aim"
    assert reached(0.9, 1e8, 0.45) == "must"
    assert reached(1.1, 1e8, 0.45) == "no"
    assert reached(0.1, 2e9, 0.45) == "no"
