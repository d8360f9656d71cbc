"""The rules of intervals on a machine that nobody has measured, learnt from machines that were left
out of a population."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from statistics import fmean, median
from typing import NamedTuple

import numpy as np

from experiments.calibration.known_paths import ALL
from experiments.calibration.population.machine_runs import Runs
from experiments.calibration.population.population import Population, Spread, fit_transports
from experiments.calibration.slopes import along
from simulator.uncertainty.interval import LEVEL, quantile
from simulator.uncertainty.interval_rules import Rules
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

    def variance(self, spread: Spread, base: Rules) -> Floats:
        """The variance of `off` by the rules of intervals."""
        rules = base._replace(machine=spread.machine)
        alone = shared(rules) + rules.noise**2
        return np.asarray(alone + spread.parameters**2 * self.parameters)

    def half(self, spread: Spread, base: Rules) -> Floats:
        """Half of the width of each interval, in log time."""
        return np.asarray(quantile(LEVEL) * np.sqrt(self.variance(spread, base)))


def unseen(runs: Runs, population: Population) -> Unseen:
    """The runs by a population of other machines, with the known paths."""
    population = population.over(runs.specification.network)
    model, inner = runs.model, population.inner(runs)
    shifts = along(model, inner, population.moves(runs.names), ALL)
    off = np.log(model.points.seconds / model.predict(inner))
    return Unseen(runs.machine, off, np.asarray((shifts**2).sum(axis=1)))


def learn_from(runs: Sequence[Runs], base: Rules) -> Spread:
    """The rules by these runs alone: their machines are left out in GROUPS groups."""
    machines = sorted({each.machine for each in runs})
    points = []
    for group in np.array_split(machines, min(GROUPS, len(machines))):
        others = [each for each in runs if each.machine not in group]
        if others:
            population = fit_transports(others)
            points += [unseen(each, population) for each in runs if each.machine in group]
    return learn(points, base) if points else START


def learn(machines: Sequence[Unseen], base: Rules) -> Spread:
    """The rules with the best mean interval score (Gneiting and Raftery, JASA 102, 2007) whose
    intervals are usually not too wide: see WIDEST. Each machine counts alike, and each of its
    set-ups.

    The errors of a few machines are several times as large as those of the others. Without a limit
    these few make the intervals of all machines wide.
    """
    from scipy.optimize import minimize

    prior = np.log(START)
    widest = WIDEST * _usual(machines, [np.abs(each.off) for each in machines])

    def cost(inner: Floats) -> float:
        spread = Spread(*np.exp(inner).tolist())
        halves = [each.half(spread, base) for each in machines]
        score = np.mean(
            _by_machine(machines, [_score(*pair) for pair in zip(machines, halves, strict=True)])
        )
        over = max(0.0, log(_usual(machines, halves) / widest))
        return float(score + OVER * over + PULL * ((inner - prior) ** 2).sum())

    return Spread(*np.exp(minimize(cost, prior, method="Nelder-Mead").x).tolist())


def _score(points: Unseen, half: Floats) -> float:
    """The mean interval score: the width, plus 2 / (1 - level) times how far points are outside."""
    outside = np.maximum(np.abs(points.off) - half, 0.0)
    return float(np.mean(2 * half + 2 / (1 - LEVEL) * outside))


def _usual(machines: Sequence[Unseen], values: Sequence[Floats]) -> float:
    """The median over machines of the median over points."""
    return median(_by_machine(machines, [float(np.median(each)) for each in values]))


def _by_machine(machines: Sequence[Unseen], values: Sequence[float]) -> list[float]:
    """The mean over the set-ups of each machine."""
    by_machine: dict[str, list[float]] = {}
    for each, value in zip(machines, values, strict=True):
        by_machine.setdefault(each.machine, []).append(value)
    return [fmean(some) for some in by_machine.values()]
