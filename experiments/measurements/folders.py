"""Several files and folders of measurements, read as one."""

import os.path
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from experiments.measurements.curve import (
    DIED,
    WITHOUT_ROWS,
    Curve,
    Failure,
    Measurements,
    Unmeasured,
)
from experiments.measurements.formats.runs_csv.csv_index import INDEX, entries
from experiments.measurements.reading import read
from experiments.output import META, counted
from topologies.errors import InputError

_SUFFIXES = (".csv", ".json", ".log", ".out", ".txt")
_LONGEST_CASE = 200


def read_all(
    paths: Iterable[Path], family: str | None = None, *, failed: bool = False
) -> Measurements:
    """The curves in files and folders, in the order given; `skipped` names the file that each line
    is about.

    A folder stands for every curve that its index.csv lists (`curves/CASE.csv` or `CASE.csv`), or,
    without an index, for every .csv, .json, .log, .out and .txt in it; a file in a folder that
    cannot be read is skipped and named. A file that is given twice counts once. `family` keeps the
    curves of one series of an index: its whole name or its first word ("F01"). With `failed`, a log
    whose tests all failed is no mistake: its `failures` say so, and `skipped` does not repeat it.
    Raises InputError when a path is not there, a file given by its own name cannot be read, or
    nothing is left.
    """
    curves: list[Curve] = []
    skipped: list[str] = []
    failures: list[Failure] = []
    paths, met, again = tuple(paths), set[str](), list[Path]()
    for path in paths:
        for file in _files(path, family):
            found, real = (
                _read(file, forgiving=_is_folder(path), failed=failed),
                os.path.realpath(file),
            )
            if real in met:
                again.append(file)
                continue
            met.add(real)
            curves += found.curves
            failures += found.failures
            skipped += [
                f"{file}: {line}" for line in found.skipped if not (failed and WITHOUT_ROWS in line)
            ]
    if again:
        more = f" and {counted(len(again) - 1, 'other file')}" if len(again) > 1 else ""
        skipped.append(f"{again[0]}{more}: given twice, counted once")
    kept = [curve for curve in curves if family is None or belongs(curve.family, family)]
    if len(kept) < len(curves):
        skipped.append(
            f"{len(curves) - len(kept)} of {counted(len(curves), 'curve')}: not of family {family}"
        )
    if not kept and not (failed and failures):
        raise InputError(_nothing(paths, curves, skipped, family))
    return Measurements(tuple(kept), tuple(skipped), tuple(failures))


def belongs(name: str, family: str) -> bool:
    """Whether `family` is a family's whole name or its first word.

    >>> belongs("F06 ABCI V100 nodes", "f06"), belongs("F06p ABCI point-to-point V100", "F06")
    (True, False)
    """
    wanted = family.strip().lower()
    return wanted in (name.lower(), name.lower().partition(" ")[0])


def _files(path: Path, family: str | None) -> Iterator[Path]:
    if not _is_folder(path):
        yield path
        return
    index = path / INDEX
    try:
        inside = (
            None
            if index.is_file()
            else [file for file in sorted(path.iterdir()) if _may_be_measurements(file)]
        )
    except OSError as error:
        raise InputError(f"cannot read folder {path}: {error.strerror}") from None
    if inside is not None:
        yield from inside
        return
    for case, entry in entries(index).items():
        if len(case) > _LONGEST_CASE:
            raise InputError(
                f"{index}: case {case[:40]!r}... has {len(case)} characters: {_LONGEST_CASE} at "
                f"most"
            )
        if family is None or belongs(entry.get("family", ""), family):
            curve = path / "curves" / f"{case}.csv"
            yield curve if curve.is_file() else path / f"{case}.csv"


def _is_folder(path: Path) -> bool:
    """Whether it is one; a path that may not be looked at is refused when it is read."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _may_be_measurements(file: Path) -> bool:
    return file.suffix.lower() in _SUFFIXES and not file.name.endswith(META) and file.is_file()


def _read(file: Path, forgiving: bool, failed: bool) -> Measurements:
    try:
        return read(file)
    except Unmeasured as error:
        if not forgiving and not failed:
            raise
        told = failed and any(failure.kind == DIED for failure in error.failures)
        return Measurements((), () if told else (_unread(file, error),), error.failures)
    except InputError as error:
        if not forgiving:
            raise
        return Measurements((), (_unread(file, error),))


def _unread(file: Path, error: InputError) -> str:
    """Why a file was not read, without its name, which stands before it already."""
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
    there = {curve.family for curve in curves if curve.family}
    there |= {
        entry.get("family", "")
        for path in paths
        if (path / INDEX).is_file()
        for entry in entries(path / INDEX).values()
    }
    return (
        f"no curve of family {family!r} in {where}: expected one of "
        f"{', '.join(sorted(there)) or 'no family there'}"
    )
