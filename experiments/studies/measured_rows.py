"""Groups of rows, and tables of columns."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

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


def aligned(columns: Mapping[str, Sequence[str]]) -> str:
    """A table of columns, by their headings."""
    return output.align([[*columns], *zip(*columns.values(), strict=True)])
