"""The names of a machine's devices, of which most only count: they take no memory for each name."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, count, islice

from topologies.columns import Texts
from topologies.errors import InputError

_STEM = re.compile("[^0-9]*")


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
        """Give each name its number."""
        if not stems.isdisjoint(self._stems):
            self.numbers()
        if len(set(names)) < len(names) or not self._numbers.keys().isdisjoint(names):
            name = next(
                name for k, name in enumerate(names) if name in self._numbers or name in names[:k]
            )
            raise InputError(f"device {name!r} is there twice: names are unique")
        self._numbers.update(zip(names, range(first, first + len(names)), strict=True))


def _stem(name: str) -> str:
    return _STEM.match(name)[0]  # type: ignore[index]


def _begins_with_digit(text: str) -> bool:
    return text[:1].isascii() and text[:1].isdigit()
