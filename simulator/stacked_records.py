"""Several records of one kind as one, for formulas that take arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np

Record = TypeVar("Record")


def stacked(records: Sequence[Record]) -> Record:
    """Records, like profiles of one library, as one whose numbers have the shape (records, 1).
    Numbers that all have stay as they are."""
    together: Record = _stacked(records)
    return together


def _stacked(values: Sequence[Any]) -> Any:
    first = values[0]
    if all(value is first for value in values):
        return first
    if isinstance(first, float | int):
        alike = all(value == first for value in values)
        return first if alike else np.array(values, dtype=np.float64)[:, None]
    if isinstance(first, Mapping):
        return {key: _stacked([value[key] for value in values]) for key in first}
    if isinstance(first, tuple):
        parts = map(_stacked, zip(*values, strict=True))
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    if is_dataclass(first) and not isinstance(first, type):
        names = [each.name for each in fields(first) if each.init]
        return replace(
            first, **{name: _stacked([getattr(value, name) for value in values]) for name in names}
        )
    return first
