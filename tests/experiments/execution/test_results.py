"""Results in the order of their points, whoever runs them when; and the time left."""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import output
from experiments.execution import results as module
from experiments.execution.executor import Run, Serial, T
from experiments.execution.journal import Journal
from experiments.execution.results import Countdown, results


class Squares:
    """Points whose results are squares."""

    def __init__(self, number: int) -> None:
        self.costs = [1.0] * number
        self.numbers: list[int] = []

    def run(self, numbers: Sequence[int]) -> Iterator[int]:
        for number in numbers:
            self.numbers.append(number)
            yield number**2

    def encode(self, result: int) -> Any:
        return result

    def decode(self, encoded: Any) -> int:
        return int(encoded)


class Shuffled(Serial):
    """Runs points in some order."""

    def __init__(self, order: Callable[[list[int]], list[int]]) -> None:
        self.order = order

    def map(self, run: Run[T], costs: Mapping[int, float]) -> Iterator[tuple[int, T]]:
        return super().map(run, dict.fromkeys(self.order(list(costs)), 1.0))


@given(st.permutations(range(12)))
def test_results_are_in_order_whatever_the_order_of_the_points(order: list[int]) -> None:
    points = Squares(12)
    assert list(results(points, Shuffled(lambda numbers: order))) == [k**2 for k in range(12)]
    assert points.numbers == order


def test_a_result_does_not_wait_for_later_points() -> None:
    points = Squares(4)
    stream = results(points, Shuffled(lambda numbers: [1, 0, 3, 2]))
    assert (next(stream), points.numbers) == (0, [1, 0])
    assert (next(stream), points.numbers) == (1, [1, 0])
    assert (next(stream), points.numbers) == (4, [1, 0, 3, 2])


def test_what_the_journal_has_is_not_run(tmp_path: Path) -> None:
    with Journal(tmp_path / "x.csv", {}, resume=False) as journal:
        for number in (0, 1, 5):
            journal.add(number, number**2)
    points = Squares(7)
    with Journal(tmp_path / "x.csv", {}, resume=True) as journal:
        finished: list[int] = []
        stream = results(points, Serial(), journal, finished.append)
        assert [next(stream), next(stream)] == [0, 1]
        assert points.numbers == []
        assert list(stream) == [4, 9, 16, 25, 36]
    assert points.numbers == finished == [2, 3, 4, 6]
    with Journal(tmp_path / "x.csv", {}, resume=True) as journal:
        assert journal.results == {k: k**2 for k in range(7)}


def test_compiling_is_no_part_of_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first point loads kernels."""
    clock, lines = [0.0], io.StringIO()
    monkeypatch.setattr(module, "monotonic", lambda: clock[0])
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr(module, "is_loaded", lambda: clock[0] > 0.0)
    countdown = Countdown(output.Progress("points done", lines), [10.0] * 6)
    for number, seconds in enumerate((100.0, 11.0)):
        clock[0] += seconds
        countdown(number)
    assert lines.getvalue().splitlines() == [
        "points done: 1 of 6",
        "points done: 2 of 6, 44 s left",
    ]


def test_the_time_left_is_told_from_the_work_of_this_run(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, lines = [0.0], io.StringIO()
    monkeypatch.setattr(module, "monotonic", lambda: clock[0])
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    costs = [1000.0, 1.0, 10.0, 90.0, 100.0]
    countdown = Countdown(output.Progress("points done", lines), costs, earlier=[0])
    for number in (1, 2, 3, 4):
        clock[0] += 20.0
        countdown(number)
    assert lines.getvalue().splitlines() == [
        "points done: 2 of 5",
        "points done: 3 of 5, 12 min left",
        "points done: 4 of 5, 59 s left",
    ]
