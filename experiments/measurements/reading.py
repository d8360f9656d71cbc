"""Reads measurements in any format: a file, or several files and folders as one."""

import os.path
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from experiments.measurements.curve import (
    DIED,
    WITHOUT_ROWS,
    Curve,
    Failure,
    Measurements,
    Unmeasured,
    no_rows,
)
from experiments.measurements.curve_checks import in_domains
from experiments.measurements.formats import json_reader, log_reader, osu_reader, runs_csv
from experiments.measurements.formats.csv_index import INDEX, entries
from experiments.measurements.formats.inspector_log import (
    InspectorFiles,
    log_lines,
    looks_like_inspector,
    read_inspector,
)
from experiments.measurements.formats.inspector_metrics import looks_like_metrics, read_metrics
from experiments.measurements.formats.text import load
from experiments.output import META, counted
from topologies.errors import InputError


def read(path: Path) -> Measurements:
    """The measurements in the file at `path`: our CSV, nccl-tests' JSON, OSU micro-benchmarks, NCCL
    Inspector's log or metrics, or an nccl-tests log. Trays of one NVLink domain are one node,
    unless a CSV says otherwise.

    Raises InputError when the file cannot be read, or is none of them.
    """
    if inspected := _inspected(path):
        return inspected.measurements()
    text = load(path)
    if looks_like_inspector(text):
        return read_inspector(text.encode().splitlines(keepends=True), str(path)).measurements()
    if looks_like_metrics(text):
        return read_metrics(text, str(path)).measurements()
    if runs_csv.looks_like_csv(text, path):
        return runs_csv.parse_csv(text, path)
    logged = _logged(text, path)
    return replace(logged, curves=tuple(in_domains(curve, text) for curve in logged.curves))


def _inspected(path: Path) -> InspectorFiles | None:
    """What NCCL Inspector wrote of a process or a GPU; None for any other file, and a pipe."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            begin = file.read(2**16).decode(errors="replace")
    except (OSError, ValueError):
        return None
    if looks_like_inspector(begin):
        return read_inspector(log_lines(path), str(path))
    return read_metrics(load(path), str(path)) if looks_like_metrics(begin) else None


def _logged(text: str, path: Path) -> Measurements:
    if json_reader.looks_like_json(text):
        return json_reader.parse_json(text, str(path))
    if not osu_reader.looks_like_osu(text):
        return log_reader.parse_log(text, str(path))
    if not log_reader.looks_like_log(text):
        return osu_reader.parse_osu(text, str(path))
    return _both(text, str(path))


def _both(text: str, source: str) -> Measurements:
    """The tables of both kinds in one log. If one kind has none, the reason is skipped."""
    parts: list[Measurements] = []
    refusals: list[str] = []
    failures: list[Failure] = []
    for parse in (osu_reader.parse_osu, log_reader.parse_log):
        try:
            parts.append(parse(text, source))
        except InputError as error:
            refusals.append(str(error))
            failures += error.failures if isinstance(error, Unmeasured) else ()
    if not parts:
        raise no_rows("; ".join(refusals), failures)
    curves = tuple(curve for part in parts for curve in part.curves)
    skipped = (*(line for part in parts for line in part.skipped), *refusals)
    failures += [failure for part in parts for failure in part.failures]
    return Measurements(curves, skipped, tuple(failures))


_LONGEST_CASE = 200
_Inspected = dict[str, InspectorFiles]


def read_all(
    paths: Iterable[Path], family: str | None = None, *, failed: bool = False
) -> Measurements:
    """The curves in files and folders, in their order. A line of `skipped` begins with its file.

    - A folder stands for every curve that its index.csv lists (`curves/CASE.csv` or `CASE.csv`).
      Without an index it stands for every .csv, .json, .jsonl, .log, .out, .prom and .txt in it.
    - A file in a folder that cannot be read is skipped and named.
    - A file that is given twice counts once.
    - `family` chooses the curves of one series of an index: its whole name or its first word.
    - With `failed`, a log whose tests all failed is accepted: its `failures` say so.

    Raises InputError if a path does not exist, a file given by name cannot be read, or no curve is
    left.
    """
    paths = tuple(paths)
    curves: list[Curve] = []
    skipped: list[str] = []
    failures: list[Failure] = []
    real_paths: set[str] = set()
    duplicates: list[Path] = []
    inspected: _Inspected = {}
    for file, in_folder in _files(paths, family):
        real_path = os.path.realpath(file)
        if real_path in real_paths:
            duplicates.append(file)
            continue
        real_paths.add(real_path)
        measurements = _read(file, in_folder, failed, inspected)
        curves += measurements.curves
        failures += measurements.failures
        skipped += [
            f"{file}: {line}"
            for line in measurements.skipped
            if not (failed and WITHOUT_ROWS in line)
        ]
    for whole in inspected.values():
        try:
            measurements = whole.measurements()
            curves += measurements.curves
            skipped += measurements.skipped
        except InputError as error:
            skipped.append(str(error))
    if duplicates:
        others = len(duplicates) - 1
        more = f" and {counted(others, 'other file')}" if others else ""
        skipped.append(f"{duplicates[0]}{more}: given twice, counted once")
    chosen = [curve for curve in curves if family is None or belongs(curve.family, family)]
    if len(chosen) < len(curves):
        rest = f"{len(curves) - len(chosen)} of {counted(len(curves), 'curve')}"
        skipped.append(f"{rest}: not of family {family}")
    if not chosen and not (failed and failures):
        raise InputError(_nothing(paths, curves, skipped, family))
    return Measurements(tuple(chosen), tuple(skipped), tuple(failures))


def belongs(name: str, family: str) -> bool:
    """Whether `family` is a family's whole name or its first word.

    >>> belongs("F06 ABCI V100 nodes", "f06"), belongs("F06p ABCI point-to-point V100", "F06")
    (True, False)
    """
    name_or_word = family.strip().lower()
    return name_or_word in (name.lower(), name.lower().partition(" ")[0])


def _files(paths: Iterable[Path], family: str | None) -> Iterator[tuple[Path, bool]]:
    for path in paths:
        if _is_folder(path):
            yield from ((file, True) for file in _files_in(path, family))
        else:
            yield path, False


def _files_in(folder: Path, family: str | None) -> Iterator[Path]:
    index = folder / INDEX
    try:
        has_index = index.is_file()
        files = [] if has_index else sorted(filter(_may_be_measurements, folder.iterdir()))
    except OSError as error:
        raise InputError(f"cannot read folder {folder}: {error.strerror}") from None
    yield from files
    for case, entry in entries(index).items() if has_index else ():
        if len(case) > _LONGEST_CASE:
            raise InputError(
                f"{index}: case {case[:40]!r}... has {len(case)} characters: {_LONGEST_CASE} at "
                f"most"
            )
        if family is None or belongs(entry.get("family", ""), family):
            curve = folder / "curves" / f"{case}.csv"
            yield curve if curve.is_file() else folder / f"{case}.csv"


def _is_folder(path: Path) -> bool:
    """Whether a path is a folder. A path without permission is refused when it is read."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _may_be_measurements(file: Path) -> bool:
    return (
        file.suffix.lower() in (".csv", ".json", ".jsonl", ".log", ".out", ".prom", ".txt")
        and not file.name.endswith(META)
        and file.is_file()
    )


def _read(file: Path, forgiving: bool, failed: bool, inspected: _Inspected) -> Measurements:
    """The measurements in a file. What NCCL Inspector wrote is added to `inspected`: the ranks of a
    call are in several files."""
    try:
        if (part := _inspected(file)) is None:
            return read(file)
        inspected.setdefault(part.noun, InspectorFiles(part.noun, part.curves)).add(part)
        return Measurements(())
    except Unmeasured as error:
        if not forgiving and not failed:
            raise
        died = failed and any(failure.kind == DIED for failure in error.failures)
        return Measurements((), () if died else (_unread(file, error),), error.failures)
    except InputError as error:
        if not forgiving:
            raise
        return Measurements((), (_unread(file, error),))


def _unread(file: Path, error: InputError) -> str:
    name = re.escape(str(file))
    why = re.sub(rf"^{name}(?:: | (?=line ))|(?: in|:) {name}(?=:|$)", "", str(error))
    return f"not read: {re.sub(f'^{name} ', 'it ', why)}"


def _nothing(
    paths: Sequence[Path], curves: Sequence[Curve], skipped: Sequence[str], family: str | None
) -> str:
    where = ", ".join(map(str, paths)) or "no file"
    if not family:
        why = f": {skipped[0]}" if skipped else ""
        return (
            f"no measurements in {where}{why}: expected logs, JSON or CSV files, or a folder of "
            f"them"
        )
    families = {curve.family for curve in curves if curve.family}
    families |= {
        entry.get("family", "")
        for path in paths
        if (path / INDEX).is_file()
        for entry in entries(path / INDEX).values()
    }
    right = (
        f"expected one of {', '.join(sorted(families))}"
        if families
        else "the files name no family: leave out --family"
    )
    return f"no curve of family {family!r} in {where}: {right}"
