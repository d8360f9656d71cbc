"""Parameters of a library over many machines: their mean, and how far machines are from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from typing import NamedTuple

import numpy as np

from experiments.calibration.effects.effect import Parameter
from experiments.calibration.library import PLUGIN
from experiments.calibration.observations import Ints
from experiments.calibration.population.machine_runs import Evidence, Runs
from experiments.calibration.uncertainty import directions
from simulator.uncertainty.interval_rules import Deviation
from topologies.topology import Floats

NEAR = 0.02
"""The spread of a mean about the start of the library's own model."""
SHARED, APART = "network α", 0.5
"""How the names of all α between nodes end. Their means share an offset from the library's own
model, and this is its spread."""
ENOUGH = 3
"""A transport that so many machines have has a population."""
USUAL, STRENGTH = 0.4, 6.0
"""A machine's usual distance from the mean, and for how many machines that counts."""
WIDEST = 2.0
"""No spread is larger: a factor of 7."""
SPECIFIED = "times specified"
"""The unit of 1/β in units of what the machine's specification says."""
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


class Spread(NamedTuple):
    """The rules of intervals on a machine that nobody has measured. They were learnt from machines
    that were left out."""

    machine: Deviation
    """What all points of the machine share."""
    parameters: Deviation
    """The factor on what the differences between machines contribute."""


@dataclass(frozen=True, eq=False)
class Population:
    """The parameters of a library by their shared name."""

    library: str
    """The library."""
    members: Mapping[str, Member]
    """The parameters."""
    machines: tuple[str, ...]
    """The machines."""
    correlations: Floats
    """How parameters go together over machines, shape (parameters, parameters)."""
    error: float = nan
    """The median |ln(predicted / measured)| of machines that were left out of a population."""
    intervals: Spread | None = None
    """The rules of intervals. None if nobody learnt them."""
    transports: Mapping[str, Population] = field(default_factory=dict)
    """The populations of machines whose network has a transport: see `specification.transport`."""

    def over(self, transport: str) -> Population:
        """That of a transport, or of all machines if too few have it. The rules of intervals are
        the same."""
        level = self.transports.get(transport, self)
        return replace(level, error=self.error, intervals=self.intervals)

    @property
    def spreads(self) -> dict[str, float]:
        """The standard deviation over machines of each parameter, as the fit counts it."""
        return {name: member.spread for name, member in self.members.items()}

    def moves(self, names: Sequence[str]) -> Floats:
        """Differences of machines from the mean: one standard deviation along each of several
        independent directions, in the parameters of these names, shape (directions, names). A name
        that the population does not have does not move."""
        spread = np.array(list(self.spreads.values()))
        whole = directions(self.correlations * np.outer(spread, spread))
        place = {name: k for k, name in enumerate(self.members)}
        columns = np.array([place.get(name, -1) for name in names], dtype=np.int64)
        return np.where(columns >= 0, whole[:, columns], 0.0)

    def inner(self, runs: Runs) -> Floats:
        """The parameters of a machine that nobody has measured, shape (parameters,)."""
        return self.mean(runs.model.parameters, runs.names, runs.offset)

    def mean(
        self, parameters: Sequence[Parameter], names: Sequence[str], offsets: Floats
    ) -> Floats:
        """The mean of parameters over machines, by their names here, shape (parameters,): a rest
        plus an offset. A parameter without such a name has its start."""
        return np.array(
            [
                self.members[name].mean + offset if name in self.members else parameter.inner
                for parameter, name, offset in zip(parameters, names, offsets, strict=True)
            ]
        )


def fit_transports(runs: Sequence[Runs]) -> Population:
    """The population of all machines, with that of each transport that ENOUGH machines have.
    Machines without a network are in each of them. Plugins have only α between nodes in common, so
    their population has all else of all machines."""
    machines = {(each.transport, each.machine) for each in runs}
    counts = Counter(transport for transport, _ in machines if transport)
    whole, levels = fit_population(runs), dict[str, Population]()
    for transport in sorted(counts):
        members = [each for each in runs if each.transport in ("", transport)]
        if counts[transport] >= ENOUGH and transport == PLUGIN:
            levels[transport] = _with_latencies(whole, fit_population(members))
        elif counts[transport] >= ENOUGH:
            levels[transport] = fit_population(members)
    return replace(whole, transports=levels)


def _with_latencies(whole: Population, level: Population) -> Population:
    """The population of all machines, with α between nodes of some of them."""
    latencies = {key: one for key, one in level.members.items() if key.endswith(SHARED)}
    members = {
        key: one._replace(mean=latencies[key].mean, spread=latencies[key].spread)
        if key in latencies
        else one
        for key, one in whole.members.items()
    }
    return replace(whole, members=members, machines=level.machines)


def fit_population(runs: Sequence[Runs], near: float = NEAR, apart: float = APART) -> Population:
    """The population of the machines of some runs, each of which counts alike.

    A machine's rests are normal about the mean, and its data linear in them about the mean (the
    first-order method of nonlinear mixed effects: Sheiner and Beal, J. Pharmacokinet. Biopharm.
    8(6), 1980). Expectation and maximisation alternate (Dempster, Laird and Rubin, JRSS B 39(1),
    1977), with the library's own model as a prior of the mean, of spread `near`. The prior of an
    offset that all α between nodes share has the spread `apart`.
    """
    return _Fit(runs, near, apart).population()


class _Fit:
    """The fit of a population. Arrays have the shape (members,) or (members, members)."""

    def __init__(self, runs: Sequence[Runs], near: float, apart: float) -> None:
        starts = _starts(runs)
        self.runs, self.names = runs, tuple(starts)
        together = np.array([float(name.endswith(SHARED)) for name in self.names])
        prior = near**2 * np.eye(len(together)) + apart**2 * np.outer(together, together)
        self.loose = np.linalg.inv(prior)
        """The information of the prior of the mean."""
        self.units = [unit for unit, _ in starts.values()]
        self.base = np.array([start for _, start in starts.values()])
        place = {name: k for k, name in enumerate(self.names)}
        self.columns = [np.array([place.get(name, -1) for name in each.names]) for each in runs]
        machines = [each.machine for each in runs]
        self.machines = tuple(dict.fromkeys(machines))
        self.share = [1 / machines.count(machine) for machine in machines]
        self.usual = np.eye(len(self.base)) * USUAL**2
        self.covariance = self.usual

    def population(self) -> Population:
        """The population, after all rounds."""
        mean = self.base
        for _ in range(ROUNDS):
            found = [
                self._found(each, column, mean)
                for each, column in zip(self.runs, self.columns, strict=True)
            ]
            target = mean
            for _ in range(STEPS):
                target = self._step(found, target)
            mean = mean + DAMPING * (target - mean)
        deviation = np.sqrt(np.diag(self.covariance))
        spread = np.minimum(deviation, WIDEST)
        rows = np.stack((self.base, mean, spread, self._counted()), axis=1).tolist()
        members = {
            name: Member(unit, *row)
            for name, unit, row in zip(self.names, self.units, rows, strict=True)
        }
        correlations = self.covariance / np.outer(deviation, deviation)
        library = self.runs[0].model.library.name
        return Population(library, members, self.machines, correlations)

    def _found(self, runs: Runs, column: Ints, mean: Floats) -> Evidence:
        """What runs say of all members, if parameters of a single machine are integrated out."""
        known = column >= 0
        information, vector = runs.evidence(np.where(known, mean[column], 0.0) + runs.offset)
        alone = information[np.ix_(~known, ~known)] + np.eye((~known).sum()) / ALONE**2
        mixed = information[np.ix_(known, ~known)]
        shared = Evidence(np.zeros_like(self.usual), np.zeros_like(self.base))
        members = column[known]
        shared.information[np.ix_(members, members)] = information[
            np.ix_(known, known)
        ] - mixed @ np.linalg.solve(alone, mixed.T)
        shared.vector[members] = vector[known] - mixed @ np.linalg.solve(alone, vector[~known])
        return shared

    def _step(self, found: Sequence[Evidence], mean: Floats) -> Floats:
        """The next mean, by one step of expectation and maximisation; changes the covariance."""
        precision = np.linalg.inv(self.covariance)
        covariances = [np.linalg.inv(each.information + precision) for each in found]
        centres = [
            covariance @ (each.vector + precision @ mean)
            for covariance, each in zip(covariances, found, strict=True)
        ]
        machines, loose = sum(self.share), self.loose
        pull = sum(share * centre for share, centre in zip(self.share, centres, strict=True))
        mean = np.linalg.solve(machines * precision + loose, precision @ pull + loose @ self.base)
        apart = sum(
            share * (np.outer(centre - mean, centre - mean) + covariance)
            for share, centre, covariance in zip(self.share, centres, covariances, strict=True)
        )
        self.covariance = (STRENGTH * self.usual + apart) / (STRENGTH + machines)
        return mean

    def _counted(self) -> Floats:
        """The number of machines whose runs have each member."""
        total = np.zeros(len(self.base))
        for column, share in zip(self.columns, self.share, strict=True):
            np.add.at(total, column[column >= 0], share)
        return total


def _starts(runs: Sequence[Runs]) -> dict[str, tuple[str, float]]:
    """The unit and the rest of every shared parameter in the library's own model."""
    return {
        name: (_unit(parameter), parameter.rest)
        for each in runs
        for parameter, name in zip(each.model.parameters, each.names, strict=True)
        if name
    }


def _unit(parameter: Parameter) -> str:
    return SPECIFIED if parameter.specified and parameter.unit == "s/B" else parameter.unit
