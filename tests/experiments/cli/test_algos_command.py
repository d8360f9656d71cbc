"""`simctl algos import` and `export`: between files and algorithms."""

import json
from pathlib import Path

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
