"""The interface of what runs points, and the simplest of them: this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")
Run = Callable[[Sequence[int]], Iterable[T]]
"""From the numbers of some points to their results, in that order."""


class Executor(Protocol):
    """Runs points, like an executor of `concurrent.futures`."""

    def map(self, run: Run[T], costs: Mapping[int, float]) -> Iterator[tuple[int, T]]:
        """The number and the result of each point, as soon as it is there.

        The keys of `costs` are the numbers of the points. Its values estimate how many seconds each
        takes.
        """

    def close(self) -> None:
        """End what is still running."""


class Serial:
    """This process: one point after the other, in the order of their numbers."""

    def map(self, run: Run[T], costs: Mapping[int, float]) -> Iterator[tuple[int, T]]:
        """As :meth:`Executor.map` says."""
        numbers = list(costs)
        yield from zip(numbers, run(numbers), strict=True)

    def close(self) -> None:
        """Nothing is running."""
