"""Columns of text that need much less memory than a string for each row; rows by group or range."""

from __future__ import annotations

import re
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count, islice
from operator import eq
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from topologies.errors import InputError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.integer[Any]]

Item = TypeVar("Item")

_STEM = re.compile("[^0-9]*")


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values of an array, each once, in ascending order. For `unique` without counts, numpy
    would import its masked arrays, which takes 30 ms.

    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    return np.unique(values, return_counts=True)[0]


def distinct_rows(*columns: npt.NDArray[Any], met: bool = False) -> tuple[Longs, Longs]:
    """The first row with each combination of values; and of each row, the number of its combination
    among them. They are in ascending order, or in the order in which they are `met`.

    >>> first, number = distinct_rows(np.array([7, 7, 2, 7]), np.array([0.5, 0.0, 1.0, 0.5]))
    >>> first.tolist(), number.tolist()
    ([2, 1, 0], [2, 1, 0, 2])
    """
    code, codes = np.zeros(len(columns[0]), dtype=np.int64), 1
    for column in columns:
        whole = column if column.dtype.kind in "bi" else _numbers(column)
        least, most = int(whole.min(initial=0)), int(whole.max(initial=0))
        if codes * (most - least + 1) > np.iinfo(np.int64).max:
            code, whole, least = _numbers(code), _numbers(column), 0
            codes, most = int(code.max()) + 1, int(whole.max())
        codes *= most - least + 1
        code = code * (most - least + 1) + whole - least
    _, first, number = np.unique(code, return_index=True, return_inverse=True)
    if met:
        order = np.argsort(first)
        first, number = first[order], np.argsort(order)[number]
    return first, number


def _numbers(values: npt.NDArray[Any]) -> Longs:
    """The number of each value among those that are there, in ascending order."""
    return np.unique(values, return_inverse=True)[1]


def plain_rows(*columns: npt.NDArray[Any]) -> Iterator[tuple[Any, ...]]:
    """The rows of columns as Python's numbers.

    >>> [*plain_rows(np.array([1, 2]), np.array([0.5, 1.5]))]
    [(1, 0.5), (2, 1.5)]
    """
    return zip(*(column.tolist() for column in columns), strict=True)


def ranges(begins: Numbers, counts: Numbers) -> tuple[Longs, Longs]:
    """So many numbers from each begin on, behind each other; and in front of them, which begin.

    >>> [column.tolist() for column in ranges(np.array([5, 0]), np.array([2, 3]))]
    [[0, 0, 1, 1, 1], [5, 6, 0, 1, 2]]
    """
    if len(counts) and counts.min() == counts.max() == 1:
        return np.arange(len(counts)), begins.astype(np.int64)
    row = np.repeat(np.arange(len(counts)), counts)
    return row, np.arange(len(row)) + (begins - np.cumsum(counts) + counts)[row]


def spread(counts: Numbers) -> tuple[Longs, Longs]:
    """The number of the range, and the place in it, of every member of ranges of so many members.

    >>> [column.tolist() for column in spread(np.array([2, 0, 1]))]
    [[0, 0, 2], [0, 1, 0]]
    """
    return ranges(np.zeros_like(counts), counts)


def starts(counts: Numbers) -> Ints:
    """Where each of ranges of so many members begins, and where the last one ends: an indptr.

    >>> starts(np.array([2, 0, 1])).tolist()
    [0, 2, 2, 3]
    """
    indptr = np.zeros(len(counts) + 1, dtype=np.int32)
    np.cumsum(counts, out=indptr[1:])
    return indptr


def entries(indptr: Numbers, rows: Numbers) -> tuple[Longs, Longs]:
    """The entries of some rows of a table in CSR form; and in front of them, for which of `rows`
    each stands.

    >>> [column.tolist() for column in entries(np.array([0, 2, 5]), np.array([1, 0]))]
    [[0, 0, 0, 1, 1], [2, 3, 4, 0, 1]]
    """
    begins = indptr[rows]
    return ranges(begins, indptr[np.add(rows, 1)] - begins)


def owners(indptr: Numbers) -> Ints:
    """The row of each entry of a table in CSR form.

    >>> owners(np.array([0, 2, 2, 3])).tolist()
    [0, 0, 2]
    """
    return np.repeat(np.arange(len(indptr) - 1, dtype=np.int32), np.diff(indptr))


def places_in_groups(*columns: Numbers) -> Longs:
    """How many rows of the same group stand before each row. Rows with the same columns are a
    group.

    >>> places_in_groups(np.array([7, 1, 7, 7])).tolist()
    [0, 0, 1, 2]
    """
    order = np.lexsort(columns[::-1])
    rows = np.stack(columns)[:, order]
    begins = np.flatnonzero(np.append(True, np.any(rows[:, 1:] != rows[:, :-1], axis=0)))
    places = np.empty(len(order), dtype=np.int64)
    places[order] = spread(np.diff(begins, append=len(order)))[1]
    return places


def sums(row: Numbers, values: npt.NDArray[Any], count: int) -> Floats:
    """The sums of values by row, in so many rows.

    >>> sums(np.array([0, 2, 0]), np.array([1.0, 2.0, 3.0]), 3).tolist()
    [4.0, 0.0, 2.0]
    """
    return np.asarray(np.bincount(row, values, count), dtype=np.float64)


def repeated(items: Iterable[Item]) -> Item | None:
    """The first item that equals an earlier one, if any.

    >>> repeated("abcb"), repeated("abc")
    ('b', None)
    """
    met: set[Item] = set()
    for item in items:
        if item in met:
            return item
        met.add(item)
    return None


def _stem(name: str) -> str:
    return _STEM.match(name)[0]  # type: ignore[index]


def _begins_with_digit(text: str) -> bool:
    return text[:1].isascii() and text[:1].isdigit()


class Texts(Sequence[str]):
    """A read-only column of text. Subclasses define its length and the text of a row. It equals any
    sequence of the same texts."""

    @abstractmethod
    def text(self, row: int) -> str:
        """The text of row `row`, 0 or more."""

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> tuple[str, ...]: ...
    def __getitem__(self, row: int | slice) -> str | tuple[str, ...]:
        if isinstance(row, slice):
            return tuple(self.text(k) for k in range(*row.indices(len(self))))
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row}: there are {len(self)}")
        return self.text(int(row) % len(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(tuple(self))


class Words(Texts):
    """A column of few different words: row k is `vocabulary[codes[k]]`.

    >>> Words(np.array([0, 0, 1], dtype=np.int8), ("gpu", "nic"))
    ('gpu', 'gpu', 'nic')
    """

    def __init__(self, codes: npt.NDArray[np.int8], vocabulary: tuple[str, ...]) -> None:
        self.codes, self.vocabulary = codes, vocabulary

    def __len__(self) -> int:
        return len(self.codes)

    def text(self, row: int) -> str:
        """The word of row `row`."""
        return self.vocabulary[int(self.codes[row])]

    def are(self, *words: str) -> npt.NDArray[np.bool_]:
        """Which rows say one of `words`."""
        asked = np.array([word in words for word in self.vocabulary], dtype=np.bool_)
        return asked[self.codes]


class MediumNames(Texts):
    """Names of media: first the wire of each link, named by its ends, then the shared media by
    their names."""

    def __init__(
        self, devices: Sequence[str], source: Ints, target: Ints, shared: tuple[str, ...]
    ) -> None:
        self.devices, self.source, self.target, self.shared = devices, source, target, shared

    def __len__(self) -> int:
        return len(self.source) + len(self.shared)

    def text(self, row: int) -> str:
        """The name of medium `row`."""
        if row >= len(self.source):
            return self.shared[row - len(self.source)]
        return f"{self.devices[self.source[row]]}->{self.devices[self.target[row]]}"


class Numbered(Texts):
    """`count` names that differ in a number: a head, the number, a tail.

    With n pairs of head and tail, name k has pair k % n and the number k // n.

    >>> Numbered(4, ("out", ""), ("in", ""))
    ('out0', 'in0', 'out1', 'in1')
    """

    def __init__(self, count: int, *ends: tuple[str, str]) -> None:
        self.size, self.ends = count, ends

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[str]:
        names = (f"{head}{number}{tail}" for number in count() for head, tail in self.ends)
        return islice(names, self.size)

    def text(self, row: int) -> str:
        """The name of row `row`."""
        number, pair = divmod(row, len(self.ends))
        return f"{self.ends[pair][0]}{number}{self.ends[pair][1]}"

    @property
    def stems(self) -> set[str]:
        """What comes before the first digit of each name."""
        return {_stem(head) for head, _ in self.ends}

    @property
    def are_different(self) -> bool:
        """Whether no two names can be equal, as far as heads and tails tell: the heads are equal
        and the tails differ, or the other way round, and no number runs into its neighbour."""
        heads, tails = zip(*self.ends, strict=True)
        if len(set(heads)) == 1:
            return len(set(tails)) == len(tails) and not any(map(_begins_with_digit, tails))
        differ = len(set(heads)) == len(heads) and len(set(tails)) == 1
        return differ and not any(_begins_with_digit(head[::-1]) for head in heads)


class DeviceNames(Texts):
    """Names, each of which is there once. They are added in parts, and a numbered part stays as it
    is where its stems tell its names from all others."""

    def __init__(self) -> None:
        self._parts: list[Sequence[str]] = []
        self._starts: list[int] = []
        self._count = 0
        self._numbers: dict[str, int] = {}
        self._unlisted: list[tuple[int, Numbered]] = []
        self._stems: set[str] = set()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._parts)

    def text(self, row: int) -> str:
        """The name of row `row`."""
        part = bisect_right(self._starts, row) - 1
        return self._parts[part][row - self._starts[part]]

    def numbers(self) -> dict[str, int]:
        """The number of each name."""
        for first, names in self._unlisted:
            self._numbers.update(zip(names, range(first, first + len(names)), strict=True))
        self._unlisted.clear()
        return self._numbers

    def add(self, names: Sequence[str]) -> None:
        """Add names behind the others. Raises InputError if a name is there twice."""
        first, part = self._count, self._parts[-1] if self._parts else None
        if (
            isinstance(names, Numbered)
            and names.are_different
            and names.stems.isdisjoint(self._stems)
        ):
            stems = names.stems
            self._unlisted.append((first, names))
        else:
            names, stems = list(names), set(map(_stem, names))
            self._list(names, first, stems)
        if isinstance(names, list) and isinstance(part, list):
            part += names
        elif len(names):
            self._parts.append(names)
            self._starts.append(first)
        self._stems |= stems
        self._count = first + len(names)

    def copy(self) -> DeviceNames:
        """The same names. Names that are added to the copy are not added here."""
        names = DeviceNames()
        names._parts = [part[:] if isinstance(part, list) else part for part in self._parts]
        names._starts, names._count = self._starts[:], self._count
        names._numbers, names._unlisted = self._numbers.copy(), self._unlisted[:]
        names._stems = self._stems.copy()
        return names

    def _list(self, names: list[str], first: int, stems: set[str]) -> None:
        if not stems.isdisjoint(self._stems):
            self.numbers()
        if len(set(names)) < len(names) or not self._numbers.keys().isdisjoint(names):
            name = repeated(chain(self._numbers, names))
            raise InputError(f"device {name!r} is there twice: names are unique")
        self._numbers.update(zip(names, range(first, first + len(names)), strict=True))
