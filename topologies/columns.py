"""Columns of text that need much less memory than a string for each row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from operator import eq
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from topologies.array_types import Floats as Floats
from topologies.array_types import Ints as Ints


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values of an array, each once, in ascending order. For `unique` without counts, numpy
    would import its masked arrays, which takes 30 ms.

    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    return np.unique(values, return_counts=True)[0]


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
    """A column of few different words: row k is `vocabulary[codes[k]]`."""

    def __init__(self, codes: npt.NDArray[np.int8], vocabulary: tuple[str, ...]) -> None:
        self.codes, self.vocabulary = codes, vocabulary

    @classmethod
    def of(cls, words: Iterable[str]) -> Words:
        """The column of `words`.

        >>> Words.of(["gpu", "gpu", "nic"])
        ('gpu', 'gpu', 'nic')
        """
        index: dict[str, int] = {}
        codes = [index.setdefault(word, len(index)) for word in words]
        return cls(np.array(codes, dtype=np.int8), tuple(index))

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
