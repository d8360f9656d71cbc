"""Commands that are killed while they write: a file is as it was, or whole; and `measure --resume`
goes on from it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pretended_ranks
from experiments.measure.result_rows import read_rows
from experiments.profiles import read
from simctl_process import Simctl

LIMIT = 300
"""Bytes after which a write ends the process."""
STORY = f"""
import os, resource, signal, sys
import pytest
import pretended_ranks
from experiments.cli import main

pretended_ranks.pretend(pytest.MonkeyPatch())
when, number, *words = sys.argv[1:]
renames = 0

def kill(event, arguments):
    global renames
    here = lambda path: os.path.dirname(os.path.abspath(str(path))) == os.getcwd()
    if event == "open" and when == "write" and here(arguments[0]):
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, ({LIMIT}, {LIMIT}))
    if event == "os.rename" and when == "rename" and here(arguments[1]):
        renames += 1
        if renames == int(number):
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(kill)
sys.argv = ["simctl", *words]
main()
"""
"""Runs simctl, and ends it at the nth renaming of a file in its folder, or within the first write
there."""
CASES = ("--p", "2", "--collective", "ring,broadcast", "--size", "4KiB,8KiB")
MEASURE = ("measure", *CASES, "--out", "runs.csv")
CALIBRATE = ("calibrate", "small.csv", "--out", "mine.yaml")
SMALL = "collective,algorithm,ranks,nodes,size_bytes,time_us,library\n" + "".join(
    f"all_reduce,ring,2,2,{size},{11 + size / 2000:.3f},MPI 1\n"
    for size in (4**k for k in range(4, 10))
)


def killed(folder: Path, when: str, number: int, *words: str) -> int:
    """The signal that ended the command."""
    script = f"import sys; sys.path[:] = {sys.path!r}\n{STORY}"
    done = subprocess.run(
        [sys.executable, "-c", script, when, str(number), *words],
        cwd=folder,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=False,
    )
    return -done.returncode


def names(folder: Path) -> list[str]:
    """The files, without those that a killed process leaves under a temporary name."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pretended_ranks.pretend(monkeypatch)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.exhaustive
def test_what_was_measured_before_a_kill_is_kept_and_not_measured_again(
    folder: Path, simctl: Simctl
) -> None:
    assert killed(folder, "rename", 4, *MEASURE) == signal.SIGKILL
    kept = read_rows(folder / "runs.csv")
    assert [(row.algorithm or row.collective, row.size_bytes) for row in kept] == [
        ("ring", 4096),
        ("ring", 8192),
    ]
    assert json.loads((folder / "runs.csv.meta.json").read_text())["parameters"]["p"] == "2"
    assert simctl(*MEASURE, "--resume").returncode == 0
    rows = read_rows(folder / "runs.csv")
    assert rows[:2] == kept
    assert [(row.algorithm or row.collective, row.size_bytes) for row in rows[2:]] == [
        ("broadcast", 4096),
        ("broadcast", 8192),
    ]
    assert names(folder) == ["runs.csv", "runs.csv.meta.json"]


def test_a_kill_within_a_write_leaves_the_rows_that_were_there(
    folder: Path, simctl: Simctl
) -> None:
    assert simctl(*MEASURE).returncode == 0
    before = (folder / "runs.csv").read_bytes()
    assert killed(folder, "write", 0, *MEASURE, "--resume", "--dtype", "float64") == signal.SIGXFSZ
    assert (folder / "runs.csv").read_bytes() == before
    assert [path.stat().st_size for path in folder.glob(".*")] == [LIMIT], "a part of the new file"
    assert names(folder) == ["runs.csv", "runs.csv.meta.json"]


RENAMED = pytest.param("rename", signal.SIGKILL, marks=pytest.mark.exhaustive)


@pytest.mark.parametrize(("when", "sent"), [RENAMED, ("write", signal.SIGXFSZ)])
def test_a_profile_is_the_old_one_until_it_is_whole(
    when: str, sent: int, folder: Path, simctl: Simctl
) -> None:
    (folder / "small.csv").write_text(SMALL)
    (folder / "mine.yaml").write_text("the old one\n")
    assert killed(folder, when, 1, *CALIBRATE) == sent
    assert (folder / "mine.yaml").read_text() == "the old one\n"
    assert names(folder) == ["mine.yaml", "small.csv"]
    (temporary,) = folder.glob(".*")
    assert (temporary.stat().st_size == LIMIT) == (when == "write")
    if when == "rename":
        assert read(temporary).profile == "mine"
