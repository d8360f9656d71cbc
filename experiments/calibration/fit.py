"""Fits of a machine's parameters to measured times: relative, robust, with intervals, and with a
reason for each parameter that stays open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import exp, log
from typing import NamedTuple

import numpy as np

from experiments.calibration.effects.effect import Parameter
from experiments.calibration.library_model import Model, PathChoice, slopes
from experiments.calibration.observations import FitCurve
from simulator.profile import Profile
from topologies.topology import Flags, Floats, Longs

ROBUST = 0.25
"""The relative error from which a point counts less than its square while fitting. With Cauchy's
loss a point far off hardly changes the fit (a bump, an allocation that is slower)."""
SCALE = 0.15
"""The relative error from which a point counts less than its square in the judgement of labels."""
USUAL = 10.0
"""So many points count as much as the usual scatter of points does."""
INDEPENDENT = 0.2
"""The share of points that count as independent: neighbouring sizes share their errors."""
ROUNDS = 8
MISLABELLED = 10.0
"""A curve is mislabelled if the library's own choices cost less by this much, in squares of SCALE,
and less than half. That is about the cost of a point that is 2.5 times too long."""
SPREADS = (0.5,)
"""Before it begins, a fit looks for paths at parameters this far from its start, in factors of
e."""
CLOSE_PATHS = 1e-3
"""A fit ends when the known paths are within this share of a simulation."""
STARTS = 3
FEW_LEFT_OUT = 0.1
"""The share of points without which a fit is nearly that of all points."""
CONVERGED = 1e-5
"""A step is the last if it improves or changes the fit by less than this share."""
SCATTER = 0.02
"""The least scatter of points about a fit, so that few points do not seem to say more than they
do."""
WIDE_INTERVAL, ALIKE_CORRELATION = 1.0, 0.99
"""A parameter is not identified if its 95% interval is wider than its value, or if another
parameter can replace it."""


class Estimate(NamedTuple):
    """What the data say of a parameter. The start counts as data."""

    parameter: Parameter
    value: float
    low: float
    """The lower end of the 95% interval."""
    high: float
    """The upper end of the 95% interval."""
    open: str
    """Why the data do not identify the parameter. Empty if they do."""


LEAST_LATENCY, FARTHEST = 1e-8, 5.0
"""No link of a machine has a shorter α in seconds. A parameter seldom moves farther, in factors of
e."""


@dataclass(frozen=True, eq=False)
class Fit:
    """Where a fit ended."""

    model: Model
    inner: Floats
    """The parameters, as the fit counts them."""
    kept: Flags
    short: float
    """How much the known paths were off at the end, relatively and at most."""

    @property
    def predicted(self) -> Floats:
        """Predicted seconds of every point, fitted or not."""
        return self.model.predict(self.inner)

    @property
    def residuals(self) -> Floats:
        """log(measured / predicted) of every point."""
        return np.asarray(np.log(self.model.points.seconds / self.predicted))

    @property
    def typical_residuals(self) -> Floats:
        """The residuals on a machine without corrections of single numbers of nodes."""
        typical = self.model.predict(self.model.typical(self.inner))
        return np.asarray(np.log(self.model.points.seconds / typical))

    @property
    def profile(self) -> Profile:
        """The parameters as a profile for simulations."""
        return self.model.profile(self.inner)


def explore(model: Model) -> Fit:
    """Fit all points, simulate at the result, keep the paths of the simulations, and fit again
    until no path is new."""
    all_points = np.ones(len(model.points), dtype=np.bool_)
    random = np.random.default_rng(1)
    for spread in (*SPREADS, 0.0):
        model.explore(model.start + random.normal(0, spread, len(model.start)) * (spread > 0))
    inner, short, doubt = model.start, 1.0, 0.0
    for _ in range(ROUNDS):
        inner = _solve(model, all_points, inner)
        short = model.explore(inner, doubt)
        if short < CLOSE_PATHS and doubt:
            short = model.explore(inner)
        if short < CLOSE_PATHS:
            break
        doubt = CLOSE_PATHS
    return Fit(*_relabelled(model, all_points, inner), all_points, short)


def fit(model: Model, keep: Flags, start: Floats | None = None, near: Floats | None = None) -> Fit:
    """Fit the points that `keep` chooses with the known paths. `near` is where a fit of other
    points ended: then no random starts are tried, and no other start at all if the points left out
    are FEW_LEFT_OUT at most."""
    model = model.taking({}).seeing(keep)
    return Fit(*_relabelled(model, keep, _solve(model, keep, start, near)), keep, 0.0)


def outliers(fit: Fit) -> Iterator[tuple[FitCurve, float]]:
    """Curves that a fit of all curves does not explain, each with its measured over predicted
    seconds, the median of its sizes: twice or more, or half or less.

    Corrections of single numbers of nodes do not count, because they would hide a curve on its own
    number of nodes.
    """
    residuals, points = fit.typical_residuals, fit.model.points
    for c, curve in enumerate(points.curves):
        factor = float(np.exp(np.median(residuals[points.curve == c])))
        if max(factor, 1 / factor) >= 2.0:
            yield curve, factor


def strays(fit: Fit) -> Iterator[str]:
    """A line for each parameter that ended where no machine is: a latency that no link has, or far
    from where the fit started. The runs may show something else than the parameter."""
    model = fit.model
    values, starts = model.values(fit.inner), model.values(model.start)
    for parameter in model.parameters:
        value, start = values[parameter.name], starts[parameter.name]
        moved = value - start if parameter.unit == "power" else log(value / start)
        too_short = parameter.name.endswith("α") and value < LEAST_LATENCY
        if too_short or abs(moved) > FARTHEST:
            shown = (
                f"{exp(value):.3g} times"
                if parameter.unit == "power"
                else f"{value:.3g} {parameter.unit}"
            )
            way = "less" if moved < 0 else "more"
            yield (
                f"{parameter.name} is {shown}, {exp(abs(moved)):.3g} times {way} than on measured "
                f"machines: what it explains may have another cause"
            )


def _relabelled(model: Model, keep: Flags, inner: Floats) -> tuple[Model, Floats]:
    algorithms = _mislabelled(model, keep, inner)
    if algorithms:
        model = model.taking(algorithms)
        inner = _solve(model, keep, inner)
    labels = {group.tobytes(): group for group in _together(model)}
    return _substituted(model, keep, inner, [np.flatnonzero(group) for group in labels.values()])


def _substituted(
    model: Model, keep: Flags, inner: Floats, groups: list[Longs]
) -> tuple[Model, Floats]:
    """The model and its fit with substitutes for labels that are known to have had no effect, as
    long as each makes the fit of all points better.

    A fit to wrong algorithms does not show which were right. So each substitute gets a fit of its
    own. `groups` are the curves of each label.
    """
    curves = model.points.curves
    substitutes = [
        dict.fromkeys(group.tolist(), names)
        for group in groups
        if curves[group[0]].ignored
        for names in (*curves[group[0]].instead, curves[group[0]].algorithms)
    ]
    while True:
        trials = [
            model.taking({**model.ran, **changed})
            for changed in substitutes
            if any(model.ran.get(c, curves[c].algorithms) != changed[c] for c in changed)
        ]
        fits = [(trial, _solve(trial, keep, inner)) for trial in trials]
        costs = [_cost(*fit, keep) for fit in fits]
        if not fits or min(costs) > _cost(model, inner, keep) - MISLABELLED:
            return model, inner
        model, inner = fits[int(np.argmin(costs))]


def _cost(model: Model, inner: Floats, keep: Flags) -> float:
    return float(_costs(model, keep, inner, np.eye(len(model.points.curves), dtype=np.bool_)).sum())


def _mislabelled(model: Model, keep: Flags, inner: Floats) -> dict[int, tuple[str, ...]]:
    """Curves that are mislabelled by the points of `keep`, and the algorithms that ran instead."""
    curves, together = model.points.curves, _together(model)
    called = _costs(model, keep, inner, together)
    least, algorithms = called / 2, dict[int, tuple[str, ...]]()
    for k in range(max(len(curve.instead) for curve in curves)):
        substitutes = {
            c: curve.instead[k] for c, curve in enumerate(curves) if k < len(curve.instead)
        }
        costs = _costs(model.taking(substitutes), keep, inner, together)
        better = {
            c: names
            for c, names in substitutes.items()
            if called[c] - costs[c] > MISLABELLED and costs[c] < least[c]
        }
        algorithms |= better
        least[list(better)] = costs[list(better)]
    return algorithms


def _together(model: Model) -> Flags:
    """Which curves are judged together, shape (curves, curves): each with itself, and with curves
    whose same label is known to have had no effect."""
    curves = model.points.curves
    labels = [
        (curve.collective, curve.forced, curve.library, curve.instead)
        if curve.ignored or curve.rule
        else c
        for c, curve in enumerate(curves)
    ]
    return np.array([[curve == peer for peer in labels] for curve in labels])


def _costs(model: Model, keep: Flags, inner: Floats, together: Flags) -> Floats:
    """The cost of the misfits of each curve, with those judged together with it, at points of
    `keep`."""
    misfits = np.log(model.predict(inner) / model.points.seconds)
    costs = 2 * (np.sqrt(1 + (misfits / SCALE) ** 2) - 1) * keep
    return np.asarray(
        together @ np.bincount(model.points.curve, costs, len(model.points.curves)),
        dtype=np.float64,
    )


def _solve(
    model: Model, keep: Flags, start: Floats | None = None, near: Floats | None = None
) -> Floats:
    from scipy.optimize import least_squares

    chosen, measured = np.flatnonzero(keep), np.log(model.points.seconds[keep])
    table, pull = model.table(chosen), model.pull(len(chosen))

    @lru_cache(maxsize=1)
    def choice(inner: bytes) -> PathChoice:
        return model.choice(np.frombuffer(inner), chosen, table)

    def residuals(inner: Floats) -> Floats:
        misfit = np.log(choice(inner.tobytes()).seconds) - measured
        return np.concatenate((misfit, pull @ (inner - model.start)))

    def jacobian(inner: Floats) -> Floats:
        along_paths = slopes(model, inner, chosen, choice(inner.tobytes()))
        return np.concatenate((along_paths, pull))

    starts = [model.start] if start is None else [start, model.start]
    if near is None:
        random = np.random.default_rng(0)
        further = STARTS - len(starts)
        starts += [model.start + random.normal(0, 0.3, len(model.start)) for _ in range(further)]
    elif np.mean(~keep) > FEW_LEFT_OUT:
        starts.append(near)
    else:
        starts = [near]
    ends = [
        least_squares(
            residuals,
            start_point,
            jacobian,
            loss="cauchy",
            f_scale=ROBUST,
            ftol=CONVERGED,
            xtol=CONVERGED,
            max_nfev=60,
        )
        for start_point in starts
    ]
    return np.asarray(min(ends, key=lambda end: float(end.cost)).x)


def covariance(end: Fit) -> Floats:
    """The covariance of the parameters as the fit counts them, shape (parameters, parameters). The
    start of a parameter counts as data."""
    return _curvature(end)[0]


def _curvature(end: Fit) -> tuple[Floats, Flags, int]:
    """The covariance at the end of a fit, the parameters that no point depends on, and the degrees
    of freedom."""
    model, chosen = end.model, np.flatnonzero(end.kept)
    design = slopes(model, end.inner, chosen)
    error = np.log(model.predict(end.inner, chosen)) - np.log(model.points.seconds[chosen])
    weight = 1 / (1 + (error / ROBUST) ** 2)
    crossed = sum(one.kind not in model.paths.further for one in model.parameters)
    free = max(1, len(chosen) - crossed)
    variance = max(float((weight * error**2).sum()) / free, SCATTER**2)
    normal = design.T @ (weight[:, None] * design)
    pull = model.pull(len(chosen))
    inverse = np.linalg.pinv(normal + pull.T @ pull, hermitian=True)
    # no point depends on a parameter if its derivatives are smaller in all
    return np.asarray(variance * inverse), np.sqrt(np.diag(normal)) < 1e-6, free


def estimates(end: Fit) -> list[Estimate]:
    """An estimate of every parameter."""
    from scipy.special import stdtrit

    model, mixing = end.model, end.model.mixing
    inner_covariance, unseen, free = _curvature(end)
    covariance, mixed = mixing @ inner_covariance @ mixing.T, mixing @ end.inner
    half = stdtrit(free, 0.975) * np.sqrt(np.maximum(np.diag(covariance), 0))
    deviation = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    alike = np.abs(covariance / np.outer(deviation, deviation) - np.eye(len(half)))
    alike[:, unseen] = 0
    estimated = []
    for k, parameter in enumerate(model.parameters):
        width = np.inf if unseen[k] else float(half[k])
        value, low, high = (parameter.outer(float(mixed[k]) + by) for by in (0.0, -width, width))
        scale = 1.0 if parameter.unit == "power" else value
        wide = (width if parameter.unit == "power" else high - low) > WIDE_INTERVAL * scale
        why, twin = "its interval is wider than its value" if wide else "", int(alike[k].argmax())
        if alike[k, twin] > ALIKE_CORRELATION:
            why = f"it goes with {model.parameters[twin].name}"
        if unseen[k]:
            why = "no point depends on it"
        estimated.append(Estimate(parameter, value, low, high, why))
    return estimated


def directions(covariance: Floats) -> Floats:
    """One standard deviation along each of the independent directions of a covariance, shape
    (directions, parameters), the widest first. Directions without any are left out."""
    variances, vectors = np.linalg.eigh(covariance)
    deviations = np.sqrt(np.maximum(variances, 0))
    # a direction of the parameters counts from this standard deviation on
    seen = deviations > 1e-3
    return np.asarray((vectors[:, seen] * deviations[seen]).T[::-1])


def evidence(misfit: Floats) -> Floats:
    """The weight of each point as data of a machine, in squares of log time: a point far off says
    less, and neighbouring sizes share their errors."""
    return np.asarray(INDEPENDENT / SCALE**2 / np.sqrt(1 + (misfit / SCALE) ** 2))


def left_open(end: Fit) -> Floats:
    """The covariance of the parameters as the fit counts them, shape (parameters, parameters), from
    how machines differ and what the points say of this one. Without measured machines, that of
    :func:`covariance`."""
    model, chosen = end.model, np.flatnonzero(end.kept)
    if model.machine_covariance is None:
        return covariance(end)
    design, misfit = slopes(model, end.inner, chosen), end.residuals[chosen]
    squares = np.minimum(misfit**2, (3 * SCALE) ** 2).sum()
    scatter = (USUAL * SCALE**2 + squares) / (USUAL + len(chosen))
    weight = evidence(misfit) * SCALE**2 / scatter
    information = design.T @ (weight[:, None] * design)
    # (prior⁻¹ + information)⁻¹, where the prior may be singular
    prior = model.machine_covariance
    return np.asarray(np.linalg.solve(np.eye(len(information)) + prior @ information, prior))
