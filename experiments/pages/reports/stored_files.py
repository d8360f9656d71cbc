"""Files as results: stored results, tables of `--out`, and measured logs."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from hashlib import sha256
from math import nan
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from experiments import output
from experiments.answer_blocks import Record
from experiments.diagnosis import compare, diagnose
from experiments.diagnosis.comparison import among
from experiments.diagnosis.diagnosis_records import diagnosis_report
from experiments.measurements import read_all
from experiments.measurements.formats.text import load
from experiments.pages.reports.diagnosis_story import pictures as diagnosis_pictures
from experiments.pages.reports.result import Picture, Result
from experiments.pages.reports.training_story import swept_option
from experiments.pictures.timelines import spans
from experiments.simulations.sweep_rows import PointVerdict, SweepRow
from topologies.errors import InputError, spelling
from topologies.readers.contents import contents, text_of
from topologies.readers.mistakes import Mistakes
from topologies.readers.plain_files import load_json

VERSION = 1
"""The version of the format."""
LIMIT = 256 * 2**20
"""Bytes of a file, at most."""
MOST = 200_000
"""Rows of a table, at most."""
TABLES = {
    "sweep": {"algorithm", "ranks", "size_B", "time_s", "bound_s", "verdict"},
    "runs": {"model", "strategy", "step_s", "samples_per_s", "efficiency"},
    "learn": {"network", "strategy", "target_s", "accuracy"},
    "plans": {"plan", "bound_s", "step_s", "loses_to"},
}
"""The columns that tell what a table is of."""
STRANGE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What is raised where a file has other values than commands write."""
NO_ORIGIN: dict[str, Any] = {"versions": {}, "parameters": {}, "files": {}, "command": []}


def to_bytes(result: Result) -> bytes:
    """A result as JSON, with the digest of all else as its last key."""
    document: dict[str, object] = {
        "simctl": VERSION,
        "kind": result.kind,
        "origin": result.origin,
        "report": result.report,
        "left_out": result.left_out,
    }
    drawn = result.spans and spans.to_document(result.spans)
    parts = {"spans": drawn, "use": result.use, "memory": result.memory}
    document |= {name: part for name, part in parts.items() if part}
    plain = output.plain(document)
    text = json.dumps(plain, allow_nan=False, separators=(",", ":"), default=_listed)
    return sealed(text.encode())


def _listed(column: Any) -> Any:
    """A column as a list, a matrix row by row, and a number of numpy as a number."""
    return column.ravel().tolist() if column.ndim else column.item()


class Origin(BaseModel, strict=True, allow_inf_nan=False):
    """How a table was made, as the file beside it says."""

    versions: dict[str, str]
    parameters: dict[str, bool | int | float | str | None]
    files: dict[str, str]
    command: list[str]


def sealed(text: bytes) -> bytes:
    """The text of a mapping in JSON with its SHA-256 as one more key.

    >>> sealed(b'{"simctl":1}')[:32]
    b'{"simctl":1,"sha256":"704d45e91c'
    """
    return b'%b,"sha256":"%b"}' % (text[:-1], sha256(text).hexdigest().encode())


def read_any(path: Path) -> Result:
    """The result in a file or folder. Raises InputError of one line."""
    if path.is_file():
        if output.is_result(path) and _is_result(path):
            return read_result(path)
        if path.suffix.lower() in output.TABLES and (table := _table(path)):
            return table
    if path.suffix.lower() in (".yaml", ".yml"):
        raise InputError(
            f"{path}: a page is of results, tables and logs. For one of a profile, compare it with "
            f"runs: simctl validate RUNS --profile {path} --held-out --report PAGE.html"
        )
    return _log(path)


def _is_result(path: Path) -> bool:
    with path.open("rb") as file:
        return re.match(rb'\s*\{\s*"simctl"\s*:', file.read(200)) is not None


def read_result(path: Path) -> Result:
    """The result in a file. Raises InputError of one line."""
    larger = f"{path} is larger than {LIMIT // 2**20} MiB: store a smaller result"
    data = contents(path, LIMIT, larger)
    text = data.rpartition(b',"sha256":')[0] + b"}"
    if sealed(text) != data:
        raise InputError(
            f"{path} is damaged, was edited or is of an older simctl: run the command again that "
            f"wrote it"
        )
    file = json.loads(text)
    if file["simctl"] != VERSION:
        raise InputError(f"{path} has version {file['simctl']} of the format: expected {VERSION}")
    return Result(
        file["kind"],
        file["report"],
        remarks=file["left_out"],
        stored_origin=file["origin"],
        spans=spans.from_document(file["spans"]) if "spans" in file else None,
        use=file.get("use"),
        memory=file.get("memory"),
    )


@contextmanager
def read_from(*paths: Path) -> Iterator[None]:
    """Raise InputError of one line if a story finds other values in its files than commands
    write."""
    try:
        yield
    except InputError:
        raise
    except STRANGE as error:
        names, why = ", ".join(map(str, paths)), " ".join(str(error).split())[:200]
        raise InputError(
            f"{names}: not as simctl writes it ({type(error).__name__}: {why}): store it again"
        ) from error


def _log(path: Path) -> Result:
    measurements = read_all([path], failed=True)
    curves = [curve for curve in measurements.curves if curve.points]
    if not curves and not measurements.failures:
        raise InputError(f"{path}: no times in it")
    results = among([diagnose(curve, None) for curve in curves])
    report = diagnosis_report(results, compare(curves), measurements.failures)
    pictures = diagnosis_pictures(results)
    return Result("diagnose", report, parameters={"logs": str(path)}, pictures=pictures)


def _table(path: Path) -> Result | None:
    """A table of simctl; None if the file has other columns."""
    rows = _parquet(path) if path.suffix.lower() == output.PARQUET else _csv(path)
    columns = set(rows[0]) if rows else set[str]()
    kind = next((kind for kind, needed in TABLES.items() if needed <= columns), None)
    if kind is None:
        if path.suffix.lower() == output.PARQUET:
            raise InputError(f"{path} is no table that simctl writes")
        return None
    report: Any = {"plans": rows, "left_out": {}, "parts_s": {}} if kind == "plans" else rows
    origin, missing = _origin(path)
    pictures = _pictures(kind, rows, origin["parameters"])
    return Result(kind, report, pictures=pictures, remarks=missing, stored_origin=origin)


def _pictures(kind: str, rows: Sequence[Record], parameters: Mapping[str, Any]) -> list[Picture]:
    machine = str(parameters.get("topology") or "")
    if kind == "sweep":
        points = [_point(row) for row in rows]
        return [Picture("All curves", (points, None, machine))]
    if kind == "runs":
        swept = swept_option(rows, parameters.get("sweep"))
        changes = ("twice_bandwidth_s", "half_latency_s", "twice_compute_s")
        if not swept and any(row.get(change) is None for row in rows for change in changes):
            return []
        names = {str(row[swept]): str(row[swept]) for row in rows} if swept else {}
        return [Picture("All runs", (rows, swept, names, machine))]
    return []


def _origin(path: Path) -> tuple[dict[str, Any], list[str]]:
    """How a table was made, and a sentence if nobody says so."""
    meta = output.meta_of(path)
    if not meta.is_file():
        return NO_ORIGIN, [f"How the table was made is not known: {meta.name} is missing."]
    text, mistakes = text_of(meta, LIMIT, "JSON", "store the table again"), Mistakes()
    origin = mistakes.checked(Origin, load_json(text, str(meta)))
    mistakes.report(lambda place: f"{meta}: {spelling(place)}".removesuffix(": "))
    return origin.model_dump(), []


def _csv(path: Path) -> list[Record]:
    """The rows of a CSV; none if its first line has no columns of a table of simctl."""
    lines = load(path).splitlines()
    if not any(needed <= set(lines[0].split(",")) for needed in TABLES.values()):
        return []
    if len(lines) > MOST:
        raise InputError(f"{path} has {len(lines)} lines: at most {MOST}")
    try:
        reader = csv.DictReader(lines, strict=True)
        texts = list(reader)
    except csv.Error as error:
        raise InputError(f"{path}: {error}") from None
    for place, row in enumerate(texts, 2):
        if None in row or None in row.values():
            raise InputError(f"{path} line {place}: expected as many cells as in the first line")
    if not texts:
        raise InputError(f"{path} has no rows")
    return [{name: _value(text) for name, text in row.items()} for row in texts]


def _value(text: str) -> str | int | float | None:
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _parquet(path: Path) -> list[Record]:
    output.check_parquet(path, "read")
    import pyarrow
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        if file.metadata.num_rows > MOST:
            raise InputError(f"{path} has {file.metadata.num_rows} rows: at most {MOST}")
        rows: list[Record] = file.read().to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        text = " ".join(str(error).split())[:200]
        raise InputError(f"{path} is no complete Parquet file: {text}") from None
    return rows


FLOATS = [field.name for field in fields(SweepRow) if field.type == "float"]


def _point(row: Record) -> SweepRow:
    """A point of a sweep as it was before it was written."""
    word, _, reason = str(row.get("verdict")).partition(": ")
    failures = tuple(reason.split(", ")) if word == "FAIL" else ()
    values: dict[str, Any] = {
        name: nan if row.get(name) is None else float(row[name]) for name in FLOATS
    }
    return SweepRow(
        **values,
        algorithm=str(row["algorithm"]),
        ranks=int(row["ranks"]),
        steps=0,
        steps_formula=None,
        bound=str(row.get("bound")),
        verdict=PointVerdict(failures, "" if failures else reason),
    )


def names_of(paths: Sequence[Path]) -> list[str]:
    """Short names of files that differ: without their folders, if that is enough."""
    names = [path.name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]
