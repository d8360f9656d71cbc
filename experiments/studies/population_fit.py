"""Populations of measured machines: the mean of their parameters and their spread about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from experiments.calibration.effects.effect import Parameter
from experiments.calibration.fit import evidence
from experiments.calibration.library import PLUGIN
from experiments.calibration.library_model import Model, slopes
from experiments.calibration.population.population import (
    ALONE,
    ENOUGH,
    SPECIFIED,
    Member,
    Population,
    population_of,
    shared_names,
)
from experiments.calibration.population.specification import Specification, kernels, transport
from topologies.topology import Floats, Longs

NEAR = 0.02
"""The spread of a mean about the start of the library's own model."""
LEARNT = (
    *("1/β of own copies", "a piece", "LL node α", "message to a peer"),
    *("launch of sends", "α of sends", "1/β of sends", "1/β of all-to-all", "Simple network 1/β"),
    "latency of NVLS",
)
LOOSER = 0.25
"""How the names of parameters end that many machines show, and the spread of their means."""
SHARED, APART = "network α", 0.5
"""How the names of all α between nodes end. Their means share an offset from the library's own
model, and this is its spread."""
GAP, FREE = "network g", 1.5
"""How the name of g between nodes ends. No source states it, so its mean has this spread."""
OF_PLUGINS = (SHARED, GAP)
"""How the names of the parameters end that plugins have in common."""
USUAL, STRENGTH = 0.4, 6.0
"""A machine's usual distance from the mean, and its weight in machines."""
WIDEST = 2.0
"""No spread is larger: a factor of 7."""
ROUNDS, STEPS, DAMPING = 8, 20, 0.5
"""The data are linearised so often, each time for so many steps of which so much is taken."""


Evidence = tuple[Floats, Floats]
"""The logarithm of the likelihood of parameters by runs, to the second order: its information,
minus the second derivative, and the information times the best parameters."""


class MachineRuns:
    """Measured runs of one set-up of a machine.

    A parameter is an offset, which the machine's specification gives, plus a rest. Populations are
    of the rests.
    """

    def __init__(self, model: Model, specification: Specification) -> None:
        self.model, self.specification = model, specification
        self.machine = specification.machine
        self.transport = transport(model.library, specification.interconnect)
        self.kin = specification.kin
        self.names = shared_names(model)
        self.offset = offsets(model, specification)

    def inner(self, population: Population) -> Floats:
        """The parameters if nobody had measured the machine, shape (parameters,)."""
        return population.mean(self.model.parameters, self.names, self.offset)

    def evidence(self, inner: Floats) -> Evidence:
        """The evidence of the runs on the rests of the parameters near `inner`."""
        model, every = self.model, np.arange(len(self.model.points))
        choice = model.choice(inner, every, model.table(every))
        misfit = np.log(choice.seconds) - np.log(model.points.seconds)
        design, weight = slopes(model, inner, every, choice), evidence(misfit)
        information = design.T @ (weight[:, None] * design)
        vector = information @ (inner - self.offset) - design.T @ (weight * misfit)
        return information, vector


def at_specification(model: Model, specification: Specification) -> Model:
    """The model whose fit starts at the specification of a machine's links."""
    rest = np.array([parameter.rest for parameter in model.parameters])
    population = population_of(model.library.name)
    machine_covariance = None
    if population is not None:
        of_transport = population.over(transport(model.library, specification.interconnect))
        machine_covariance = of_transport.covariance_of(shared_names(model))
    return model.starting(offsets(model, specification) + rest, model.weight, machine_covariance)


def offsets(model: Model, specification: Specification) -> Floats:
    """The parts of a model's parameters that a specification gives. If nobody specifies β of some
    links, it is as usual for the library."""
    given = [specification.offset(one, model.points.width) for one in model.parameters]
    return np.array(
        [
            parameter.inner - parameter.rest
            if offset is None
            else offset + kernels(model.library, specification.interconnect, parameter)
            for parameter, offset in zip(model.parameters, given, strict=True)
        ]
    )


def fit_transports(runs: Sequence[MachineRuns]) -> Population:
    """The population of all machines, with that of each transport that ENOUGH machines have.
    Machines without a network are in each of them. Runs that are no example of their machine are in
    none. Plugins have only α and g between nodes in common, so their population has all else of all
    machines."""
    runs = [each for each in runs if not each.specification.why_not] or runs
    machines = {(each.transport, each.machine) for each in runs}
    counts = Counter(name for name, _ in machines if name)
    whole, levels = fit_population(runs), dict[str, Population]()
    for name in sorted(name for name in counts if counts[name] >= ENOUGH):
        level = fit_population([each for each in runs if each.transport in ("", name)])
        levels[name] = _with_network(whole, level) if name == PLUGIN else level
    return replace(whole, transports=levels)


def _with_network(whole: Population, level: Population) -> Population:
    shared = {key: one for key, one in level.members.items() if key.endswith(OF_PLUGINS)}
    members = {
        key: one._replace(mean=shared[key].mean, spread=shared[key].spread)
        if key in shared
        else one
        for key, one in whole.members.items()
    }
    return replace(whole, members=members, machines=level.machines)


def fit_population(
    runs: Sequence[MachineRuns],
    near: float = NEAR,
    apart: float = APART,
    looser: float = LOOSER,
) -> Population:
    """The population of the machines of some runs, each of which counts alike.

    A machine's rests are normal about the mean, and its data linear in them about the mean (the
    first-order method of nonlinear mixed effects: Sheiner and Beal, J. Pharmacokinet. Biopharm.
    8(6), 1980). Expectation and maximisation alternate (Dempster, Laird and Rubin, JRSS B 39(1),
    1977), with the library's own model as a prior of the mean, of spread `near`, or `looser` for
    LEARNT parameters, and FREE for g between nodes. All α between nodes share an offset, whose
    prior has the spread `apart`. Parameters between nodes do not go together with others.
    """
    return _Fit(runs, near, apart, looser).population()


class _Fit:
    """The fit of a population. Arrays have the shape (members,) or (members, members)."""

    def __init__(
        self, runs: Sequence[MachineRuns], near: float, apart: float, looser: float
    ) -> None:
        starts = _starts(runs)
        self.runs, self.names = runs, tuple(starts)
        together = np.array([float(name.endswith(SHARED)) for name in self.names])
        spreads = [
            FREE if name.endswith(GAP) else looser if name.endswith(LEARNT) else near
            for name in self.names
        ]
        prior = np.diag(np.square(spreads)) + apart**2 * np.outer(together, together)
        network = np.array(["network" in name for name in self.names])
        self.apart = network[:, None] != network
        """Pairs of parameters that are independent: what is inside nodes and what is between."""
        self.loose = np.linalg.inv(prior)
        """The information of the prior of the mean."""
        self.units = [unit for unit, _ in starts.values()]
        self.base = np.array([start for _, start in starts.values()])
        place = {name: k for k, name in enumerate(self.names)}
        self.columns = [np.array([place.get(name, -1) for name in each.names]) for each in runs]
        machines = [each.machine for each in runs]
        self.machines = tuple(dict.fromkeys(machines))
        self.share = np.array([1 / machines.count(machine) for machine in machines])
        self.usual = np.eye(len(self.base)) * USUAL**2
        self.covariance = self.usual

    def population(self) -> Population:
        """The population, after all rounds."""
        mean = self.base
        for _ in range(ROUNDS):
            evidence = [
                self._found(each, column, mean)
                for each, column in zip(self.runs, self.columns, strict=True)
            ]
            information, vector = map(np.stack, zip(*evidence, strict=True))
            target = mean
            for _ in range(STEPS):
                target = self._step(information, vector, target)
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

    def _found(self, runs: MachineRuns, column: Longs, mean: Floats) -> Evidence:
        """The evidence of runs on all members; those of a single machine are integrated out."""
        known = column >= 0
        information, vector = runs.evidence(np.where(known, mean[column], 0.0) + runs.offset)
        alone = information[np.ix_(~known, ~known)] + np.eye((~known).sum()) / ALONE**2
        mixed = information[np.ix_(known, ~known)]
        members, shared = column[known], (np.zeros_like(self.usual), np.zeros_like(self.base))
        shared[0][np.ix_(members, members)] = information[np.ix_(known, known)]
        shared[0][np.ix_(members, members)] -= mixed @ np.linalg.solve(alone, mixed.T)
        shared[1][members] = vector[known] - mixed @ np.linalg.solve(alone, vector[~known])
        return shared

    def _step(self, information: Floats, vector: Floats, mean: Floats) -> Floats:
        """The next mean, by one step of expectation and maximisation; changes the covariance. The
        evidence has the shapes (runs, members, members) and (runs, members)."""
        precision = np.linalg.inv(self.covariance)
        covariances = np.linalg.inv(information + precision)
        centres = np.einsum("rij,rj->ri", covariances, vector + precision @ mean)
        machines, loose = self.share.sum(), self.loose
        pull = precision @ (self.share @ centres) + loose @ self.base
        mean = np.linalg.solve(machines * precision + loose, pull)
        off = centres - mean
        between = off.T @ (self.share[:, None] * off) + np.tensordot(self.share, covariances, 1)
        covariance = (STRENGTH * self.usual + between) / (STRENGTH + machines)
        self.covariance = np.where(self.apart, 0.0, covariance)
        return np.asarray(mean)

    def _counted(self) -> Floats:
        total = np.zeros(len(self.base))
        for column, share in zip(self.columns, self.share, strict=True):
            np.add.at(total, column[column >= 0], share)
        return total


def _starts(runs: Sequence[MachineRuns]) -> dict[str, tuple[str, float]]:
    """The unit and the rest of every shared parameter in the library's own model."""
    return {
        name: (_unit(parameter), parameter.rest)
        for each in runs
        for parameter, name in zip(each.model.parameters, each.names, strict=True)
        if name
    }


def _unit(parameter: Parameter) -> str:
    return SPECIFIED if parameter.specified and parameter.unit == "s/B" else parameter.unit
