"""The collectives of a group of workers on a machine, made once and scaled to every size."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from simulator.collectives import Algorithm, find
from simulator.collectives.algorithm_options import check_values
from simulator.collectives.collective import Fitted
from simulator.collectives.operation_counts import bounds
from simulator.collectives.proof import prove
from simulator.collectives.symmetry import fold
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts
from simulator.training.size import check_collective, check_size
from topologies.errors import InputError
from topologies.topology import Ints

if TYPE_CHECKING:
    from simulator.training.plan import Setting


SIMULATED_OPERATIONS = 4096
"""Operations of a collective that are sooner simulated than folded."""


class Communicator:
    """The collectives of the workers of `setting`; the algorithm may add switches to its topology.

    Large collectives run `algorithm`: an all-reduce by name, or an algorithm of any collective.
    Small all-reduces run `small`. A single worker sends nothing. If all ranks are `alike`, or if
    large collectives will not be written out, these are of the ranks that stand for all, where some
    do. Raises InputError if a collective has too many operations.
    """

    def __init__(
        self,
        setting: Setting,
        algorithm: str | Algorithm = "ring",
        small: str = "tree",
        *,
        alike: bool = False,
    ) -> None:
        chosen = find_all_reduce(algorithm) if isinstance(algorithm, str) else algorithm
        if find_all_reduce(small).fit is not None or find(small).servers:
            raise InputError(
                f"small is {small!r}: a plain all-reduce among the workers, like tree or ring"
            )
        self.topology, self.ranks = setting.topology, setting.ranks
        self.words: tuple[str, ...] = ()
        number = next(bounds(chosen, setting.topology, setting.ranks))
        is_priced = setting.symmetric and number > setting.priced_beyond
        folded = _folded(chosen, setting) if alike or is_priced else None
        if folded is None:
            for least in bounds(chosen, setting.topology, setting.ranks):
                _check(setting, least)
        self.unit = self._schedule(chosen, folded)
        """A large collective of one byte."""
        _check(setting, len(self.unit))
        self.shifts = self.unit.fold.shifts if alike and self.unit.fold else None
        """What takes the workers that stand for all to all; None: each stands for itself."""
        self._units, self._small = {"": self.unit}, small
        self._sizes: dict[tuple[str, float], Schedule] = {}

    @property
    def standing(self) -> Ints:
        """The workers that stand for all."""
        every = np.arange(self.ranks) if self.shifts is None else self.shifts.representatives
        return every.astype(np.int32)

    def large(self, nbytes: float) -> Schedule:
        """A large collective."""
        return self.of("", nbytes)

    def small(self, nbytes: float) -> Schedule:
        """An all-reduce of a few bytes."""
        return self.of(self._small, nbytes)

    def of(self, name: str, nbytes: float) -> Schedule:
        """A collective by the name of its algorithm, the same for all of the same size."""
        if name not in self._units:
            self._units[name] = find(name).build(self.ranks, 1.0)
        if (name, nbytes) not in self._sizes:
            self._sizes[name, nbytes] = self._units[name].scaled(nbytes)
        return self._sizes[name, nbytes]

    def _schedule(self, algorithm: Algorithm, folded: Fitted | None) -> Schedule:
        if self.ranks == 1:
            return ScheduleBuilder(1, 1.0).build()
        fitted = folded or algorithm.on(self.topology, self.ranks, 1.0)
        schedule, self.topology, _, self.words = fitted
        if algorithm.origin:
            prove(algorithm, schedule)
        return schedule


def _folded(algorithm: Algorithm, setting: Setting) -> Fitted | None:
    """The collective of the ranks that stand for all, where that is worth looking for."""
    number = max(bounds(algorithm, setting.topology, setting.ranks))
    if number <= SIMULATED_OPERATIONS:
        return None

    def is_quick(shifts: Shifts) -> bool:
        """Whether it takes some seconds to try ranks that may stand for all."""
        return setting.force or number / shifts.order <= 2.0**25

    folded = fold(algorithm, setting.topology, setting.ranks, is_quick)
    return None if folded is None else folded.fitted


def _check(setting: Setting, operations: float) -> None:
    """Refuse a collective that is too large to be written: for all transfers of a step, or alone
    if collectives may be timed as a whole."""
    if setting.force:
        return
    if setting.priced_beyond == inf:
        check_size(operations, 1)
    else:
        check_collective(operations)


def find_all_reduce(name: str | Algorithm) -> Algorithm:
    """The all-reduce called `name`. Raises InputError for another collective."""
    algorithm = find(name) if isinstance(name, str) else name
    if algorithm.collective.name != "all_reduce":
        raise InputError(
            f"{algorithm.name} is of {algorithm.collective.name}: take an all_reduce like ring, "
            f"rings, tree or nvls"
        )
    check_values(algorithm)
    return algorithm
