"""The proof of an algorithm that is none of simctl's: it is refused before it is timed."""

from __future__ import annotations

import numpy as np

from simulator.collectives.collective import Algorithm
from simulator.schedules.schedule import Schedule
from simulator.schedules.semantics import (
    Places,
    RankSlot,
    WrongResult,
    check,
    explanation,
    wrong_results,
)
from topologies.errors import InputError


class WrongAlgorithm(InputError):
    """An algorithm of a user that does not compute what its collective promises."""

    def __init__(self, message: str, promised: Places, wrong: Places) -> None:
        super().__init__(message)
        self.promised, self.wrong = promised, wrong
        """Which slots of which workers are promised, and which are wrong, shape (workers,
        slots)."""


def prove(algorithm: Algorithm, schedule: Schedule) -> None:
    """Raise :class:`simulator.schedules.semantics.WrongResult` unless the schedule computes what
    the collective of `algorithm` promises; for an algorithm of a user :class:`WrongAlgorithm`, with
    the rank, the slot and the contribution.

    >>> from simulator.collectives import find
    >>> prove(find("ring"), find("ring").build(4, 1.0))
    """
    collective = algorithm.collective
    try:
        check(schedule, collective)
    except WrongResult as error:
        if not algorithm.origin:
            raise
        where = f"{algorithm.origin}: {algorithm.name} is wrong on {schedule.workers} ranks"
        if schedule.fold is not None:
            none = np.zeros((0, 0), dtype=np.bool_)
            raise WrongAlgorithm(f"{where}: {error}", none, none) from None
        promised, wrong = wrong_results(schedule, collective)
        cell = RankSlot(*map(int, np.argwhere(wrong)[0]))
        reason = explanation(schedule, collective, cell)
        count = f"{wrong.sum()} of {promised.sum()} results of {collective.name}"
        raise WrongAlgorithm(f"{where}: {reason}; {count} are wrong", promised, wrong) from None
