"""The rules of intervals on a machine that nobody has measured, learnt from machines that were left
out of a population."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from experiments.calibration.known_paths import ALL
from experiments.calibration.observations import Ints
from experiments.calibration.population.population import Population, Spread
from experiments.calibration.slopes import along
from experiments.studies.population_fit import MachineRuns, fit_transports
from simulator.uncertainty.interval import LEVEL, quantile
from simulator.uncertainty.interval_rules import IntervalRules
from simulator.uncertainty.residuals import shared
from topologies.topology import Floats

START = Spread(machine=0.3, parameters=0.3)
"""Where learning starts."""
GROUPS = 4
"""Machines are left out in so many groups."""
PULL = 0.001
"""The cost of a rule that is a factor of e from its start, in units of the interval score."""
WIDEST, OVER = 2.0, 10.0
"""Half of a usual interval is at most so many times the usual error, and what it costs in units of
the score if it is a factor of e wider."""


class Unseen(NamedTuple):
    """The runs of a machine that was left out, shape (points,) each."""

    machine: str
    off: Floats
    """log(measured / predicted)."""
    parameters: Floats
    """The variance that differences between machines give."""

    def variance(self, spread: Spread, base: IntervalRules) -> Floats:
        """The variance of `off` by the rules of intervals."""
        rules = base._replace(machine=spread.machine)
        alone = shared(rules) + rules.noise**2
        return np.asarray(alone + spread.parameters**2 * self.parameters)

    def half(self, spread: Spread, base: IntervalRules) -> Floats:
        """Half of the width of each interval, in log time."""
        return np.asarray(quantile(LEVEL) * np.sqrt(self.variance(spread, base)))


def unseen(runs: MachineRuns, population: Population) -> Unseen:
    """The runs by a population of other machines, with the known paths."""
    population = population.over(runs.transport)
    model, inner = runs.model, runs.inner(population)
    shifts = along(model, inner, population.moves(runs.names), ALL)
    off = np.log(model.points.seconds / model.predict(inner))
    return Unseen(runs.machine, off, np.asarray((shifts**2).sum(axis=1)))


def learn_from(runs: Sequence[MachineRuns], base: IntervalRules) -> Spread:
    """The rules by these runs alone: their machines are left out in GROUPS groups."""
    machines = sorted({each.machine for each in runs})
    points = []
    for group in np.array_split(machines, min(GROUPS, len(machines))):
        others = [each for each in runs if each.machine not in group]
        if others:
            population = fit_transports(others)
            points += [unseen(each, population) for each in runs if each.machine in group]
    return learn(points, base) if points else START


def learn(machines: Sequence[Unseen], base: IntervalRules) -> Spread:
    """The rules with the best mean interval score (Gneiting and Raftery, JASA 102, 2007) whose
    intervals are usually not too wide: see WIDEST. A point costs the width of its interval, and 2 /
    (1 - level) times how far it is outside. Each machine counts alike, and each of its set-ups.

    The errors of a few machines are several times as large as those of the others. Without a limit
    these few make the intervals of all machines wide.
    """
    prior, runs = np.log(START), _together(machines)
    off = np.abs(runs.points.off)
    widest = WIDEST * runs.usual(off)

    def cost(inner: Floats) -> float:
        spread = Spread(*np.exp(inner).tolist())
        half = runs.points.half(spread, base)
        score = runs.mean(2 * half + 2 / (1 - LEVEL) * np.maximum(off - half, 0.0))
        over = max(0.0, log(runs.usual(half) / widest))
        return float(score + OVER * over + PULL * ((inner - prior) ** 2).sum())

    return Spread(*np.exp(minimize(cost, prior, method="Nelder-Mead").x).tolist())


class _Together(NamedTuple):
    """The points of all machines, one set-up after the other."""

    points: Unseen
    sizes: Ints
    """Points of each set-up."""
    machine: Ints
    """The machine of each set-up."""

    def mean(self, values: Floats) -> float:
        """The mean over machines of the mean over set-ups and points."""
        set_up = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return float(self._by_machine(np.bincount(set_up, values) / self.sizes).mean())

    def usual(self, values: Floats) -> float:
        """The median over machines of the mean over set-ups of the median over points."""
        set_up = np.repeat(np.arange(len(self.sizes)), self.sizes)
        ascending = values[np.lexsort((values, set_up))]
        first = np.cumsum(self.sizes) - self.sizes
        middles = first + (self.sizes - 1) // 2, first + self.sizes // 2
        medians = (ascending[middles[0]] + ascending[middles[1]]) / 2
        return float(np.median(self._by_machine(medians)))

    def _by_machine(self, values: Floats) -> Floats:
        return np.asarray(np.bincount(self.machine, values) / np.bincount(self.machine))


def _together(machines: Sequence[Unseen]) -> _Together:
    off, parameters = (
        np.concatenate(columns)
        for columns in zip(*((each.off, each.parameters) for each in machines), strict=True)
    )
    sizes = np.array([len(each.off) for each in machines])
    _, machine = np.unique([each.machine for each in machines], return_inverse=True)
    return _Together(Unseen("", off, parameters), sizes, machine)
