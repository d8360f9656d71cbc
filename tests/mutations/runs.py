"""Runs tests on copies of the tree, each in a fork of a process that has imported everything but
the project."""

import contextlib
import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from compileall import compile_dir
from pathlib import Path
from py_compile import PycInvalidationMode
from time import process_time
from typing import NamedTuple

import hypothesis
import pytest

TREES = ("simulator", "topologies", "experiments", "tests")
MEMORY = 8 * 2**30
"""Bytes of address space that a run may have."""
PATIENCE, FACTOR = 10, 5
"""A file of tests may take so many seconds more, and so many times as long, as on the unchanged
tree: of computing, as the machine may be busy."""
Times = dict[str, float]
"""Seconds of computing that each test of a file takes, by its node id: of those that pass."""


class Task(NamedTuple):
    """What to do in a copy of the tree, and what to do with how it ended: its exit status and its
    notes."""

    work: Callable[[Path], int]
    ended: Callable[[int, list[str]], None]
    changed: tuple[str, str] | None = None
    """A file and its text, for this task alone."""


class Watch:
    """Runs the `chosen` tests, or all of them; notes what passes, and what fails first."""

    def __init__(self, chosen: Times | None, notes: Path) -> None:
        self.chosen, self.notes = chosen, notes

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.chosen is not None:
            items[:] = [item for item in items if item.nodeid in self.chosen]

    def pytest_runtest_setup(self) -> None:
        self.begin = process_time()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or (report.passed and report.when == "call" and self.chosen is None):
            with self.notes.open("a") as file:
                file.write(
                    json.dumps([report.nodeid, report.failed, process_time() - self.begin]) + "\n"
                )


def test(copy: Path, file: str, chosen: Times | None) -> int:
    """Run a file's tests, `chosen` ones until one fails; returns 0 if all pass. The process ends if
    that takes long."""
    signal.setitimer(
        signal.ITIMER_PROF, PATIENCE + FACTOR * sum((chosen or {}).values()) if chosen else 0
    )
    options = ["-q", "--hypothesis-profile=mutations", "-p", "no:cacheprovider", "-n", "0"]
    options += [
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
        *(["-x"] if chosen is not None else []),
    ]
    status = pytest.main([*options, file], plugins=[Watch(chosen, copy / "notes")])
    return 0 if status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) else 1


def run_all(tasks: Iterable[Task], root: Path, folder: Path, workers: int) -> None:
    """Run the tasks, in `workers` copies of the tree at `root` at a time."""
    hypothesis.settings.register_profile(
        "mutations", deadline=None, max_examples=30, derandomize=True, database=None
    )
    waiting, running = iter(tasks), dict[int, tuple[Task, Path]]()
    free = [_copied(root, folder / str(worker)) for worker in range(workers)]
    while True:
        while free and (task := next(waiting, None)):
            copy = free.pop()
            running[_fork(task, copy)] = task, copy
        if not running:
            return
        pid, status = os.wait()
        task, copy = running.pop(pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        if task.changed:
            shutil.copy2(root / task.changed[0], copy / task.changed[0])
        task.ended(status, list(_notes(copy)))
        free.append(copy)


def _fork(task: Task, copy: Path) -> int:
    """Start a task in a process of its own."""
    (copy / "notes").write_text("")
    if task.changed:
        (copy / task.changed[0]).write_text(task.changed[1])
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        with (copy / "output").open("w") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        os.chdir(copy)
        sys.path.insert(0, str(copy))
        os.environ["PYTHONPATH"] = str(copy)
        sys.dont_write_bytecode = task.changed is not None
        status = task.work(copy)
    finally:
        os._exit(status)


def _notes(copy: Path) -> Iterator[str]:
    yield from (copy / "notes").read_text().splitlines()


def _copied(root: Path, copy: Path) -> Path:
    """A copy of the tree, once; bytecode is believed by what the source is and not by its date."""
    if not copy.exists():
        for tree in TREES:
            shutil.copytree(root / tree, copy / tree, ignore=shutil.ignore_patterns("__pycache__"))
            compile_dir(copy / tree, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
        for file in ("pyproject.toml", "README.md"):
            shutil.copy2(root / file, copy / file)
    return copy
