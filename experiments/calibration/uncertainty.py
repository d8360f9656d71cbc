"""How sure a fit is of its predictions: residuals that neighbouring points share, and parameters
that the data leave open. The rules of both are learnt from families of curves that were left
out."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np

from experiments.calibration.fit import Fit, directions, left_open
from experiments.calibration.known_paths import ALL
from experiments.calibration.library_model import Active, active, along
from experiments.calibration.observations import FitPoints
from simulator.profile import Profile, Uncertainty
from simulator.uncertainty.measured_places import MeasuredPlaces, measured_as, no_messages, shares
from simulator.uncertainty.residuals import IntervalRules, Residuals
from topologies.topology import Flags, Floats, Longs

KEPT_POINTS = 400
"""A profile keeps at most so many points."""


@cache
def shipped_rules() -> IntervalRules:
    """The rules that were learnt from all families of measured curves."""
    import yaml

    text = (files("experiments.calibration") / "rules.yaml").read_text(encoding="utf-8")
    return IntervalRules(**yaml.safe_load(text)["rules"])


def places(fit: Fit) -> MeasuredPlaces:
    """Where the points of a fit are. The algorithm is the one that the fit says ran."""
    points, ran = fit.model.points, active(fit.model, fit.inner, ALL)
    jobs, nearest = ran.jobs, fit.model.sizes.nearest
    return MeasuredPlaces(
        np.array([curve.collective for curve in points.curves])[points.curve],
        np.array([measured_as(name) for name in jobs.names])[jobs.algorithm[nearest]],
        points.ranks.astype(np.float64),
        points.nodes.astype(np.float64),
        points.size,
        _messages(fit, ran)[nearest],
    )


def _messages(fit: Fit, ran: Active) -> Floats:
    """The shares of the time of each simulated point that its messages take by size, or none: a
    library may divide messages into pieces that depend on V alone."""
    if not fit.model.library.by_message:
        return no_messages(len(ran.size))
    profile, paths = fit.model.profiles(fit.inner[None]), list(fit.model.paths.of.values())
    seconds = ran.seconds(fit.model, profile)
    before, crossed = (column / seconds for column in ran.on_links(fit.model, profile))
    crossings = zip(ran.job, ran.size, before[:, 0].tolist(), crossed[:, 0].tolist(), strict=True)
    rows = []
    for job, size, *of_time in crossings:
        sizes, counts = paths[job].messages
        rows.append(shares(sizes * size, counts, *of_time))
    return np.stack(rows)


def kept_points(fit: Fit) -> Longs:
    """The fitted points whose residuals a profile keeps, at most about KEPT_POINTS."""
    return np.flatnonzero(fit.kept & _spread(fit.model.points, fit.kept))


def _spread(points: FitPoints, kept: Flags) -> Flags:
    """Which points a profile keeps: of curves with many, the smallest, the largest, and points
    between them at equal steps."""
    chosen = np.zeros(len(points), dtype=np.bool_)
    curves = [np.flatnonzero(kept & (points.curve == c)) for c in range(len(points.curves))]
    most = max(2, KEPT_POINTS // max(1, sum(len(rows) > 0 for rows in curves)))
    for rows in curves:
        count = min(len(rows), most)
        if count:
            chosen[rows[np.linspace(0, len(rows) - 1, count).round().astype(int)]] = True
    return chosen


def moves(fit: Fit) -> Floats:
    """Changes of the parameters by one standard deviation along independent directions, shape
    (directions, parameters)."""
    return directions(left_open(fit))


def parameter_variance(fit: Fit) -> Floats:
    """The variance of the log of each predicted time that uncertain parameters give, shape
    (points,)."""
    shifts = along(fit.model, fit.inner, moves(fit), ALL)
    return np.asarray((shifts**2).sum(axis=1))


def uncertainty(fit: Fit, rules: IntervalRules) -> Uncertainty:
    """What a profile of the fit keeps."""
    variants: tuple[Profile, ...] = tuple(
        fit.model.profile(fit.inner + move) for move in moves(fit)
    )
    kept = kept_points(fit)
    return Uncertainty(Residuals(rules, places(fit).take(kept), fit.residuals[kept]), variants)
