"""Algorithms whose messages between two ranks follow each other, as on connections of a library."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from simulator.collectives import Algorithm
from simulator.collectives.collective import Fitted
from simulator.kernels.records import Csr
from simulator.schedules.schedule import Schedule


@cache
def in_turn(algorithm: Algorithm) -> Algorithm:
    """An algorithm in which a rank sends a message when its message before has arrived, if both are
    on the same channel to the same rank.

    Where links serve messages first come, first served, messages of a connection take turns by
    themselves. Under fair sharing they would be flows that share the link, and end together.
    """

    def schedule(*arguments: Any, **options: Any) -> Schedule:
        return _in_turn(algorithm.schedule(*arguments, **options))

    def fit(*arguments: Any, **options: Any) -> Fitted:
        assert algorithm.fit is not None
        fitted = algorithm.fit(*arguments, **options)
        return fitted._replace(schedule=_in_turn(fitted.schedule))

    recipe = in_turn, (algorithm,)
    return replace(algorithm, schedule=schedule, fit=algorithm.fit and fit, recipe=recipe)


def _in_turn(schedule: Schedule) -> Schedule:
    """The operations, of which each message waits for the one before on its connection."""
    remote = np.flatnonzero(schedule.remote)
    connection = np.stack((schedule.rank, schedule.peer, schedule.lane))[:, remote]
    order = np.lexsort((remote, *connection))
    follows = np.flatnonzero((np.diff(connection[:, order], axis=1) == 0).all(axis=0))
    waiting = np.repeat(np.arange(len(schedule)), np.diff(schedule.indptr))
    before = np.stack((remote[order[follows + 1]], remote[order[follows]]))
    waits = np.append(np.stack((waiting, schedule.indices)), before, axis=1)
    later, earlier = np.unique(waits, axis=1)
    indptr, indices = Csr.of(later, earlier, len(schedule))
    return replace(schedule, indptr=indptr, indices=indices)
