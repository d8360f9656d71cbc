"""CPU seconds and peak memory of works that have a goal, in y, the seconds of a fixed loop."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Timer
from time import perf_counter
from typing import Annotated, NamedTuple

import typer

from experiments import output
from experiments.answer_blocks import render
from experiments.shipped_tables import rows_of
from experiments.templates import Columns
from topologies.errors import InputError
from topologies.units import format_bytes, format_seconds

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


class Goal(NamedTuple):
    """A work, and its goals on a machine whose y is 0.45."""

    work: str
    """Its name in the table."""
    line: Sequence[str]
    """The command."""
    limits: Mapping[str, str]
    """Seconds that it `must` reach, those that would be an `aim`, and bytes that it `must_bytes`
    reach."""
    run: Callable[[Sequence[str], Mapping[str, str] | None], ProcessUsage] = usage
    """Measures the command."""
    clock: str = "cpu"
    """"cpu", or "elapsed" where several processes run at once."""
    is_long: bool = False
    """Whether it takes more than a minute."""


RUNS = {"": usage, "empty cache": with_empty_cache}


def _goal(row: Mapping[str, str]) -> Goal:
    return Goal(
        row["work"] or row["command"],
        (*SIMCTL, *row["command"].split()),
        {name: row[name] for name in ("must", "aim", "must_bytes")},
        RUNS[row["run"]],
        row["clock"] or "cpu",
        row["long"] == "yes",
    )


GOALS = tuple(map(_goal, rows_of(Path(__file__).with_name("goals.csv"))))
"""A row has the words behind simctl."""


def select(words: Sequence[str], with_long: bool) -> list[Goal]:
    """The goals whose names contain one of `words`, or all; long ones only if asked for."""
    for word in words:
        if not any(word in goal.work for goal in GOALS):
            raise InputError(f"no row has {word[:80]!r} in its name: --list prints the rows")
    chosen = [goal for goal in GOALS if not words or any(word in goal.work for word in words)]
    kept = [goal for goal in chosen if with_long or not goal.is_long]
    if not kept:
        raise InputError(f"{chosen[0].work!r} takes more than a minute: add --long")
    return kept


SCALE = 0.45
"""The y of the goals."""
ROWS, MADE = "rows.csv", "made.json"
"""The files that --out writes."""


def main(
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each row.")] = 3,
    long: Annotated[bool, typer.Option(help="Also rows of over a minute.")] = False,
    row: Annotated[list[str] | None, typer.Option(help="Only rows with this text.")] = None,
    names: Annotated[bool, typer.Option("--list", help="Print the names of all rows.")] = False,
    out: Annotated[
        Path | None, typer.Option(file_okay=False, exists=True, help="Folder for the results.")
    ] = None,
    against: Annotated[str | None, typer.Option(help="Compare each row with a revision.")] = None,
) -> str:
    """Time every row beside its goal; with --against beside a revision."""
    if names:
        return "\n".join(goal.work for goal in GOALS)
    goals = select(row or (), long)
    if against is not None:
        heads = ["work", "revision", "in y", "over the first", "peak", "over the first", "note"]
        return output.align([heads, *beside_revision(against, goals, repeats)])
    records = measure(goals, repeats)
    if out is not None:
        _write(out, records)
    return table(records)


def measure(goals: Sequence[Goal], repeats: int) -> list[output.Record]:
    """A record a row: the minimum of `repeats` runs, and the minimum y of the whole run."""
    usage(COMPILE, environment())
    units, measured = [unit()], []
    progress = output.Progress("rows measured")
    for number, goal in enumerate(goals):
        progress(number, len(goals), f", now {goal.work}")
        measured.append(alternate({"": partial(goal.run, goal.line, environment())}, repeats)[""])
        units.append(unit())
    progress.clear()
    return [record(*pair, min(units)) for pair in zip(goals, measured, strict=True)]


def record(goal: Goal, used: ProcessUsage | str, y: float) -> output.Record:
    """The row of the csv file: the usage of a work, or the message of its failure."""
    about = {"work": goal.work, "clock": goal.clock, "seconds": None, "y": y, "peak": None}
    if isinstance(used, str):
        return {**about, **goal.limits, "problem": used}
    figures = {"seconds": _time(goal.clock, used), "peak": used.peak}
    return {**about, **figures, **goal.limits, "problem": ""}


def scaled(record: output.Record) -> float:
    """Seconds on a machine whose y is 0.45."""
    return number(record, "seconds") / number(record, "y") * SCALE


def reached(record: output.Record) -> str:
    """The goal that the row reaches: "aim", "must" or "no"."""
    if record["problem"]:
        return f"fails: {record['problem']}"
    too_large = record["must_bytes"] and number(record, "peak") > number(record, "must_bytes")
    if too_large or scaled(record) > number(record, "must"):
        return "no"
    return "aim" if record["aim"] and scaled(record) <= number(record, "aim") else "must"


def number(record: output.Record, column: str) -> float:
    """A number of a record, whether measured now or read from a file."""
    return float(record[column] or 0)


def _seconds(record: output.Record, column: str) -> str:
    return format_seconds(number(record, column)) if record[column] else ""


def _bytes(record: output.Record, column: str) -> str:
    return format_bytes(round(number(record, column), -6)) if record[column] else ""


CELLS: Columns = {
    "work": "work",
    "clock": "clock",
    "time": lambda record: _seconds(record, "seconds"),
    "in y": lambda record: (
        f"{number(record, 'seconds') / number(record, 'y'):.2f}" if record["seconds"] else ""
    ),
    "at y = 0.45": lambda record: format_seconds(scaled(record)) if record["seconds"] else "",
    "must": lambda record: _seconds(record, "must"),
    "aim": lambda record: _seconds(record, "aim"),
    "peak": lambda record: _bytes(record, "peak"),
    "at most": lambda record: _bytes(record, "must_bytes"),
    "reached": reached,
}


def table(records: Sequence[output.Record]) -> str:
    """The records as aligned text, with y above them."""
    y = format_seconds(number(records[0], "y"))
    return f"y = {y} of CPU\n\n{render(records, CELLS)}"


def _write(folder: Path, records: Sequence[output.Record]) -> None:
    packages = ("simctl-collectives", "numpy", "numba", "llvmlite", "simpy")
    made = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": _machine(),
        "versions": {package: version(package) for package in packages},
    }
    output.write_all(
        {
            folder / ROWS: output.to_csv(records),
            folder / MADE: json.dumps(made, indent=1) + "\n",
        }
    )


def _machine() -> str:
    cpus = Path("/proc/cpuinfo")
    known = re.search(r"model name\s*: (.*)", cpus.read_text()) if cpus.exists() else None
    name = known[1] if known else platform.machine()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    return f"{name}, {cores} cores, {memory:.0f} GiB, Python {platform.python_version()}"


@contextmanager
def files_of(revision: str, root: Path = ROOT) -> Iterator[Path]:
    """The files of a revision in a temporary folder. Raises InputError without such a revision."""
    with TemporaryDirectory() as folder:
        archive, files = Path(folder) / "files.tar", Path(folder) / "files"
        line = "git", "-C", root, "archive", "-o", archive, f"{revision}^{{commit}}"
        if subprocess.run(line, capture_output=True, check=False).returncode:
            raise InputError(
                f"no revision {revision[:80]!r} in {root}: --against takes a branch, a tag or a "
                "commit"
            )
        files.mkdir()
        subprocess.run(("tar", "-xf", archive, "-C", files), check=True)
        yield files


def compared(
    work: str, measures: Mapping[str, Callable[[], ProcessUsage]], clock: str, repeats: int
) -> Iterator[list[str]]:
    """A line for each revision that does a work: time in y and peak, and both over those of the
    first one. A note says that it fails, or that it is slower by over 5%."""
    y, done = unit(), alternate(measures, repeats)
    first = next(iter(done.values()))
    for name, used in done.items():
        if isinstance(used, str):
            yield [work, name, "fails", "", "", "", used]
            continue
        seconds, peak = _time(clock, used), f"{used.peak / 1e6:.0f}MB"
        cells = [work, name, f"{seconds / y:.2f}"]
        if isinstance(first, str):
            yield [*cells, "", peak, "", ""]
            continue
        ratio = seconds / _time(clock, first)
        note = f"slower by {ratio - 1:.0%}" if ratio > 1.05 else ""
        yield [*cells, f"{ratio:.2f}", peak, f"{used.peak / first.peak:.2f}", note]


def beside_revision(
    revision: str, goals: Sequence[Goal], repeats: int, root: Path = ROOT
) -> Iterator[list[str]]:
    """Rows on a revision and on these files, in turn, each with compiled code of its own."""
    progress = output.Progress("rows compared")
    with files_of(revision, root) as files, TemporaryDirectory() as caches:
        places: dict[str, dict[str, str]] = {}
        for name, folder in ((revision, files), ("now", root)):
            places[name] = environment(folder, Path(caches) / str(len(places)))
            usage(COMPILE, places[name])
        for number, goal in enumerate(goals):
            progress(number, len(goals), f", now {goal.work}")
            measures = {name: partial(goal.run, goal.line, place) for name, place in places.items()}
            yield from compared(goal.work, measures, goal.clock, repeats)
    progress.clear()


def _time(clock: str, used: ProcessUsage) -> float:
    return used.cpu if clock == "cpu" else used.elapsed
