"""Records of columns and names as JSON documents, each checked as it is read."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from experiments.pictures.timelines.spans import LONGEST, WORDS, Columns, Spans
from topologies.errors import InputError, naming, shown

Document = Mapping[str, Any]
"""Columns, names and numbers by key."""
MOST, LARGEST = 1_000_000, 2**31 - 1
"""Entries of a list, and the value of a whole number, at most."""
PATH = {"row": "row", "lane": "lane", "start": "start", "end": "end", "kind": "part"}
"""Columns of the critical path, and their keys in files."""


def to_document(record: Spans | Document) -> dict[str, object]:
    """Spans, or other columns, names and numbers by key, as JSON: matrices row by row. Of spans, a
    column of equal values is one value."""
    values = dict(record) if isinstance(record, Mapping) else _of_spans(record)
    return {
        name: value.ravel().tolist()
        if isinstance(value, np.ndarray)
        else list(value)
        if isinstance(value, tuple)
        else value
        for name, value in values.items()
    }


def _of_spans(spans: Spans) -> dict[str, Any]:
    columns = {name: getattr(spans.columns, name) for name in COLUMNS}
    return {name: getattr(spans, name) for name in SPANS if hasattr(spans, name)} | {
        "steps": spans.common_steps,
        "count": len(spans.columns.row),
        "columns": {
            name: column[0].item() if len(set(column.tolist())) == 1 else column.tolist()
            for name, column in columns.items()
        },
        "path": {key: getattr(spans.path, name).tolist() for name, key in PATH.items()},
    }


class Numbers(NamedTuple):
    """What a number, or the numbers of a list, must be."""

    shape: tuple[str, ...] | None = ()
    """The keys of lists, whose lengths count, and of numbers. None: any length."""
    least: float = 0.0
    most: int | None = None
    """The limit of whole numbers; None: any finite number."""
    words: str = ""
    """The key of the list in which whole numbers are places."""
    some: bool = False
    """Whether a list has a number at least."""


Rules = Mapping[str, Any]
"""What the value of each key must be: numbers, by :class:`Numbers`, a list of names, for None, or a
mapping with rules of its own."""
COLUMNS: Rules = {
    **dict.fromkeys(("start", "end", "nbytes", "waited"), Numbers(("count",))),
    "row": Numbers(("count",), words="rows"),
    **{column: Numbers(("count",), -1, words=table) for column, table in WORDS.items()},
    **{column: Numbers(("count",), words=WORDS[column]) for column in ("lane", "kind", "name")},
    "members": Numbers(("count",), 1, LARGEST),
    "critical": Numbers(("count",), 0, 1),
}
SPANS: Rules = {
    **dict.fromkeys(("rows", *WORDS.values(), "parts", "remarks")),
    "count": Numbers(most=MOST),
    "makespan": Numbers(),
    "nodes": Numbers(("rows",), -1, LARGEST),
    "main": Numbers(least=-1, words="lanes"),
    "steps": Numbers(None),
    "columns": COLUMNS,
    "path": {
        "start": Numbers(None),
        "end": Numbers(("start",)),
        "row": Numbers(("start",), -1, words="rows"),
        "lane": Numbers(("start",), words="lanes"),
        "part": Numbers(("start",), words="parts"),
    },
}


def read_spans(document: object, name: str) -> Spans:
    """The spans of a document that :func:`to_document` made. Raises InputError of one line, which
    begins with `name`, if anything in it does not fit."""
    values = read(document, SPANS, name)
    del values["count"]
    columns, pieces = values.pop("columns"), values.pop("path")
    path = Columns.of(**{column: pieces[key] for column, key in PATH.items()})
    values["steps"] = values["steps"].reshape(-1, 1)
    spans = Spans(**values, columns=Columns.joined(Columns.of(**columns)), path=path)
    for part in (spans.columns, path):
        if np.any(part.start > part.end) or np.any(part.end > spans.makespan * (1 + 1e-9)):
            raise InputError(f"{name}: a span ends before it starts, or after the makespan")
    return spans


def read(
    document: object, rules: Rules, name: str, known: Document = MappingProxyType({})
) -> dict[str, Any]:
    """The values of a document by key: names as tuples, numbers alone or as arrays of their shape.
    A number in place of a list of known length stands for equal ones.

    Keys of shapes and words are those of earlier rules, or of what is `known`. Raises InputError of
    one line, which begins with `name`.
    """
    if not isinstance(document, Mapping):
        raise InputError(f"{name}: {shown(document)} is not a mapping of keys to values")
    values = dict[str, Any](known)
    for key, rule in rules.items():
        if key not in document:
            raise InputError(f"{name}: {key!r} is missing")
        value = document[key]
        if isinstance(rule, Mapping):
            values[key] = read(value, rule, f"{name}: {key}", values)
            continue
        with naming(f"{name}: {key!r}"):
            values[key] = _names(value) if rule is None else _numbers(value, rule, values)
    return {key: values[key] for key in document if key in rules}


def _names(value: object) -> tuple[str, ...]:
    names = _list(value)
    for name in names:
        if not isinstance(name, str) or len(name) > LONGEST:
            raise _wrong(name, f"text of at most {LONGEST} letters")
    return tuple(names)


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(value, "a list")
    _check_length(len(value))
    return value


def _check_length(length: int) -> None:
    if length > MOST:
        raise InputError(f"{length} entries are too many: at most {MOST}")


def _numbers(value: object, rule: Numbers, known: Document) -> Any:
    most = len(known[rule.words]) - 1 if rule.words else rule.most
    expected = f"a whole number from {rule.least:g} to {most}"
    if most is None:
        expected = f"a finite number, {rule.least:g} or more"
    sizes = [known[key] for key in rule.shape or ()]
    shape = [size if isinstance(size, int) else len(size) for size in sizes]
    length = prod(shape)
    _check_length(length)
    alone = rule.shape is not None and not isinstance(value, list)
    entries = [value] * length if alone else _list(value)
    if rule.shape is not None and len(entries) != length:
        raise InputError(f"{len(entries)} entries: {length} are needed")
    if rule.some and not entries:
        raise InputError("empty: at least one is needed")
    for entry in entries:
        if type(entry) not in (int, float):
            raise _wrong(entry, "a number")
    try:
        numbers = np.array(entries, dtype=np.float64)
    except OverflowError:
        raise InputError("a number that is too large") from None
    right = np.isfinite(numbers) & (numbers >= rule.least)
    if most is not None:
        right &= (numbers <= most) & (numbers == np.floor(numbers))
    if not right.all():
        raise _wrong(float(numbers[np.argmin(right)]), expected)
    kept = numbers if most is None else numbers.astype(np.int32)
    if rule.shape == ():
        return kept[0].item()
    return kept if rule.shape is None else kept.reshape(shape)


def _wrong(value: object, expected: str) -> InputError:
    return InputError(f"{shown(value)}: expected {expected}")
