"""Declare an algorithm of your own: a function, under a decorator that names its collective."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

from simulator.collectives import algorithms, of_collective
from simulator.collectives.collective import Algorithm, Collective, first_sentence
from simulator.cost_models import CostModel
from simulator.cost_models.cost_model import NO_FORMULA
from simulator.schedules.schedule import Schedule


def algorithm(
    collective: str | Collective,
    *,
    cost: CostModel = NO_FORMULA,
    defined: Callable[[int], bool] = lambda ranks: True,
) -> Callable[[Callable[..., Schedule]], Algorithm]:
    """A decorator that makes an algorithm of a function from the number of ranks and V in bytes to
    a schedule.

    The algorithm has the function's name, and the first sentence of its docstring as its
    summary.

    >>> from simulator.schedules.schedule_builder import ScheduleBuilder
    >>> @algorithm("broadcast")
    ... def everyone(ranks, nbytes):
    ...     star = ScheduleBuilder(ranks, nbytes)
    ...     for rank in range(1, ranks):
    ...         star.copy(0, rank, slot=0)
    ...     return star.build()
    >>> everyone.name, everyone.build(4, 8.0).volume
    ('everyone', 24.0)
    """
    promise = collective
    if isinstance(promise, str):  # packages are not asked, as they may be about to declare theirs
        promise = of_collective(promise, algorithms())[0].collective

    def declare(function: Callable[..., Schedule]) -> Algorithm:
        return Algorithm(
            function.__name__,
            promise,
            function,
            cost,
            first_sentence(function),
            defined=defined,
            origin=Path(inspect.getfile(function)).name,
        )

    return declare
