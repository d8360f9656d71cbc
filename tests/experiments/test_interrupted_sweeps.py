"""Sweeps whose processes are killed at any moment: `--resume` loses and repeats no point, and the
finished file is the same byte for byte."""

import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from experiments import output
from experiments.cli import main
from experiments.execution import executor, journal
from experiments.execution.journal import Journal, journal_of
from experiments.simulations.grid import Grid, sweep
from experiments.simulations.rules import Rules
from simctl_process import Simctl
from simulator.collectives import find
from topologies.catalogue import find as find_machine

NAMES, RANKS, SIZES = ("ring", "nvls", "tree"), range(2, 9), (2.0**10, 2.0**30)
SWEEP = ("sweep", "--algo", ",".join(NAMES), "--p", "2..8", "--size", "1KiB,1GiB")
POINTS = len(NAMES) * len(RANKS) * len(SIZES)
TRAIN = ("train", "--model", "resnet50:batch=2", "--p", "1..4", "--sweep", "overlap=yes,no")
JOBS = (("--jobs", "1"), ("--jobs", "2"))


def seeds(few: int) -> list[Any]:
    """Twenty, of which a few are tried by default."""
    return [*range(few), *(pytest.param(k, marks=pytest.mark.exhaustive) for k in range(few, 20))]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "SHORTEST_CHUNK", 1e-6)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def whole() -> str:
    """The finished file. Compiled code is loaded on the way, which killed processes inherit."""
    algorithms, machine = [find(name) for name in NAMES], find_machine("star").build
    grid = Grid(algorithms, RANKS, SIZES, machine, Rules("compiled"))
    return output.to_csv([row.record() for row in sweep(grid, missing=lambda point: None)])


def names(folder: Path) -> set[str]:
    """The files, without those that a killed process leaves under a temporary name."""
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def killed(arguments: tuple[str, ...], moment: int, torn: int) -> None:
    """Run simctl in a process that is killed as it stores the result number `moment`, of which
    `torn` bytes are written. Returns when its workers are dead too."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    write, count = os.write, 0

    def torn_write(file: int, line: bytes) -> int:
        nonlocal count
        count += 1
        if count == moment + 1:
            write(file, line[:torn])
            os.kill(os.getpid(), signal.SIGKILL)
        return write(file, line)

    def run() -> None:
        here.close()
        journal.os.write = torn_write  # type: ignore[attr-defined]
        sys.argv = ["simctl", *arguments]
        main()

    process = context.Process(target=run)
    process.start()
    there.close()
    with pytest.raises(EOFError):
        here.recv()  # the other end is open as long as the process or a worker lives
    process.join()
    assert process.exitcode == -signal.SIGKILL


@contextmanager
def stored_numbers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers of the points that this process stores."""
    numbers: list[int] = []
    add = Journal.add

    def watched(self: Journal, number: int, result: object) -> None:
        numbers.append(number)
        add(self, number, result)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "add", watched)
        yield numbers


def journal_numbers(out: Path) -> list[int]:
    lines = journal_of(out).read_bytes().split(b"\n")[1:]
    return [int(line.split(b"[")[1].split(b",")[0]) for line in lines if line.endswith(b"]")]


@pytest.mark.parametrize("seed", seeds(3))
def test_a_killed_sweep_loses_and_repeats_no_point(
    seed: int, whole: str, simctl: Simctl, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    """It is killed twice, and ends the third time."""
    random, out = Random(seed), folder / "x.csv"
    resume: tuple[str, ...] = ()
    kept: list[int] = []
    for _ in range(2):
        moment, torn = random.randint(2, (POINTS - len(kept)) // 2), random.randint(0, 300)
        arguments = *SWEEP, "--out", "x.csv", *random.choice(JOBS), *resume
        killed(arguments, moment, torn)
        kept = journal_numbers(out)
        assert len(kept) == len(set(kept)) >= moment - 1
        resume = ("--resume",)
    with stored_numbers(monkeypatch) as numbers:
        done = simctl(*SWEEP, "--format", "csv", "--out", "x.csv", *random.choice(JOBS), "--resume")
    assert sorted(numbers + kept) == list(range(POINTS))
    assert (done.returncode, done.stdout) == (0, whole)
    assert out.read_bytes() == whole.encode()
    assert names(folder) == {"x.csv", "x.csv.meta.json"}


@pytest.mark.parametrize("seed", seeds(2))
def test_a_killed_worker_costs_no_point(
    seed: int, whole: str, simctl: Simctl, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    random = Random(seed)
    moments, add = random.sample(range(1, POINTS - 4), 2), Journal.add
    numbers: list[int] = []

    def deadly(self: Journal, number: int, result: object) -> None:
        add(self, number, result)
        numbers.append(number)
        workers = multiprocessing.active_children()
        if len(numbers) in moments and workers:
            os.kill(random.choice(workers).pid or 0, signal.SIGKILL)

    monkeypatch.setattr(Journal, "add", deadly)
    done = simctl(*SWEEP, "--format", "csv", "--out", "x.csv", "--jobs", "2")
    assert (done.returncode, done.stdout) == (0, whole)
    assert sorted(numbers) == list(range(POINTS))
    assert (folder / "x.csv").read_bytes() == whole.encode()


@pytest.mark.parametrize("jobs", JOBS)
def test_a_sweep_goes_on_after_a_full_disk(
    jobs: tuple[str, ...], whole: str, simctl: Simctl, folder: Path
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        full = simctl(*SWEEP, "--out", "x.csv", *jobs)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert full.returncode == 2
    assert full.stderr == (
        "simctl: cannot write 'x.csv.journal': File too large; what is there counts, go on with "
        "--resume\n"
    )
    assert names(folder) == {"x.csv.journal"}
    assert simctl(*SWEEP, "--out", "x.csv").stderr.endswith("go on with --resume, or remove it\n")
    assert simctl(*SWEEP, "--out", "x.csv", "--resume", *jobs).returncode == 0
    assert (folder / "x.csv").read_text() == whole


def test_ctrl_c_says_how_to_go_on(
    simctl: Simctl, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    add = Journal.add

    def interrupted(self: Journal, number: int, result: object) -> None:
        add(self, number, result)
        if number == 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "add", interrupted)
        done = simctl(*SWEEP, "--out", "x.csv")
    assert done.returncode == 130
    assert done.stderr == "note: x.csv.journal keeps what is done: go on with --resume\n"
    assert simctl(*SWEEP, "--out", "x.csv", "--resume").returncode == 0
    assert "nothing to resume" in simctl(*SWEEP, "--out", "x.csv", "--resume").stderr
    again = simctl(*SWEEP, "--p", "2..10", "--out", "x.csv", "--resume")
    assert again.returncode == 2
    assert again.stderr == "simctl: cannot resume x.csv: it is of --p 2..8, this is --p 2..10\n"


@pytest.mark.parametrize("jobs", [pytest.param(JOBS[0], marks=pytest.mark.exhaustive), JOBS[1]])
def test_training_runs_go_on_too(jobs: tuple[str, ...], simctl: Simctl, folder: Path) -> None:
    whole = simctl(*TRAIN, "--format", "csv", "--out", "whole.csv")
    killed((*TRAIN, "--out", "x.csv", *jobs), moment=3, torn=100)
    assert len(journal_numbers(folder / "x.csv")) == 2
    done = simctl(*TRAIN, "--format", "csv", "--out", "x.csv", "--resume", *jobs)
    assert (done.returncode, done.stdout) == (0, whole.stdout)
    assert (folder / "x.csv").read_bytes() == (folder / "whole.csv").read_bytes()
