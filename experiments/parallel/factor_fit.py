"""Factors on the times of a device, fitted to measured steps.

A step is bound by the device or by the CPU that launches its kernels. What rows say of the two is
weighed against what is known before. Logarithms are taken as normal, in levels: a factor for the
device, which rows of all models share, further ones for each model and for each precision, and what
is left of each row. A row may be odd, as a job that runs short of memory or shares its machine.
Then much more is left of it. How likely that is follows from what all other rows, and what was
known before, predict for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from experiments.models.device_times import DeviceTimes, step_factors
from experiments.models.model_shapes import TransformerShape
from topologies.topology import Floats

STARTS = 1.0, 4.0
"""Factors on the launch to start from: where it does not bind, the step tells nothing of it."""
PRECISE = 1e-9
"""The error of a step by its known paths, as a share of it."""
REPEATS = 6
"""How often the rows are weighed anew. Then their weights change by less than 1%."""


class Factors(NamedTuple):
    """What rows tell."""

    scale: float = 1.0
    """The factor on the times of the device."""
    launch: float = 1.0

    def of(self, times: DeviceTimes) -> DeviceTimes:
        """The calibrated times."""
        return replace(times, scale=times.scale * self.scale, launch=times.launch * self.launch)


class Sureness(NamedTuple):
    """Standard deviations of the logarithms of times."""

    device: float
    launch: float


PathSeconds = Callable[[Factors], Floats]
"""The seconds of the critical path of a step with factors, shape (3,): of the device, of launches,
and of all else."""


class FitRow(NamedTuple):
    """A measured step."""

    path: PathSeconds
    seconds: float
    model: TransformerShape | None = None
    precision: str = ""


class Spreads(NamedTuple):
    """Standard deviations of logarithms, and shares of odd rows. They are learnt from the steps
    that judge the fit, too: the study prints how much each family of steps moves them."""

    device: float
    """The device against its tables."""
    launch: float
    """The launch of a kernel: it depends on CPU and framework."""
    model: float
    precision: float
    experts: float
    """A model with experts: what such models had in common made predictions of others worse."""
    step: float
    """A step against the model with the right factors."""
    launched: float
    """The same of a step that launches bind."""
    odd: float
    """The same of an odd row."""
    odd_share: float
    """The share of odd rows."""
    links: float
    """Communication that no profile knows."""


@cache
def spreads() -> Spreads:
    """The spreads that measured steps taught."""
    values = step_factors()
    return Spreads(*(values[name] for name in Spreads._fields))


class FactorFit(NamedTuple):
    """Likely factors."""

    factors: Factors
    sureness: Sureness
    """How surely the rows tell these."""
    weights: tuple[float, ...]
    """How much each row counts, from 0 to 1."""
    misses: tuple[float, ...]
    """The logarithm of the fitted seconds of each row over its measured ones."""


def fit(
    rows: Sequence[FitRow],
    model: TransformerShape | None = None,
    precision: str = "",
    prior: Spreads | None = None,
) -> FactorFit:
    """The likeliest factors for a model and a precision."""
    # A step takes as long as its longest path, and the time of a path is linear in both factors.
    # So the likeliest factors by the paths that are known say where to simulate next, which adds
    # the path that is critical there, until no path is new.
    problem = _Levels(rows, model, precision, prior or spreads())
    for launch in STARTS:
        problem.learn(np.array([[1.0, launch, 1.0]] * len(rows)))
    for _ in range(30):  # as paths are finite, an end; a handful of rounds is usual
        solution = problem.solve()
        if not problem.learn(problem.factors(problem.logs)):
            break
    return solution


class _Levels:
    """The factors of all levels: device, launch, those of each model, those of each precision."""

    def __init__(
        self, rows: Sequence[FitRow], model: TransformerShape | None, precision: str, prior: Spreads
    ) -> None:
        self.rows, self.prior = rows, prior
        models = [model, *(row.model for row in rows)]
        precisions = [precision, *(row.precision for row in rows)]
        columns = [
            [[each == one for each in levels] for one in dict.fromkeys(levels)]
            for levels in (models, precisions)
        ]
        common = np.ones((1, len(rows) + 1))
        self.design = np.concatenate([common, 0 * common, *columns]).T
        """Which factors the device has for the target, and then for each row."""
        of_models = [
            prior.experts if shape and shape.experts else prior.model
            for shape in dict.fromkeys(models)
        ]
        of_precisions = [prior.precision] * len({*precisions})
        self.priors = np.array([prior.device, prior.launch, *of_models, *of_precisions])
        self.paths = np.zeros((len(rows), 0, 3))
        """The known paths of each row, seconds for factors of 1."""
        self.seconds = np.array([row.seconds for row in rows])
        self.residual = np.full(len(rows), prior.step)
        self.logs = np.zeros(len(self.priors))

    def factors(self, logs: Floats) -> Floats:
        """Those of the device, of launches, and of all else in each row, shape (rows, 3)."""
        factors = np.ones((len(self.rows), 3))
        factors[:, 0], factors[:, 1] = np.exp(self.design[1:] @ logs), np.exp(logs[1])
        return factors

    def learn(self, factors: Floats) -> bool:
        """Add the critical path of each step to its known ones. Returns whether a step takes
        another time than the longest path that was known."""
        each = [Factors(scale, launch) for scale, launch, _ in factors.tolist()]
        critical = np.array([row.path(of) for row, of in zip(self.rows, each, strict=True)])
        steps, seconds = critical.sum(axis=1), self._seconds(factors)
        new = np.abs(seconds.max(axis=1, initial=0.0) - steps) > PRECISE * steps
        # Where factors change the order of operations, an old path may take longer than the step.
        self.paths[seconds > (1 + PRECISE) * steps[:, None]] = 0.0
        self.paths = np.append(self.paths, (critical / factors)[:, None], axis=1)
        return bool(new.any())

    def _seconds(self, factors: Floats) -> Floats:
        return np.asarray((self.paths * factors[:, None]).sum(axis=2))

    def misses(self, logs: Floats) -> Floats:
        """The logarithms of simulated over measured seconds."""
        seconds = self._seconds(self.factors(logs)).max(axis=1)
        return np.asarray(np.log(seconds / self.seconds))

    def solve(self) -> FactorFit:
        """The likeliest factors by the known paths. Each round weighs the rows by the last fit."""
        from scipy.optimize import least_squares

        def doubts(logs: Floats) -> Floats:
            return np.concatenate([logs / self.priors, self.misses(logs) / self.residual])

        for _ in range(REPEATS):
            starts = [np.zeros(len(self.priors)) for _ in STARTS]
            for start, launch in zip(starts, STARTS, strict=True):
                start[1] = np.log(launch)
            fits = [least_squares(doubts, start, diff_step=[0.03], x_scale=0.1) for start in starts]
            best = min(fits, key=lambda each: float(each.cost))
            self.logs, misses = best.x, self.misses(best.x)
            jacobian = np.array(best.jac, dtype=np.float64)
            inverse = np.linalg.inv(jacobian.T @ jacobian)
            leverage = np.einsum("ij,jk,ik->i", jacobian, inverse, jacobian)[len(self.priors) :]
            launched = jacobian[len(self.priors) :, 1] * self.residual
            steps = np.hypot(self.prior.step, launched * self.prior.launched)
            leverage = np.clip(leverage, 1e-9, 1 - 1e-9)
            self.residual, weights = self._weighed(misses, leverage, steps)
        target = self.design[0]
        scale, launch = np.exp([target @ self.logs, self.logs[1]]).tolist()
        sureness = Sureness(*np.sqrt([target @ inverse @ target, inverse[1, 1]]).tolist())
        rows = tuple(weights.tolist()), tuple(misses.tolist())
        return FactorFit(Factors(scale, launch), sureness, *rows)

    def _weighed(self, misses: Floats, leverage: Floats, steps: Floats) -> tuple[Floats, Floats]:
        """What is left of each row, as a standard deviation with which a normal row would move the
        fit as far as the mixture of a clean one, with a deviation in `steps`, and an odd one does,
        and its weight."""
        prior = self.prior
        # What all but this row predict: how far off, and how surely.
        off = misses / (1 - leverage)
        before = self.residual**2 * leverage / (1 - leverage)
        clean, odd = before + steps**2, before + prior.odd**2
        chances = [
            np.log(share) - off**2 / 2 / each - np.log(each) / 2
            for share, each in ((1 - prior.odd_share, clean), (prior.odd_share, odd))
        ]
        share = 1 / (1 + np.exp(np.minimum(chances[1] - chances[0], 700)))
        moves = share * before / clean + (1 - share) * before / odd
        return np.sqrt(before * (1 - moves) / moves), moves * clean / before
