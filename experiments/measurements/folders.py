"""Reads several files and folders of measurements as one."""

import os.path
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
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
    """The curves in files and folders, in their order. A line of `skipped` begins with its file.

    - A folder stands for every curve that its index.csv lists (`curves/CASE.csv` or `CASE.csv`).
      Without an index it stands for every .csv, .json, .log, .out and .txt in it.
    - A file in a folder that cannot be read is skipped and named.
    - A file that is given twice counts once.
    - `family` chooses the curves of one series of an index: its whole name or its first word.
    - With `failed`, a log whose tests all failed is accepted: its `failures` say so.

    Raises InputError if a path does not exist, a file given by name cannot be read, or no curve is
    left.
    """
    collection = _Collection(failed=failed)
    paths = tuple(paths)
    for path in paths:
        for file in _files(path, family):
            collection.add(file, forgiving=_is_folder(path))
    curves, skipped = collection.curves, collection.all_skipped()
    chosen = [curve for curve in curves if family is None or belongs(curve.family, family)]
    if len(chosen) < len(curves):
        rest = f"{len(curves) - len(chosen)} of {counted(len(curves), 'curve')}"
        skipped.append(f"{rest}: not of family {family}")
    if not chosen and not (failed and collection.failures):
        raise InputError(_nothing(paths, curves, skipped, family))
    return Measurements(tuple(chosen), tuple(skipped), tuple(collection.failures))


@dataclass
class _Collection:
    """The measurements of several files, each file once."""

    failed: bool
    """Whether logs whose tests all failed are accepted."""
    curves: list[Curve] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    """Real paths of the files."""
    duplicates: list[Path] = field(default_factory=list)
    """Files that were given twice."""

    def add(self, file: Path, *, forgiving: bool) -> None:
        """Read a file, unless it was read before."""
        measurements = _read(file, forgiving, self.failed)
        path = os.path.realpath(file)
        if path in self.files:
            self.duplicates.append(file)
            return
        self.files.add(path)
        self.curves += measurements.curves
        self.failures += measurements.failures
        for line in measurements.skipped:
            if not (self.failed and WITHOUT_ROWS in line):
                self.skipped.append(f"{file}: {line}")

    def all_skipped(self) -> list[str]:
        """What was not read, and why."""
        if not self.duplicates:
            return self.skipped
        count = len(self.duplicates) - 1
        more = f" and {counted(count, 'other file')}" if count else ""
        return [*self.skipped, f"{self.duplicates[0]}{more}: given twice, counted once"]


def belongs(name: str, family: str) -> bool:
    """Whether `family` is a family's whole name or its first word.

    >>> belongs("F06 ABCI V100 nodes", "f06"), belongs("F06p ABCI point-to-point V100", "F06")
    (True, False)
    """
    name_or_word = family.strip().lower()
    return name_or_word in (name.lower(), name.lower().partition(" ")[0])


def _files(path: Path, family: str | None) -> Iterator[Path]:
    if not _is_folder(path):
        yield path
        return
    index = path / INDEX
    try:
        files = (
            None
            if index.is_file()
            else [file for file in sorted(path.iterdir()) if _may_be_measurements(file)]
        )
    except OSError as error:
        raise InputError(f"cannot read folder {path}: {error.strerror}") from None
    if files is not None:
        yield from files
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
    """Whether a path is a folder. A path without permission is refused when it is read."""
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
        died = failed and any(failure.kind == DIED for failure in error.failures)
        return Measurements((), () if died else (_unread(file, error),), error.failures)
    except InputError as error:
        if not forgiving:
            raise
        return Measurements((), (_unread(file, error),))


def _unread(file: Path, error: InputError) -> str:
    """Why a file was not read, without the name of the file."""
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
