"""Points that run by an executor and are kept in a journal: their results, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from time import monotonic
from typing import Any, Protocol, TypeVar

from experiments import output
from experiments.execution.executor import Executor
from experiments.execution.journal import Journal
from topologies.jit import is_loaded
from topologies.resources import duration

T = TypeVar("T")


class Points(Protocol[T]):
    """Work in points that do not depend on each other."""

    @property
    def costs(self) -> Sequence[float]:
        """About how many seconds each point takes."""

    def run(self, numbers: Sequence[int]) -> Iterator[T]:
        """The results of the points with these numbers, in that order."""

    def encode(self, result: T) -> Any:
        """A result as JSON takes it."""

    def decode(self, encoded: Any) -> T:
        """The result that was encoded."""


def results(
    points: Points[T],
    executor: Executor | None = None,
    journal: Journal | None = None,
    finished: Callable[[int], None] = lambda number: None,
) -> Iterator[T]:
    """The result of every point in the order of their numbers, each as soon as it and all before it
    are there. Without an executor this process runs one point after the other.

    The journal has the results of an earlier run, and gets the others. `finished` gets the number
    of each point that is run.
    """
    early: dict[int, T] = {}
    if journal:
        early = {number: points.decode(result) for number, result in journal.results.items()}
    costs = {number: cost for number, cost in enumerate(points.costs) if number not in early}
    following = count()
    number = next(following)
    while number in early:
        yield early.pop(number)
        number = next(following)
    if executor:
        ran = executor.map(points.run, costs)
    else:
        ran = zip(costs, points.run(list(costs)), strict=True)
    for done, result in ran:
        if journal:
            journal.add(done, points.encode(result))
        finished(done)
        early[done] = result
        while number in early:
            yield early.pop(number)
            number = next(following)


class Countdown:
    """Tells how many points are done, and the time left, as the work that is done tells it.

    Work counts from when kernels are compiled and loaded on: before, points take longer.
    """

    def __init__(
        self, progress: output.Progress, costs: Sequence[float], earlier: Iterable[int] = ()
    ) -> None:
        self._progress, self._costs, self._start = progress, costs, monotonic()
        known = list(earlier)
        self._done, self._spent = len(known), 0.0
        self._left = sum(costs) - sum(costs[number] for number in known)
        self._loaded = is_loaded()

    def __call__(self, number: int) -> None:
        """A point is done."""
        self._done += 1
        self._spent += self._costs[number]
        self._left -= self._costs[number]
        if is_loaded() != self._loaded:
            self._start, self._spent, self._loaded = monotonic(), 0.0, is_loaded()
        remark = ""
        # The first points take longer, since they load compiled code: they tell nothing.
        if self._spent > 0.01 * max(self._left, 0.0):
            seconds = (monotonic() - self._start) * self._left / self._spent
            remark = f", {duration(seconds)} left"
        self._progress(self._done, len(self._costs), remark)
