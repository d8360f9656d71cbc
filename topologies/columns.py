"""Columns of text that are too long to keep as one string a row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from operator import eq
from typing import overload

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


class Texts(Sequence[str]):
    """A read-only column of text; subclasses say how long it is and what a row says. Equal to any
    sequence alike."""

    @abstractmethod
    def text(self, row: int) -> str:
        """What row `row`, 0 or more, says."""

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
    """Few different words: row k says `vocabulary[codes[k]]`."""

    def __init__(self, codes: npt.NDArray[np.int8], vocabulary: tuple[str, ...]) -> None:
        self.codes, self.vocabulary = codes, vocabulary

    @classmethod
    def of(cls, words: Iterable[str]) -> Words:
        """The column that says `words`.

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
        codes = [code for code, word in enumerate(self.vocabulary) if word in words]
        return np.isin(self.codes, codes)


class MediumNames(Texts):
    """The wire of each link is named by its ends; shared media have names of their own, and
    follow."""

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
