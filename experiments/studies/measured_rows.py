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


def lines(table: pd.DataFrame, formats: Mapping[str, str] | None = None) -> list[list[str]]:
    """The headings of a table, and its cells by their formats; all columns as they are without
    formats. Cells are empty where nothing is known.

    >>> lines(pd.DataFrame({"plan": ["ring"], "error": [0.031]}), {"error": "{:.1%}"})
    [['error'], ['3.1%']]
    """
    formats = formats or {str(name): "{}" for name in table}
    cells = (
        [text.format(value) if pd.notna(value) else "" for value in table[name]]
        for name, text in formats.items()
    )
    return [[*formats], *map(list, zip(*cells, strict=True))]


def formatted(table: pd.DataFrame, formats: Mapping[str, str] | None = None) -> str:
    """A table by its formats, with columns of equal width."""
    return output.align(lines(table, formats))


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    heads, *rows = lines
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows))
