"""Records of columns and names as JSON documents, each checked as it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.pictures.timelines.spans import LONGEST, WORDS, Columns, Spans
from topologies.errors import InputError, shown
from topologies.topology import Flags, Floats, Ints

MOST = 1_000_000
"""Entries of a list, at most."""
UNSTORED = ("workers", "places", "step_names", "labels")
"""Fields of spans that files do not have."""
PATH = {"row": "row", "lane": "lane", "start": "start", "end": "end", "part": "kind"}
"""Keys of the critical path in files, and the columns for them."""


def to_document(record: Any) -> dict[str, object]:
    """A dataclass of columns, names and numbers as JSON: matrices row by row. Of spans, a column of
    equal values is one value."""
    values = {name: value for name, value in vars(record).items() if name not in UNSTORED}
    if isinstance(record, Spans):
        columns, path = record.columns._asdict(), record.path
        del columns["task"]
        values |= {
            "steps": record.common_steps,
            "count": len(record.columns.row),
            "columns": {name: _plain(column) for name, column in columns.items()},
            "path": {key: getattr(path, name).tolist() for key, name in PATH.items()},
        }
    return {
        name: value.ravel().tolist()
        if isinstance(value, np.ndarray)
        else list(value)
        if isinstance(value, tuple)
        else value
        for name, value in values.items()
    }


def _plain(column: npt.NDArray[Any]) -> object:
    alike = len(column) and bool((column == column[0]).all())
    return column[0].item() if alike else column.tolist()


def read_spans(document: object, name: str) -> Spans:
    """The spans of a document that :func:`to_document` made. Raises InputError of one line, which
    begins with `name`, if anything in it does not fit."""
    file = Stored(document, name)
    part, pieces = file.part("columns"), file.part("path")
    words: dict[str, Any] = {key: file.words(key) for key in ("rows", *WORDS.values(), "parts")}
    count, makespan = file.whole_number("count", 0, MOST), file.real("makespan")
    known: dict[str, Any] = {key: part.reals(key, count) for key in ("nbytes", "waited")}
    for column, table in WORDS.items():
        least = 0 if column in ("lane", "kind", "name") else -1
        known[column] = part.places(column, count, words[table], least)
    known["members"] = part.whole("members", count, 1, 2**31 - 1)
    known["critical"] = part.whole("critical", count, 0, 1)
    times = part.reals("start", count), part.reals("end", count)
    columns = Columns.of(part.places("row", count, words["rows"]), *times, **known)
    starts = pieces.reals("start")
    length = len(starts)
    path = Columns.of(
        pieces.places("row", length, words["rows"], -1),
        starts,
        pieces.reals("end", length),
        lane=pieces.places("lane", length, words["lanes"]),
        kind=pieces.places("part", length, words["parts"]),
    )
    for spans in (columns, path):
        if np.any(spans.start > spans.end) or np.any(spans.end > makespan * (1 + 1e-9)):
            raise InputError(f"{name}: a span ends before it starts, or after the makespan")
    return Spans(
        nodes=file.whole("nodes", len(words["rows"]), -1, 2**31 - 1),
        main=file.whole_number("main", -1, len(words["lanes"]) - 1),
        steps=file.reals("steps").reshape(-1, 1),
        makespan=makespan,
        remarks=file.words("remarks"),
        columns=Columns.joined(columns),
        path=path,
        **words,
    )


class Stored:
    """A document, and the name of the file for messages. Every method raises InputError."""

    def __init__(self, document: object, name: str) -> None:
        if not isinstance(document, Mapping):
            raise InputError(f"{name}: {shown(document)} is not a mapping of keys to values")
        self._document = document
        self._name = name

    def part(self, key: str) -> Stored:
        """A mapping within the document."""
        return Stored(self._value(key), f"{self._name}: {key}")

    def words(self, key: str) -> tuple[str, ...]:
        """A list of names."""
        names = self._list(key)
        for name in names:
            if not isinstance(name, str) or len(name) > LONGEST:
                raise self._wrong(key, name, f"text of at most {LONGEST} letters")
        return tuple(names)

    def reals(self, key: str, length: int | None = None, least: float = 0.0) -> Floats:
        """A list of finite numbers that are at least `least`."""
        values = self._numbers(key, length)
        bad = ~np.isfinite(values) | (values < least)
        self._check(key, values, bad, f"a finite number, {least:g} or more")
        return values

    def places(self, key: str, length: int | None, names: Sequence[object], least: int = 0) -> Ints:
        """A list of places in a list of names; -1 for none if `least` is -1."""
        return self.whole(key, length, least, len(names) - 1)

    def whole(self, key: str, length: int | None, least: int, most: int) -> Ints:
        """A list of whole numbers."""
        values = self._numbers(key, length)
        with np.errstate(invalid="ignore"):
            bad = ~((values >= least) & (values <= most) & (values == np.floor(values)))
        self._check(key, values, bad, f"a whole number from {least} to {most}")
        return values.astype(np.int32)

    def whole_number(self, key: str, least: int, most: int) -> int:
        """A whole number."""
        value = self._value(key)
        if type(value) is not int or not least <= value <= most:
            raise self._wrong(key, value, f"a whole number from {least} to {most}")
        return value

    def real(self, key: str) -> float:
        """A finite number that is 0 or more."""
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < np.inf:
            raise self._wrong(key, value, "a finite number, 0 or more")
        return float(value)

    def _value(self, key: str) -> Any:
        if key not in self._document:
            raise InputError(f"{self._name}: {key!r} is missing")
        return self._document[key]

    def _list(self, key: str) -> list[Any]:
        value = self._value(key)
        if not isinstance(value, list):
            raise self._wrong(key, value, "a list")
        if len(value) > MOST:
            raise InputError(f"{self._name}: {key!r} has {len(value)} entries: at most {MOST}")
        return value

    def _numbers(self, key: str, length: int | None) -> Floats:
        values = self._repeated(key, length) or self._list(key)
        if length is not None and len(values) != length:
            raise InputError(
                f"{self._name}: {key!r} has {len(values)} entries: {length} are needed"
            )
        strange = next((value for value in values if type(value) not in (int, float)), None)
        if strange is not None or None in values:
            raise self._wrong(key, strange, "a number")
        try:
            return np.array(values, dtype=np.float64)
        except OverflowError:
            raise InputError(f"{self._name}: {key!r} has a number that is too large") from None

    def _repeated(self, key: str, length: int | None) -> list[Any]:
        """The values of a column that is stored as a single value."""
        value = self._value(key)
        return [] if isinstance(value, list) or length is None else [value] * length

    def _check(self, key: str, values: Floats, bad: Flags, expected: str) -> None:
        if bad.any():
            raise self._wrong(key, float(values[np.argmax(bad)]), expected)

    def _wrong(self, key: str, value: object, expected: str) -> InputError:
        return InputError(f"{self._name}: {key!r} holds {shown(value)}: expected {expected}")
