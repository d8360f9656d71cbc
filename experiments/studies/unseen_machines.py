"""Runs of machines that a population has not seen, and the rules of intervals that they teach."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import e
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from experiments.calibration.known_paths import ALL, as_nodes
from experiments.calibration.libraries import NCCL
from experiments.calibration.library import MOST_ACROSS
from experiments.calibration.library_model import active, along
from experiments.calibration.measured_machines import MESHED_GPUS, NVLS_TREE_SINCE, is_since
from experiments.calibration.observations import FitCurve
from experiments.calibration.population.library_profile import with_switches
from experiments.calibration.population.population import Population, Spread
from experiments.calibration.prediction import predict
from experiments.studies.population_fit import MachineRuns, fit_transports
from simulator.cost_models import nccl
from simulator.uncertainty.interval import LEVEL, quantile
from simulator.uncertainty.residuals import FREEDOM, IntervalRules, shared
from topologies.topology import Floats

START = Spread(machine=0.1, between=0.3, software=0.4, parameters=0.4)
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
        alone = fixed + spread.between**2 * self.several * self.software
        alone += (spread.software * self.software) ** 2
        return np.asarray(alone + spread.parameters**2 * self.parameters)

    def half(self, spread: Spread, base: IntervalRules) -> Floats:
        """Half of the width of each interval, in log time."""
        return np.asarray(quantile(LEVEL) * np.sqrt(self.variance(spread, base)))


def predicted(runs: MachineRuns, population: Population) -> Floats:
    """Seconds of all points by the specification of the machine, shape (points,), as `--library`
    predicts them: by NVLSTree where that is faster. Runs teach nothing of it."""
    points, inner = runs.model.points, runs.inner(population)
    seconds = runs.model.predict(inner)
    crossing = [c for c, curve in enumerate(points.curves) if _may_cross(runs, curve)]
    if not crossing:
        return seconds
    members, generation = population.members, runs.specification.generation
    values = {
        "latency of NVLS": e ** members["latency of NVLS"].mean,
        "node 1/β of NVLS": members["node 1/β of NVLS"].mean,
    }
    profile = with_switches(runs.model.profile(inner), "node", generation, values)
    algorithms = {"algorithms": NCCL.across["all_reduce"], "protocols": (), "rule": None}
    for c in crossing:
        curve, place = points.curves[c], points.curve == c
        trees = FitCurve(**(vars(curve) | algorithms))
        rows = predict(profile, NCCL, trees, as_nodes(curve.ranks, curve.per_node))
        seconds[place] = np.minimum(seconds[place], [row.seconds for row in rows])
    return seconds


def _may_cross(runs: MachineRuns, curve: FitCurve) -> bool:
    """Whether NCCL may have taken NVLSTree: on nodes with NVSwitches that multicast."""
    return (
        curve.collective == "all_reduce"
        and not curve.forced
        and 1 < curve.nodes <= MOST_ACROSS
        and curve.per_node > MESHED_GPUS
        and runs.specification.generation in nccl.NVLS_EFFICIENCY
        and is_since(curve.library, NVLS_TREE_SINCE)
    )


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
    prior, set_ups = np.log(START), Counter(each.machine for each in machines)
    _, *columns = zip(*machines, strict=True)
    runs = Unseen("", *map(np.concatenate, columns))
    shares = [1 / len(set_ups) / set_ups[each.machine] / len(each.off) for each in machines]
    weight = np.repeat(shares, [len(each.off) for each in machines])

    def cost(inner: Floats) -> float:
        variance = runs.variance(Spread(*np.exp(inner).tolist()), base)
        tails = (FREEDOM + 1) * np.log1p(runs.off**2 / variance / FREEDOM)
        likely = weight @ (np.log(variance) + tails) / 2
        return float(likely + PULL * ((inner - prior) ** 2).sum())

    return Spread(*np.exp(minimize(cost, prior, method="Nelder-Mead").x).tolist())
