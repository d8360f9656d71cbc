"""CPU seconds and peak memory of the works that have a goal, beside y and the goal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from experiments import output
from experiments.benchmarks.process_usage import COMPILE, Usage, alternate, environment, unit
from experiments.benchmarks.process_usage import usage as run_process
from experiments.benchmarks.speed_rows import Row
from topologies.units import format_bytes, format_seconds

SCALE = 0.45
"""The y of the goals."""
SLOWER = 1.05
"""A ratio above which a row is noted as slower."""


def measure(rows: Sequence[Row], repeats: int) -> list[output.Record]:
    """A record a row: the minimum of `repeats` runs, and the minimum y of the whole run."""
    run_process(COMPILE, environment())
    units, measured = [unit()], []
    progress = output.Progress("rows measured")
    for number, row in enumerate(rows):
        progress(number, len(rows), f", now {row.work}")
        measured.append(alternate({"": partial(row.run, row.line, environment())}, repeats)[""])
        units.append(unit())
    progress.clear()
    return [_record(row, used, min(units)) for row, used in zip(rows, measured, strict=True)]


def _record(row: Row, used: Usage | str, y: float) -> output.Record:
    figures: tuple[float | None, float | None, str] = (None, None, str(used))
    if isinstance(used, Usage):
        figures = (_time(row, used), used.peak, "")
    seconds, peak, problem = figures
    return {
        "work": row.work,
        "clock": row.clock,
        "seconds": seconds,
        "y": y,
        "peak": peak,
        "must": row.must,
        "aim": row.aim,
        "must_bytes": row.must_bytes,
        "problem": problem,
    }


def scaled(record: output.Record) -> float:
    """Seconds on a machine whose y is 0.45."""
    return number(record, "seconds") / number(record, "y") * SCALE


def reached(record: output.Record) -> str:
    """Which goal the row reaches: the aim, what it must, or none."""
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


CELLS: Mapping[str, output.Cell] = {
    "work": lambda record: str(record["work"]),
    "clock": lambda record: str(record["clock"]),
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
    return f"y = {y} of CPU\n\n{output.render(records, CELLS)}"


def beside(rows: Sequence[Row], trees: Mapping[str, tuple[Path, Path]], repeats: int) -> str:
    """Rows on two trees, in turn: the first tree is the older. A tree is a folder of packages and
    one of compiled code."""
    older, newer = trees
    lines = [["work", f"{older}, y", f"{newer}, y", "ratio", "peak, ratio", "note"]]
    places = {name: environment(*folders) for name, folders in trees.items()}
    progress = output.Progress("rows compared")
    for number, row in enumerate(rows):
        progress(number, len(rows), f", now {row.work}")
        measures = {name: partial(row.run, row.line, place) for name, place in places.items()}
        y, used = unit(), alternate(measures, repeats)
        lines.append([row.work, *_ratios(row, used[older], used[newer], y)])
    progress.clear()
    return output.align(lines)


def _ratios(row: Row, old: Usage | str, new: Usage | str, y: float) -> list[str]:
    if isinstance(old, str) or isinstance(new, str):
        cells = ["fails" if isinstance(used, str) else _in_y(row, used, y) for used in (old, new)]
        return [*cells, "", "", next(used for used in (new, old) if isinstance(used, str))]
    ratio = _time(row, new) / _time(row, old)
    note = f"slower by {ratio - 1:.0%}" if ratio > SLOWER else ""
    cells = [_in_y(row, used, y) for used in (old, new)]
    return [*cells, f"{ratio:.2f}", f"{new.peak / old.peak:.2f}", note]


def _time(row: Row, used: Usage) -> float:
    return used.cpu if row.clock == "cpu" else used.elapsed


def _in_y(row: Row, used: Usage, y: float) -> str:
    return f"{_time(row, used) / y:.2f}"
