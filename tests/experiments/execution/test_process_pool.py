"""Workers of this machine: their results, their errors and their deaths."""

import os
import signal
from collections.abc import Iterator, Sequence
from multiprocessing import active_children
from random import Random

import pytest

from experiments.execution import executor
from experiments.execution.executor import chunks
from experiments.execution.process_pool import LOSSES, Processes
from refusals import refusal
from topologies.errors import InputError

COSTS = dict.fromkeys(range(100), 0.001)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "SHORTEST_CHUNK", 1e-6)


def squares(numbers: Sequence[int]) -> Iterator[int]:
    return (number**2 for number in numbers)


def test_every_point_is_in_one_chunk() -> None:
    random = Random(0)
    costs = {number: random.lognormvariate(0, 3) * 0.2 for number in range(0, 2000, 3)}
    parts = chunks(costs, 7)
    assert sorted(number for part in parts for number in part) == list(costs)
    totals = [sum(costs[number] for number in part) for part in parts]
    assert totals == sorted(totals, reverse=True)
    assert all(part == sorted(part) for part in parts)
    large = [
        len(part)
        for part, total in zip(parts, totals, strict=True)
        if total > executor.LONGEST_CHUNK
    ]
    assert set(large) <= {1}
    assert chunks({}, 2) == []


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_results_come_with_their_numbers(jobs: int) -> None:
    results = dict(Processes(jobs).map(squares, COSTS))
    assert results == {number: number**2 for number in COSTS}
    assert active_children() == []


def test_one_point_needs_no_worker() -> None:
    assert dict(Processes(2).map(squares, {})) == {}
    assert dict(Processes(2).map(squares, {5: 1.0})) == {5: 25}


def test_an_error_of_a_worker_is_that_of_the_sweep() -> None:
    parent = os.getpid()

    def refused(numbers: Sequence[int]) -> Iterator[int]:
        if os.getpid() != parent:
            raise InputError("no such machine")
        return squares(numbers)

    assert "no such machine" in refusal(list, Processes(2).map(refused, COSTS))
    assert active_children() == []


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(k, marks=pytest.mark.exhaustive) for k in range(3, 10))]
)
def test_a_killed_worker_costs_no_point(seed: int) -> None:
    random = Random(seed)
    moments = set(random.sample(range(1, 99), 2))
    numbers: list[int] = []
    for number, result in Processes(2).map(squares, COSTS):
        numbers.append(number)
        assert result == number**2
        if len(numbers) in moments and (workers := active_children()):
            victim = random.choice(workers).pid
            assert victim
            os.kill(victim, signal.SIGKILL)
    assert sorted(numbers) == list(COSTS)
    assert active_children() == []


def test_a_point_that_kills_every_worker_is_given_up() -> None:
    parent = os.getpid()

    def deadly(numbers: Sequence[int]) -> Iterator[int]:
        if 7 in numbers and os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return squares(numbers)

    with pytest.raises(InputError, match=rf"a worker died {LOSSES} times at point .*--jobs"):
        list(Processes(2).map(deadly, COSTS))
    assert active_children() == []


def test_who_stops_reading_ends_the_workers() -> None:
    results = Processes(2).map(squares, COSTS)
    next(results)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert active_children() == []
