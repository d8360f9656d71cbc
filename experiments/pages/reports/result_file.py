"""Results as files: what `--out FILE.json` stores, and `simctl report` reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from experiments import output
from experiments.pages import machine_use, memory_curves
from experiments.pages.reports.report_models import ANSWERS, StoredResult
from experiments.pages.reports.result import Result
from experiments.pictures.timelines import stored
from topologies.errors import InputError
from topologies.readers.contents import contents
from topologies.readers.mistakes import Mistakes, spelling

VERSION = 1
"""The version of the format."""
LIMIT = 256 * 2**20
"""Bytes of a file, at most."""


def to_text(result: Result) -> str:
    """A result as JSON."""
    document: dict[str, object] = {
        "simctl": VERSION,
        "kind": result.kind,
        "origin": result.origin,
        "report": result.report,
        "left_out": list(result.left_out),
    }
    if result.spans:
        document["spans"] = stored.to_document(result.spans)
    if result.use:
        document["use"] = stored.to_document(result.use)
    if result.memory:
        document["memory"] = stored.to_document(result.memory)
    return json.dumps(output.plain(document), allow_nan=False, separators=(",", ":"))


def is_result(path: Path) -> bool:
    """Whether a file begins as a stored result does."""
    with path.open("rb") as file:
        return file.read(200).lstrip().startswith(b'{"simctl":')


def read_result(path: Path) -> Result:
    """The result in a file. Raises InputError of one line."""
    data = contents(path, LIMIT)
    if len(data) > LIMIT:
        raise InputError(f"{path} is larger than {LIMIT // 2**20} MiB: store a smaller result")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise InputError(f"{path} is no complete JSON: store the result again") from None
    file = checked(path, StoredResult, document)
    if file.simctl != VERSION:
        raise InputError(f"{path} has version {file.simctl} of the format: expected {VERSION}")
    if file.kind not in ANSWERS:
        raise InputError(
            f"{path}: no such kind of result {file.kind[:40]!r}: there are {', '.join(ANSWERS)}"
        )
    checked(path, ANSWERS[file.kind], file.report, ("report",))
    origin: dict[str, Any] = file.origin.model_dump()
    return Result(
        file.kind,
        file.report,
        origin,
        left_out=file.left_out,
        spans=_part(stored.read_spans, file.spans, f"{path}: spans"),
        use=_part(machine_use.from_document, file.use, f"{path}: use"),
        memory=_part(memory_curves.from_document, file.memory, f"{path}: memory"),
    )


def _part(read: Any, document: object, name: str) -> Any:
    return None if document is None else read(document, name)


def checked(path: Path, kind: Any, value: object, place: tuple[str, ...] = ()) -> Any:
    """The value as `kind`, a pydantic model or a type. Raises InputError of one line."""
    mistakes = Mistakes()
    known = mistakes.checked(kind, value, place)
    mistakes.report(lambda location: f"{path}: {spelling(location)}")
    return known
