"""Files of algorithms: `simctl algos import` and `export`, `--algo-file`, and wrong ones, drawn."""

import json
from pathlib import Path

import pytest

from csv_texts import rows_of
from msccl_texts import SHAPES
from simctl_process import Simctl, mistake


def test_an_exported_algorithm_is_imported_and_run(command: Simctl, tmp_path: Path) -> None:
    export = ("algos", "export", "ring", "--p", "4", "--format", "msccl")
    printed = command(*export, cwd=tmp_path)
    assert command(*export, "--out", "mine.xml", cwd=tmp_path).returncode == 0
    assert (tmp_path / "mine.xml").read_text() == printed.stdout
    done = command("algos", "import", "mine.xml", "--format", "json", cwd=tmp_path)
    (facts,) = json.loads(done.stdout)
    assert facts["collective"] == "all_reduce"
    assert facts["deadlock without FIFO slots"] == "none"
    assert facts["proof"] == "right on 4 ranks"
    summary = json.loads(
        command("run", "--algo-file", "mine.xml", "--format", "json", cwd=tmp_path).stdout
    )["summary"]
    assert (summary["algorithm"], summary["ranks"]) == ("ring.xml", 4)
    again = command("algos", "export", "--algo-file", "mine.xml", cwd=tmp_path)
    assert again.stdout == printed.stdout


def test_import_prints_a_table_and_refuses_what_is_wrong(command: Simctl, tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(SHAPES["ring"])
    (tmp_path / "b.xml").write_text(SHAPES["ring"].replace('type="rrcs"', 'type="rcs"'))
    assert "right on 3 ranks" in command("algos", "import", "a.xml", cwd=tmp_path).stdout
    assert mistake(command("algos", "import", "b.xml", cwd=tmp_path)).startswith(
        "simctl: b.xml: small is wrong on 3 ranks: rank 0, slot 0"
    )


def test_a_sweep_takes_the_ranks_of_the_file(command: Simctl, tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(SHAPES["ring"])
    done = command("sweep", "--algo-file", "a.xml", "--algo", "naive", cwd=tmp_path)
    assert [line.split()[:2] for line in done.stdout.splitlines()[3:5]] == [
        ["naive", "3"],
        ["small", "3"],
    ]


def test_an_algorithm_is_exported_for_a_machine(command: Simctl, tmp_path: Path) -> None:
    export = ("algos", "export", "optimal", "--topology", "dgx1")
    done = command(*export, "--out", "mine.xml", cwd=tmp_path)
    assert done.returncode == 0
    assert "pieces of each chunk: this is optimal:segments=1" in done.stderr
    assert "right on 8 ranks" in command("algos", "import", "mine.xml", cwd=tmp_path).stdout


def test_goal_is_written_and_read(command: Simctl, tmp_path: Path) -> None:
    export = ("algos", "export", "ring", "--p", "9", "--format", "goal", "--size", "9KB")
    assert command(*export, "--out", "ring9.goal", cwd=tmp_path).returncode == 0
    facts = command("algos", "import", "ring9.goal", cwd=tmp_path).stdout
    assert "not proven, as GOAL carries no data" in facts
    assert "144kB" in facts
    done = command("run", "--algo-file", "ring9.goal:o=1us", "--format", "json", cwd=tmp_path)
    summary = json.loads(done.stdout)["summary"]
    assert (summary["ranks"], summary["steps"], summary["volume_B"]) == (9, 16, 144000.0)


MINE = """
from simulator.collectives.declaration import algorithm
from simulator.schedules.schedule_builder import ScheduleBuilder

def declare(name, first):
    def fan(ranks, nbytes):
        star = ScheduleBuilder(ranks, nbytes)
        for rank in range(1, ranks):
            star.reduce(rank, 0, slot=0)
        for rank in range(first, ranks):
            star.copy(0, rank, slot=0)
        return star.build()
    fan.__name__ = name
    return algorithm("all_reduce")(fan)

ALGORITHMS = [declare("fan", 1), declare("wrong", 2)]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


def test_run_proves_and_times_the_function(command: Simctl, folder: Path) -> None:
    done = command("run", "--algo-file", "mine.py:fan", "--p", "4", "--format", "json", cwd=folder)
    summary = json.loads(done.stdout)["summary"]
    assert (done.returncode, summary["algorithm"]) == (0, "fan")
    assert (summary["formula_s"], summary["steps_formula"]) == (None, None)
    assert summary["verdict"] == "not claimed: no formula"


def test_a_wrong_function_is_drawn(command: Simctl, folder: Path) -> None:
    options = ("--algo-file", "mine.py:wrong", "--p", "4", "--timeline", "wrong.png")
    line = mistake(command("run", *options, cwd=folder))
    assert "rank 1, slot 0 misses the contribution of rank 0, slot 0" in line
    assert "(drawn in wrong.png)" in line
    assert (folder / "wrong.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_sweep_compares_it_with_others(command: Simctl, folder: Path, jobs: str) -> None:
    files = ("--algo-file", "mine.py:fan", "--algo-file", "mine.py:wrong")
    options = ("--algo", "naive", *files, "--p", "3,4", "--jobs", jobs, "--out", "out.csv")
    done = command("sweep", *options, "--format", "csv", cwd=folder)
    rows = rows_of(done.stdout)
    assert [(row["algorithm"], row["ranks"], row["formula_s"] == "") for row in rows] == [
        ("naive", "3", False),
        ("naive", "4", False),
        ("fan", "3", True),
        ("fan", "4", True),
    ]
    assert done.returncode == 2
    assert "wrong is wrong on 3 ranks" in done.stderr
    parameters = json.loads((folder / "out.csv.meta.json").read_text())["parameters"]
    assert parameters["algo_file"] == "mine.py:fan,mine.py:wrong"


def test_groups_say_which_sizes_a_file_is_not_made_for(command: Simctl, folder: Path) -> None:
    (folder / "a.xml").write_text(SHAPES["ring"].replace("<algo", '<algo maxBytes="4096"', 1))
    options = ("--groups", "0-2;3-5 1KiB;6-8 2MiB", "--p", "9", "--size", "8KiB")
    done = command("run", "--algo-file", "a.xml", *options, cwd=folder)
    assert (done.returncode, done.stderr) == (
        0,
        "note: a.xml: small is made for 0 to 4096 B, not for 8KiB, 2MiB\n",
    )


def test_train_reduces_gradients_with_it(command: Simctl, folder: Path) -> None:
    options = ("train", "--model", "vgg16", "--p", "4", "--format", "csv", "--algo-file")
    done = command(*options, "mine.py:fan", cwd=folder)
    assert done.returncode == 0
    assert command(*options, "mine.py:wrong", cwd=folder).returncode == 2
    both = command(*options, "mine.py:fan", "--strategy", "ddp:algo=ring", cwd=folder)
    assert "leave out one" in both.stderr


def test_groups_run_it_once_it_is_proven(command: Simctl, folder: Path) -> None:
    options = ("run", "--groups", "0-1;2-3", "--format", "json", "--algo-file")
    assert command(*options, "mine.py:fan", cwd=folder).returncode == 0
    assert "misses the contribution of rank 0, slot 0" in mistake(
        command(*options, "mine.py:wrong", cwd=folder)
    )


def test_validate_compares_a_log_with_it(command: Simctl, folder: Path) -> None:
    (folder / "log.csv").write_text("size_bytes,time_us\n1024,10\n4096,20\n16384,55\n")
    options = ("validate", "log.csv", "--p", "4", "--algo-file", "mine.py:fan", "--format", "csv")
    done = command(*options, cwd=folder)
    assert done.returncode == 0
    assert "fan" in done.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--algo", "mine.py"), "'mine.py' is a file: write --algo-file mine.py"),
        (("--algo", "ring", "--algo-file", "mine.py:fan"), "leave one of them out"),
        (("--algo-file", "mine.py"), "write mine.py:NAME with one of fan, wrong"),
        (("--algo-file", "none.py"), "no such file: none.py"),
    ],
)
def test_mistakes_of_the_option_are_one_line(
    command: Simctl, folder: Path, options: tuple[str, ...], words: str
) -> None:
    assert words in mistake(command("run", *options, cwd=folder))
