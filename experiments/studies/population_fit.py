"""Populations of measured machines: the mean of their parameters and their spread about it, and the
rules of intervals on machines that nobody has measured, learnt from machines left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import e
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from experiments.calibration.effects.algorithm_effects import multicasting
from experiments.calibration.effects.effect import Parameter
from experiments.calibration.fit import evidence
from experiments.calibration.known_paths import ALL, as_nodes
from experiments.calibration.libraries import NCCL
from experiments.calibration.library import ELEMENT, MOST_ACROSS, PLUGIN
from experiments.calibration.library_model import Model, active, along, slopes
from experiments.calibration.measured_machines import MESHED_GPUS, NVLS_TREE_SINCE
from experiments.calibration.observations import FitCurve
from experiments.calibration.population.population import (
    ALONE,
    ENOUGH,
    SPECIFIED,
    Member,
    Population,
    Spread,
    population_of,
    shared_names,
)
from experiments.calibration.population.specification import Specification, kernels, transport
from experiments.calibration.prediction import times
from simulator.collectives import find
from simulator.cost_models import nccl
from simulator.profile import Profile
from simulator.uncertainty.interval import LEVEL, quantile
from simulator.uncertainty.interval_rules import FREEDOM, IntervalRules
from simulator.uncertainty.residuals import shared
from topologies.topology import Floats, Longs

NEAR = 0.02
"""The spread of a mean about the start of the library's own model."""
LEARNT = (
    *("1/β of own copies", "a piece", "LL node α", "message to a peer"),
    *("launch of sends", "α of sends", "1/β of sends", "1/β of all-to-all", "Simple network 1/β"),
)
LOOSER = 0.25
"""How the names of parameters end that many machines show inside a node, and the spread of their
means."""
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


class Evidence(NamedTuple):
    """The logarithm of the likelihood of parameters by runs, to the second order."""

    information: Floats
    """Minus its second derivative, shape (parameters, parameters)."""
    vector: Floats
    """The information times the best parameters, shape (parameters,)."""


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
        return Evidence(information, vector)


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
        levels[name] = _with_latencies(whole, level) if name == PLUGIN else level
    return replace(whole, transports=levels)


def _with_latencies(whole: Population, level: Population) -> Population:
    latencies = {key: one for key, one in level.members.items() if key.endswith(OF_PLUGINS)}
    members = {
        key: one._replace(mean=latencies[key].mean, spread=latencies[key].spread)
        if key in latencies
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
    LEARNT parameters. The prior of an offset that all α between nodes share has the spread
    `apart`. Parameters between nodes do not go together with others.
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
        self.share = [1 / machines.count(machine) for machine in machines]
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
            target = mean
            for _ in range(STEPS):
                target = self._step(evidence, target)
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
        shared = Evidence(np.zeros_like(self.usual), np.zeros_like(self.base))
        members = column[known]
        shared.information[np.ix_(members, members)] = information[
            np.ix_(known, known)
        ] - mixed @ np.linalg.solve(alone, mixed.T)
        shared.vector[members] = vector[known] - mixed @ np.linalg.solve(alone, vector[~known])
        return shared

    def _step(self, evidence: Sequence[Evidence], mean: Floats) -> Floats:
        """The next mean, by one step of expectation and maximisation; changes the covariance."""
        precision = np.linalg.inv(self.covariance)
        covariances = [np.linalg.inv(each.information + precision) for each in evidence]
        centres = [
            covariance @ (each.vector + precision @ mean)
            for covariance, each in zip(covariances, evidence, strict=True)
        ]
        machines, loose = sum(self.share), self.loose
        pull = sum(share * centre for share, centre in zip(self.share, centres, strict=True))
        mean = np.linalg.solve(machines * precision + loose, precision @ pull + loose @ self.base)
        apart = sum(
            share * (np.outer(centre - mean, centre - mean) + covariance)
            for share, centre, covariance in zip(self.share, centres, covariances, strict=True)
        )
        covariance = (STRENGTH * self.usual + apart) / (STRENGTH + machines)
        self.covariance = np.where(self.apart, 0.0, covariance)
        return mean

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


START = Spread(machine=0.1, between=0.1, software=0.4, parameters=0.4)
"""Where learning starts."""
GROUPS = 4
"""Machines are left out in so many groups."""
PULL = 0.001
"""The cost of a rule that is a factor of e from its start, in units of the likelihood of a
point."""


class Unseen(NamedTuple):
    """The runs of a machine that was left out, shape (points,) each."""

    machine: str
    off: Floats
    """log(measured / predicted)."""
    parameters: Floats
    """The variance that differences between machines give."""
    software: Floats
    """The share of the time that is no bytes on links."""
    several: Floats
    """1 for a job over several nodes, else 0."""

    def variance(self, spread: Spread, base: IntervalRules) -> Floats:
        """The variance of `off` by the rules of intervals."""
        rules = base._replace(machine=spread.machine)
        fixed = shared(rules) + rules.noise**2 + rules.job**2
        alone = fixed + spread.between**2 * self.several
        alone += (spread.software * self.software) ** 2
        return np.asarray(alone + spread.parameters**2 * self.parameters)

    def half(self, spread: Spread, base: IntervalRules) -> Floats:
        """Half of the width of each interval, in log time."""
        return np.asarray(quantile(LEVEL) * np.sqrt(self.variance(spread, base)))


def predicted(runs: MachineRuns, population: Population) -> Floats:
    """Seconds of all points by the specification of the machine, shape (points,), as `--library`
    predicts them: by NVLSTree where that is faster. Runs teach nothing of it."""
    inner = runs.inner(population)
    seconds = runs.model.predict(inner)
    for c, curve in enumerate(runs.model.points.curves):
        if not _may_cross(runs.specification, curve):
            continue
        profile = _with_tree(runs, inner, population)
        machine, place = as_nodes(curve.ranks, curve.per_node), runs.model.points.curve == c
        sizes: dict[str, list[float]] = {}
        for nbytes in curve.sizes.tolist():
            (name,) = NCCL.running(NCCL.across["all_reduce"], nbytes / ELEMENT, curve.ranks)
            sizes.setdefault(name, []).append(nbytes)
        by_size = {
            nbytes: time.seconds
            for name, chosen in sizes.items()
            for nbytes, time in times(profile, find(name), machine, curve.ranks, chosen).items()
        }
        trees = [by_size[nbytes] for nbytes in runs.model.points.size[place].tolist()]
        seconds[place] = np.minimum(seconds[place], trees)
    return seconds


def _may_cross(specification: Specification, curve: FitCurve) -> bool:
    """Whether NCCL may have taken NVLSTree: on nodes with NVSwitches that multicast."""
    version = tuple(map(int, re.findall(r"\d+", curve.library)[:2])) or NVLS_TREE_SINCE
    return (
        curve.collective == "all_reduce"
        and not curve.forced
        and 1 < curve.nodes <= MOST_ACROSS
        and curve.per_node > MESHED_GPUS
        and specification.generation in nccl.NVLS_EFFICIENCY
        and version >= NVLS_TREE_SINCE
    )


def _with_tree(runs: MachineRuns, inner: Floats, population: Population) -> Profile:
    latency, rate = (
        population.members[name].mean for name in ("latency of NVLS", "node 1/β of NVLS")
    )
    slowness = e**rate / nccl.NVLS_EFFICIENCY[runs.specification.generation]
    return multicasting(runs.model.profile(inner), "nvls_tree", e**latency, {"node": slowness})


def unseen(runs: MachineRuns, population: Population) -> Unseen:
    """The runs by a population of other machines, with the known paths."""
    population = population.over(runs.transport)
    model, inner = runs.model, runs.inner(population)
    shifts = along(model, inner, population.moves(runs.names), ALL)
    off = np.log(model.points.seconds / predicted(runs, population))
    ran, profile = active(model, inner, ALL), model.profiles(inner[None])
    _, crossing = ran.on_links(model, profile)
    software = 1 - (crossing / ran.seconds(model, profile))[:, 0]
    several = (model.points.nodes > 1).astype(np.float64)
    variance = np.asarray((shifts**2).sum(axis=1))
    return Unseen(runs.machine, off, variance, software[model.sizes.nearest], several)


def learn_from(runs: Sequence[MachineRuns], base: IntervalRules) -> Spread:
    """The rules by these runs alone: their machines are left out in GROUPS groups, with their
    kin. Runs that are no example of their machine teach nothing."""
    runs = [each for each in runs if not each.specification.why_not]
    kins = sorted({each.kin for each in runs})
    points = []
    for group in np.array_split(kins, min(GROUPS, len(kins))):
        others = [each for each in runs if each.kin not in group]
        if others:
            population = fit_transports(others)
            points += [unseen(each, population) for each in runs if each.kin in group]
    return learn(points, base) if points else START


def learn(machines: Sequence[Unseen], base: IntervalRules) -> Spread:
    """The rules under which the errors are most likely, as Student's t with the degrees of freedom
    of intervals has them: a few machines that are far off count little. Each machine counts alike,
    and each of its set-ups."""
    prior, runs = np.log(START), _together(machines)

    def cost(inner: Floats) -> float:
        variance = runs.points.variance(Spread(*np.exp(inner).tolist()), base)
        tails = (FREEDOM + 1) * np.log1p(runs.points.off**2 / variance / FREEDOM)
        likely = runs.mean((np.log(variance) + tails) / 2)
        return float(likely + PULL * ((inner - prior) ** 2).sum())

    return Spread(*np.exp(minimize(cost, prior, method="Nelder-Mead").x).tolist())


class _Together(NamedTuple):
    """The points of all machines, one set-up after the other."""

    points: Unseen
    sizes: Longs
    """Points of each set-up."""
    machine: Longs
    """The machine of each set-up."""

    def mean(self, values: Floats) -> float:
        """The mean over machines of the mean over set-ups and points."""
        set_up = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return float(self._by_machine(np.bincount(set_up, values) / self.sizes).mean())

    def _by_machine(self, values: Floats) -> Floats:
        return np.asarray(np.bincount(self.machine, values) / np.bincount(self.machine))


def _together(machines: Sequence[Unseen]) -> _Together:
    _, *columns = zip(*machines, strict=True)
    sizes = np.array([len(each.off) for each in machines])
    _, machine = np.unique([each.machine for each in machines], return_inverse=True)
    return _Together(Unseen("", *map(np.concatenate, columns)), sizes, machine)
