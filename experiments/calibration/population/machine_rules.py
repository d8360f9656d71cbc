"""The rules of intervals on a machine that nobody has measured, learnt from machines that were left
out of a population."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from experiments.calibration.known_paths import ALL
from experiments.calibration.population.machine_runs import Runs
from experiments.calibration.population.population import Population, Spread, fit_population
from experiments.calibration.slopes import along
from simulator.uncertainty.interval_rules import FREEDOM, Rules
from simulator.uncertainty.residuals import shared
from topologies.topology import Floats

START = Spread(machine=0.3, parameters=0.3)
"""Where learning starts."""
GROUPS = 4
"""Machines are left out in so many groups."""
PULL = 0.001
"""The cost of a rule that is a factor of e from its start, in log likelihood of a point."""


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


def unseen(runs: Runs, population: Population) -> Unseen:
    """The runs by a population of other machines, with the known paths."""
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
            population = fit_population(others)
            points += [unseen(each, population) for each in runs if each.machine in group]
    return learn(points, base) if points else START


def learn(machines: Sequence[Unseen], base: Rules) -> Spread:
    """The rules under which the errors are most likely. Each machine counts alike, and each of its
    set-ups."""
    from scipy.optimize import minimize

    counts = Counter(each.machine for each in machines)
    prior = np.log(START)

    def cost(inner: Floats) -> float:
        spread = Spread(*np.exp(inner).tolist())
        surprise = sum(_surprise(each, spread, base) / counts[each.machine] for each in machines)
        return surprise / len(counts) + PULL * float(((inner - prior) ** 2).sum())

    return Spread(*np.exp(minimize(cost, prior, method="Nelder-Mead").x).tolist())


def _surprise(points: Unseen, spread: Spread, base: Rules) -> float:
    """Minus the mean log likelihood of a point, by Student's t, up to a constant."""
    variance = points.variance(spread, base)
    squares = points.off**2 / variance
    each = 0.5 * np.log(variance) + 0.5 * (FREEDOM + 1) * np.log1p(squares / FREEDOM)
    return float(each.mean())
