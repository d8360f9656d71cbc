"""The interface of what runs points, and points that a worker gets together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

SHORTEST_CHUNK, LONGEST_CHUNK = 0.1, 4.0
"""Seconds of a chunk. Less would mostly be messages, and more would be lost with a worker."""
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


def chunks(costs: Mapping[int, float], workers: int) -> list[list[int]]:
    """Neighbouring points of about the same cost together, the dearest chunk first.

    >>> chunks({0: 0.2, 1: 18.0, 2: 0.4, 3: 0.02, 4: 0.02}, workers=2)
    [[1], [2, 3, 4], [0]]
    """
    # The last chunks are small, so that all workers end together.
    limit = min(max(sum(costs.values()) / (16 * max(workers, 1)), SHORTEST_CHUNK), LONGEST_CHUNK)
    parts: list[list[int]] = []
    total = limit
    for number, cost in costs.items():
        if total + cost > limit:
            parts.append([])
            total = 0.0
        parts[-1].append(number)
        total += cost
    return sorted(parts, key=lambda part: -sum(costs[number] for number in part))
