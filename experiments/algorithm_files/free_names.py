"""Algorithms of files: their names, and their schedules."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from simulator.collectives import Algorithm, Collective, algorithms
from simulator.cost_models import CostModel
from simulator.cost_models.cost_model import NO_FORMULA
from simulator.schedules.schedule import Schedule

_UNNAMED = re.compile(r"[^\w.+-]", re.ASCII)


def free_name(name: str, ending: str) -> str:
    """A name that no algorithm of simctl has, and that may stand in a list.

    >>> free_name("ring", "xml"), free_name("my ring: 2", "xml")
    ('ring.xml', 'my_ring__2')
    """
    plain = _UNNAMED.sub("_", name)[:63] or ending
    return f"{plain}.{ending}" if plain in algorithms() else plain


def of_file(
    name: str,
    collective: Collective,
    write: Callable[[], Schedule],
    summary: str,
    ranks: int,
    cost: CostModel = NO_FORMULA,
) -> Algorithm:
    """The algorithm of a file for its number of ranks. The schedule is written once, and scaled."""
    whole = cache(write)

    def schedule(workers: int, nbytes: float) -> Schedule:
        return whole().scaled(nbytes)

    return Algorithm(
        name, collective, schedule, cost, summary, defined=lambda workers: workers == ranks
    )
