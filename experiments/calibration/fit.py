"""Fits of a machine's parameters to measured times: relative, robust, with intervals, and honest
about what is open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from experiments.calibration.effects.effect import Parameter
from experiments.calibration.effects.node_corrections import NodeCorrections
from experiments.calibration.library_model import Model
from experiments.calibration.observations import Flags
from experiments.calibration.slopes import slopes
from simulator.profile import Profile
from topologies.topology import Floats

SCALE = 0.15
"""The relative error from which a point counts less than its square."""
ROUNDS = 8
MISLABELLED = 10.0
"""By how much less, in squares of SCALE, the library's own choices must cost for a curve not to be
what it is called: about as much as a point that is 2.5 times too long. And they must cost less than
half."""
SPREADS = (0.5,)
"""How far from its start, in factors of e, a fit looks for paths before it begins."""
CLOSE = 1e-3
"""How far the paths known may be from a simulation, relatively, when a fit ends."""
STARTS = 3
CONVERGED = 1e-5
"""By how much less, relatively, a step may better a fit or change it that is the last."""
WIDE, ALIKE = 1.0, 0.99
"""A parameter is not identified if its 95% interval is wider than its value, or if it goes with
another so closely."""


class Estimate(NamedTuple):
    """What the data say of a parameter. The start counts as data."""

    parameter: Parameter
    """The parameter."""
    value: float
    """Its value."""
    low: float
    """The lower end of the 95% interval."""
    high: float
    """The upper end of the 95% interval."""
    open: str
    """Why the data do not identify the parameter. Empty if they do."""


@dataclass(frozen=True, eq=False)
class Fit:
    """Where a fit ended."""

    model: Model
    """The model that was fitted."""
    inner: Floats
    """The parameters, as the fit counts them."""
    kept: Flags
    """The points that were fitted."""
    short: float
    """How much the known paths were off at the end, relatively and at most."""

    @property
    def predicted(self) -> Floats:
        """Seconds of every point, fitted or not."""
        return self.model.predict(self.inner)

    @property
    def residuals(self) -> Floats:
        """log(measured / predicted) of every point."""
        return np.asarray(np.log(self.model.points.seconds / self.predicted))

    @property
    def typical_residuals(self) -> Floats:
        """Those of a machine on which no number of nodes has anything of its own."""
        typical = self.model.without(self.inner, NodeCorrections)
        return np.asarray(np.log(self.model.points.seconds / self.model.predict(typical)))

    @property
    def profile(self) -> Profile:
        """The parameters as what a simulation takes."""
        return self.model.profile(self.inner, "the fit", "")

    def estimates(self) -> list[Estimate]:
        """Every parameter with what the data say of it."""
        return _estimates(self)


def explore(model: Model) -> Fit:
    """Fit all points, simulate where the fit ended, keep the paths found there, and fit again until
    nothing is new."""
    everything = np.ones(len(model.points), dtype=np.bool_)
    random = np.random.default_rng(1)
    for spread in (*SPREADS, 0.0):
        model.explore(model.start + random.normal(0, spread, len(model.start)) * (spread > 0))
    inner, short, doubt = model.start, 1.0, 0.0
    for _ in range(ROUNDS):
        inner = _solve(model, everything, inner)
        short = model.explore(inner, doubt)
        if short < CLOSE and doubt:
            short = model.explore(inner)
        if short < CLOSE:
            break
        doubt = CLOSE
    return Fit(*_relabelled(model, everything, inner), everything, short)


def fit(model: Model, keep: Flags, start: Floats | None = None) -> Fit:
    """Fit the points that `keep` chooses, by the paths known."""
    model = model.taking({}).seeing(keep)
    return Fit(*_relabelled(model, keep, _solve(model, keep, start)), keep, 0.0)


def _relabelled(model: Model, keep: Flags, inner: Floats) -> tuple[Model, Floats]:
    """The model and where it ends once curves that are not what they are called are taken as what
    ran instead."""
    algorithms = _mislabelled(model, keep, inner)
    if not algorithms:
        return model, inner
    model = model.taking(algorithms)
    return model, _solve(model, keep, inner)


def _mislabelled(model: Model, keep: Flags, inner: Floats) -> dict[int, tuple[str, ...]]:
    """Curves that points of `keep` show to be something else than they are called, and what ran
    instead."""
    curves, together = model.points.curves, _together(model)
    called = _costs(model, keep, inner, together)
    least, algorithms = called / 2, dict[int, tuple[str, ...]]()
    for k in range(max(len(curve.instead) for curve in curves)):
        other = {c: curve.instead[k] for c, curve in enumerate(curves) if k < len(curve.instead)}
        costs = _costs(model.taking(other), keep, inner, together)
        better = {
            c: names
            for c, names in other.items()
            if called[c] - costs[c] > MISLABELLED and costs[c] < least[c]
        }
        algorithms |= better
        least[list(better)] = costs[list(better)]
    return algorithms


def _together(model: Model) -> Flags:
    """Which curves are judged with which: themselves, and those whose same label is known to have
    had no effect, shape (curves, curves)."""
    curves = model.points.curves
    labels = [
        (curve.collective, curve.forced, curve.library, curve.instead) if curve.ignored else c
        for c, curve in enumerate(curves)
    ]
    return np.array([[curve == other for other in labels] for curve in labels])


def _costs(model: Model, keep: Flags, inner: Floats, together: Flags) -> Floats:
    """What the misfits of each curve, and of those that are judged with it, cost at points of
    `keep`."""
    misfits = np.log(model.predict(inner) / model.points.seconds)
    costs = 2 * (np.sqrt(1 + (misfits / SCALE) ** 2) - 1) * keep
    return np.asarray(
        together @ np.bincount(model.points.curve, costs, len(model.points.curves)),
        dtype=np.float64,
    )


def _solve(model: Model, keep: Flags, start: Floats | None = None) -> Floats:
    from scipy.optimize import least_squares

    chosen, measured = np.flatnonzero(keep), np.log(model.points.seconds[keep])
    table = model.table(chosen)

    def residuals(inner: Floats) -> Floats:
        misfit = np.log(model.predict(inner, chosen, table)) - measured
        return np.concatenate((misfit, model.weight * (inner - model.start)))

    def jacobian(inner: Floats) -> Floats:
        return np.concatenate((slopes(model, inner, chosen), np.diag(model.weight)))

    random = np.random.default_rng(0)
    starts = [model.start] if start is None else [start, model.start]
    starts += [
        model.start + random.normal(0, 0.3, len(model.start)) for _ in range(STARTS - len(starts))
    ]
    ends = [
        least_squares(
            residuals,
            start_point,
            jacobian,
            loss="soft_l1",
            f_scale=SCALE,
            ftol=CONVERGED,
            xtol=CONVERGED,
            max_nfev=60,
        )
        for start_point in starts
    ]
    return np.asarray(min(ends, key=lambda end: float(end.cost)).x)


def _estimates(end: Fit) -> list[Estimate]:
    from scipy.stats import t

    model, chosen = end.model, np.flatnonzero(end.kept)
    design = slopes(model, end.inner, chosen)
    error = np.log(model.predict(end.inner, chosen)) - np.log(model.points.seconds[chosen])
    weight = 1 / np.sqrt(1 + (error / SCALE) ** 2)
    free = max(1, len(chosen) - len(model.parameters))
    variance = float((weight * error**2).sum()) / free
    normal = design.T @ (weight[:, None] * design)
    norms = np.sqrt(np.diag(normal))
    unseen, mixing = norms < 1e-6, model.mixing
    covariance = variance * np.linalg.pinv(
        normal + np.diag(np.where(unseen, 1.0, model.weight**2)), hermitian=True
    )
    covariance = mixing @ covariance @ mixing.T
    half = np.where(
        unseen, np.inf, t.ppf(0.975, free) * np.sqrt(np.maximum(np.diag(covariance), 0))
    )
    deviation = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    alike = np.abs(covariance / np.outer(deviation, deviation) - np.eye(len(half)))
    alike[:, unseen] = 0
    return [_estimate(model, mixing @ end.inner, half, alike, k) for k in range(len(half))]


def _estimate(model: Model, inner: Floats, half: Floats, alike: Floats, k: int) -> Estimate:
    parameter, width = model.parameters[k], float(half[k])
    value, low, high = (parameter.outer(float(inner[k]) + shift) for shift in (0.0, -width, width))
    wide = width > WIDE if parameter.unit == "power" else high - low > WIDE * value
    twin = int(np.argmax(alike[k]))
    why = "its interval is wider than its value" if wide else ""
    if alike[k, twin] > ALIKE:
        why = f"it goes with {model.parameters[twin].name}"
    return Estimate(
        parameter, value, low, high, "no point depends on it" if np.isinf(width) else why
    )
