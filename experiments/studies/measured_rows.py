"""Groups of rows, and tables of columns."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import pandas as pd

from experiments import output

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)
Row = dict[str, str]


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Items by a key, in the order in which the keys come.

    >>> grouped(["ring", "tree", "rings"], lambda name: name[0])
    {'r': ['ring', 'rings'], 't': ['tree']}
    """
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def aligned(columns: Mapping[str, Sequence[str] | pd.Series[str]]) -> str:
    """A table of columns, by their headings."""
    return output.align([[*columns], *zip(*columns.values(), strict=True)])


def formatted(table: pd.DataFrame, formats: Mapping[str, str] | None = None) -> str:
    """A table of columns by their formats, or of all as they are; empty where nothing is known.

    >>> print(formatted(pd.DataFrame({"plan": ["ring"], "error": [0.031]}), {"error": "{:.1%}"}))
    error
     3.1%
    """
    cells = {
        name: [text.format(value) if pd.notna(value) else "" for value in table[name]]
        for name, text in (formats or {str(name): "{}" for name in table}).items()
    }
    return aligned(cells)
