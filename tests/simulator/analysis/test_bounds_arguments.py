"""What the bounds refuse: a size or a number of workers that no collective has."""

from typing import Any

import numpy as np
import pytest

from grouped_cases import each_case
from refusals import refusal
from simulator.analysis.bounds import best_bound, bounds, limits
from simulator.collectives.collective import ALL_REDUCE
from topologies.shapes import ring

MACHINE = ring(4, bandwidth=1e9, latency=1e-6)


@each_case("nbytes", [float("nan"), float("inf"), -1.0, -1e-300])
@each_case("call", [bounds, best_bound])
def test_a_size_is_finite_and_not_negative(call: Any, nbytes: float) -> None:
    message = refusal(lambda: call(ALL_REDUCE, MACHINE, 4, nbytes))
    assert message == f"nbytes is {nbytes}: expected a finite number, 0 or more"


@each_case("workers", [0, -1, 5])
@each_case("call", [bounds, best_bound])
def test_the_workers_are_ranks_of_the_machine(call: Any, workers: int) -> None:
    message = refusal(lambda: call(ALL_REDUCE, MACHINE, workers, 1e6))
    assert message == f"workers are {workers}: ring has 4 ranks, expected 1 to 4"


@pytest.mark.parametrize("workers", [2.5, float("nan"), "four"])
def test_the_workers_are_a_whole_number(workers: Any) -> None:
    for call in (
        lambda: limits(ALL_REDUCE, MACHINE, workers),
        lambda: bounds(ALL_REDUCE, MACHINE, workers, 1e6),
    ):
        assert refusal(call) == f"workers is {workers!r}: expected a whole number, like 1"


def test_no_bytes_take_the_latency() -> None:
    assert best_bound(ALL_REDUCE, MACHINE, 4, 0.0).seconds == 2e-6


def test_one_worker_needs_no_time() -> None:
    assert best_bound(ALL_REDUCE, MACHINE, np.int64(1), 1e6).seconds == 0  # type: ignore[arg-type]
