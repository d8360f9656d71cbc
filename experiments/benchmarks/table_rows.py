"""What tables of measurements share: rows of CSV files, groups of rows, and Markdown."""

from __future__ import annotations

import csv
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)
Row = dict[str, str]


def rows_of(path: Path) -> list[Row]:
    """The rows of a CSV file, by the names of their columns."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Items by a key, in the order in which the keys come.

    >>> grouped(["ring", "tree", "rings"], lambda name: name[0])
    {'r': ['ring', 'rings'], 't': ['tree']}
    """
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
