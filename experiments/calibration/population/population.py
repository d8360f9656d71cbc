"""Parameters of a library over many machines: their mean, and how far machines are from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import NamedTuple

import numpy as np

from experiments.calibration.effects.effect import Parameter
from experiments.calibration.known_paths import Ints
from experiments.calibration.population.machine_runs import Evidence, Runs
from topologies.topology import Floats

NEAR = 0.25
"""The spread of a mean about the start of the library's own model."""
USUAL, STRENGTH = 0.4, 3.0
"""A machine's usual distance from the mean, and for how many machines that counts."""
WIDEST = 1.0
"""No spread is larger: a factor e."""
SPECIFIED = "times specified"
"""The unit of 1/β in units of what the machine's specification says."""
EXPECTED = 0.2
"""The logarithm of specified over reached β, before anybody measures."""
ALONE = 0.3
"""The spread of parameters that are of a single machine."""
ROUNDS, STEPS, DAMPING = 8, 20, 0.5
"""The data are linearised so often, each time for so many steps of which so much is taken."""


class Member(NamedTuple):
    """A parameter of a population, as a fit counts it: see `Parameter`."""

    unit: str
    """The unit of its value: "s", "s/B", "power" or SPECIFIED."""
    start: float
    """The rest of the parameter in the library's own model, as the fit counts it."""
    mean: float
    """The mean over machines."""
    spread: float
    """The standard deviation over machines."""
    machines: float
    """The number of machines whose runs depend on it."""


@dataclass(frozen=True)
class Population:
    """The parameters of a library by their shared name."""

    library: str
    """The library."""
    members: Mapping[str, Member]
    """The parameters."""
    machines: tuple[str, ...]
    """The machines."""
    error: float = nan
    """The median |ln(predicted / measured)| of machines that were left out of a population."""

    @property
    def spreads(self) -> dict[str, float]:
        """The standard deviation over machines of each parameter, as the fit counts it."""
        return {name: member.spread for name, member in self.members.items()}

    def inner(self, runs: Runs) -> Floats:
        """The parameters of a machine that nobody has measured, shape (parameters,)."""
        starts = zip(runs.model.parameters, runs.names, runs.offset, strict=True)
        return np.array(
            [
                self.members[name].mean + offset if name in self.members else parameter.inner
                for parameter, name, offset in starts
            ]
        )


def fit_population(runs: Sequence[Runs], near: float = NEAR) -> Population:
    """The population of the machines of some runs, each of which counts alike.

    A machine's rests are normal about the mean, and its data linear in them about the mean (the
    first-order method of nonlinear mixed effects: Sheiner and Beal, J. Pharmacokinet. Biopharm.
    8(6), 1980). Expectation and maximisation alternate (Dempster, Laird and Rubin, JRSS B 39(1),
    1977), with the library's own model as a prior of the mean, of spread `near`.
    """
    return _Fit(runs, near).population()


class _Fit:
    """The fit of a population. Arrays have the shape (members,)."""

    def __init__(self, runs: Sequence[Runs], near: float) -> None:
        starts = _starts(runs)
        self.runs, self.near, self.names = runs, near, tuple(starts)
        self.units = [unit for unit, _ in starts.values()]
        self.base = np.array([start for _, start in starts.values()])
        place = {name: k for k, name in enumerate(self.names)}
        self.columns = [np.array([place.get(name, -1) for name in each.names]) for each in runs]
        machines = [each.machine for each in runs]
        self.machines = tuple(dict.fromkeys(machines))
        self.share = [1 / machines.count(machine) for machine in machines]
        self.counted = self._sum([np.ones(len(each.names)) for each in runs])
        self.variance = np.full(len(self.base), USUAL**2)

    def population(self) -> Population:
        """The population, after all rounds."""
        mean = self.base
        for _ in range(ROUNDS):
            found = [
                each.evidence(self._of(mean, column, 0.0) + each.offset)
                for each, column in zip(self.runs, self.columns, strict=True)
            ]
            target = mean
            for _ in range(STEPS):
                target = self._step(found, target)
            mean = mean + DAMPING * (target - mean)
        spread = np.minimum(np.sqrt(self.variance), WIDEST)
        rows = np.stack((self.base, mean, spread, self.counted), axis=1).tolist()
        members = {
            name: Member(unit, *row)
            for name, unit, row in zip(self.names, self.units, rows, strict=True)
        }
        return Population(self.runs[0].model.library.name, members, self.machines)

    def _step(self, found: Sequence[Evidence], mean: Floats) -> Floats:
        """The next mean, by one step of expectation and maximisation; changes the variance."""
        centres, variances = [], []
        for (information, vector), column in zip(found, self.columns, strict=True):
            precision = 1 / self._of(self.variance, column, ALONE**2)
            covariance = np.linalg.inv(information + np.diag(precision))
            centres.append(covariance @ (vector + precision * self._of(mean, column, 0.0)))
            variances.append(np.diag(covariance))
        weight = self._sum(centres) / self.variance + self.base / self.near**2
        mean = weight / (self.counted / self.variance + 1 / self.near**2)
        away = [
            (centre - self._of(mean, column, 0.0)) ** 2 + variance
            for centre, variance, column in zip(centres, variances, self.columns, strict=True)
        ]
        usual = STRENGTH * USUAL**2
        self.variance = (usual + self._sum(away)) / (STRENGTH + self.counted)
        return np.asarray(mean)

    def _of(self, members: Floats, column: Ints, alone: float) -> Floats:
        """The members of some runs' parameters, shape (parameters,); `alone` for a parameter that
        is of a single machine."""
        return np.where(column >= 0, members[column], alone)

    def _sum(self, values: Sequence[Floats]) -> Floats:
        """The sum over machines of values of the runs' parameters; set-ups of a machine share its
        weight."""
        total = np.zeros(len(self.base))
        for each, column, share in zip(values, self.columns, self.share, strict=True):
            np.add.at(total, column[column >= 0], share * each[column >= 0])
        return total


def _starts(runs: Sequence[Runs]) -> dict[str, tuple[str, float]]:
    """The unit and the rest of every shared parameter in the library's own model."""
    return {
        name: _start(parameter)
        for each in runs
        for parameter, name in zip(each.model.parameters, each.names, strict=True)
        if name
    }


def _start(parameter: Parameter) -> tuple[str, float]:
    if not parameter.specified:
        return parameter.unit, parameter.inner
    return ("power", 0.0) if parameter.unit == "power" else (SPECIFIED, EXPECTED)
