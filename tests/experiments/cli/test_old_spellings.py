"""Command lines of earlier versions still work."""

import subprocess
from collections.abc import Callable
from pathlib import Path

from grouped_cases import each_case

Simctl = Callable[..., "subprocess.CompletedProcess[str]"]
NOTE = "note: simctl validate PROFILE RUNS is now simctl judge PROFILE RUNS"


def runs(path: Path) -> Path:
    rows = [f"all_reduce,ring,16,16,{size},{100 + size / 1e4},MPI" for size in (1024, 4096)]
    header = "collective,algorithm,ranks,nodes,size_bytes,time_us,library"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_a_profile_and_runs_are_judged(simctl: Simctl, tmp_path: Path) -> None:
    words = "leonardo_cpu", runs(tmp_path / "runs.csv"), "--format", "csv"
    old, new = simctl("validate", *words), simctl("judge", *words)
    assert old.returncode == new.returncode == 0
    assert old.stdout == new.stdout
    assert old.stderr.splitlines() == [NOTE, *new.stderr.splitlines()]


@each_case(
    ("words", "judged"),
    [
        ("a.yaml b.csv", True),
        ("a.yaml", True),
        ("--in-place mn5_acc b.csv", True),
        ("--plot=x.png mn5_acc b.csv", True),
        ("--topology box.yaml a.log", False),
        ("a.log --fit", False),
        ("a.log --plot x.png --fit", False),
        ("--help", False),
        ("", False),
        ("mn5_acc", False),
    ],
)
def test_only_a_profile_and_runs_are_an_old_spelling(
    words: str, judged: bool, simctl: Simctl
) -> None:
    assert (NOTE in simctl("validate", *words.split()).stderr) is judged


def test_two_logs_are_refused_as_one_too_many(simctl: Simctl, tmp_path: Path) -> None:
    log = runs(tmp_path / "runs.csv")
    done = simctl("validate", log, log)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"simctl: Got unexpected extra argument(s) ({log})"]
