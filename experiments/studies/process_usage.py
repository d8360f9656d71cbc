"""CPU seconds and peak memory of processes, and the unit y that scales seconds from machine to
machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Timer
from time import perf_counter
from typing import NamedTuple

from topologies.errors import InputError

ROOT = Path(__file__).parents[2]
"""The folder of the packages that are measured."""
UNIT = "import time\nb = time.process_time()\ns = 0\n" + (
    "for i in range(8_000_000): s += i & 7\nprint(time.process_time() - b)"
)
"""A loop of a script, with global variables: its CPU seconds are y."""
PYTHON = (sys.executable, "-P")
SIMCTL = (*PYTHON, "-c", "from experiments.cli import main; main()")
COMPILE = (*PYTHON, "-m", "simulator.kernels")
"""The command that compiles all kernels."""
LIMIT = 120.0
"""Seconds after which a process is ended."""
ENOUGH = 30.0
"""Seconds after which a work is not run again."""


class ProcessUsage(NamedTuple):
    """The usage of a process and of those that it waited for."""

    cpu: float
    """Seconds of the user and the system."""
    elapsed: float
    """Seconds from its start to its end."""
    peak: float
    """Bytes of the largest process at its largest. A parent with more would hide it."""
    printed: str = ""
    """Its stdout."""


def environment(root: Path = ROOT, cache: Path | None = None) -> dict[str, str]:
    """The variables of a process that imports the packages of `root`; `cache` is its folder of
    compiled code. Python keeps their bytecode, as that of installed packages."""
    chosen = {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": ""}
    return {**os.environ, **chosen, **({"SIMCTL_CACHE_DIR": str(cache)} if cache else {})}


def usage(line: Sequence[str], variables: Mapping[str, str] | None = None) -> ProcessUsage:
    """Run a command. Raises InputError with its last line on stderr if it fails, or if it takes
    more than `LIMIT`."""
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        begin = perf_counter()
        try:
            process = subprocess.Popen(
                line, stdout=out, stderr=err, env=variables, start_new_session=True
            )
        except OSError as error:
            raise InputError(f"{line[0]} does not start: {error.strerror}") from None
        late = Timer(LIMIT, os.killpg, (process.pid, signal.SIGKILL))
        late.start()
        try:
            _, status, used = os.wait4(process.pid, 0)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            late.cancel()
        elapsed = perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode == -signal.SIGKILL and elapsed >= LIMIT:
            raise InputError(f"ended after {LIMIT:.0f} s")
        out.seek(0)
        err.seek(0)
        if process.returncode:
            last = (err.read().strip().splitlines() or ["nothing on stderr"])[-1]
            raise InputError(f"exit code {process.returncode}: {last[:200]}")
        cpu = used.ru_utime + used.ru_stime
        return ProcessUsage(cpu, elapsed, used.ru_maxrss * 1024, out.read())


def unit() -> float:
    """y: the CPU seconds of the loop."""
    return float(usage((sys.executable, "-c", UNIT)).printed)


def with_empty_cache(
    line: Sequence[str], variables: Mapping[str, str] | None = None
) -> ProcessUsage:
    """Compile all kernels, and then run a command."""
    with TemporaryDirectory() as folder:
        fresh = {**(variables or os.environ), "SIMCTL_CACHE_DIR": folder}
        compiled, used = usage(COMPILE, fresh), usage(line, fresh)
    cpu, elapsed = compiled.cpu + used.cpu, compiled.elapsed + used.elapsed
    return ProcessUsage(cpu, elapsed, max(compiled.peak, used.peak))


def alternate(
    measures: Mapping[str, Callable[[], ProcessUsage]], repeats: int
) -> dict[str, ProcessUsage | str]:
    """The least usage of each of some works, in turn, until `ENOUGH`. A work that fails is not run
    again: its message is in its place."""
    runs: dict[str, list[ProcessUsage]] = {name: [] for name in measures}
    problems: dict[str, str] = {}
    begin = perf_counter()
    for _ in range(repeats):
        for name, measure in measures.items():
            if name in problems:
                continue
            try:
                runs[name].append(measure())
            except InputError as error:
                problems[name] = str(error)
        if perf_counter() - begin > ENOUGH:
            break
    return {name: problems.get(name) or _least(runs[name]) for name in measures}


def _least(runs: Sequence[ProcessUsage]) -> ProcessUsage:
    cpu, elapsed, peak, _ = zip(*runs, strict=True)
    return ProcessUsage(min(cpu), min(elapsed), min(peak))
