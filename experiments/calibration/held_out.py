"""Errors of a model and of a baseline on points that their fits have not seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from experiments.calibration.fit import Fit, fit
from experiments.calibration.observations import FitCurve, FitPoints, evenly
from experiments.calibration.uncertainty import kept_points, parameter_variance, places
from simulator.collectives import find
from simulator.uncertainty.measured_places import MeasuredPlaces
from simulator.uncertainty.residuals import IntervalRules, Residuals
from topologies.topology import Flags, Floats

PROTOCOLS = ("sizes", "ranks", "collectives", "plateau")
"""What a calibration leaves out. `left_out` knows more."""
FARTHER = {"farther": 4, "farthest": 8}
"""All ranks above the largest number over this are left out."""
FOLDS = 32
"""How often sizes are left out at most."""
FEW_POINTS = 4


class HeldOut(NamedTuple):
    """Errors |log(predicted / measured)| of unseen points, shape (points,) each.

    The error of a point that was never left out is nan.
    """

    protocol: str
    """What was left out, one of `PROTOCOLS`."""
    model: Floats
    discrepancy: Floats
    """Of the model with its discrepancy."""
    baseline: Floats
    """Of one α and one β a curve."""
    deviation: Floats
    """The standard deviation of `discrepancy` by the rules of intervals."""


class LeftOut(NamedTuple):
    """Points that were left out together, and what the fit of the others says of them."""

    fold: Flags
    where: MeasuredPlaces
    off: Floats
    """log(measured / predicted) by the fitted model, shape (points left out,)."""
    line: Floats
    """The same by one α and one β a curve."""
    curve: Floats
    """The same by the nearest fitted points of the curve, or of a curve of the same label."""
    parameters: Floats
    """The variance of `off` that uncertain parameters give."""
    seen: MeasuredPlaces
    residuals: Floats
    """log(measured / predicted) of fitted points."""


def held_out(whole: Fit, protocol: str, rules: IntervalRules) -> HeldOut:
    """Leave points out by `protocol`, fit the others, and predict those left out. Each fit but
    the first starts where the fit before it ended, and from the population if it leaves out more
    than few points.

    - "sizes": every size in turn, in all curves at once. Of more than FOLDS sizes, neighbours are
      left out together.
    - "ranks": the largest number of ranks.
    - "collectives": every collective in turn.
    - "plateau": the largest size of each curve.
    - "between": every number of ranks between the smallest and the largest, in turn.
    - "farther", "farthest": all above a quarter and an eighth of the largest number of ranks.
    - "network": all runs over several nodes, if runs on one node are left. "ranks" and "farther"
      leave out such points only if others stay.
    - "lopsided": all but runs on one node and of two ranks on two nodes.
    - "few": all but FEW_POINTS points of the first curve on the most ranks.
    """
    return judged(protocol, len(whole.model.points), left_out(whole, protocol), rules)


def left_out(whole: Fit, protocol: str) -> Iterator[LeftOut]:
    """Every set of points that `protocol` leaves out, with the fit of the others."""
    model, points = whole.model, whole.model.points
    several, near = points.nodes > 1, None
    for fold in _folds(points, protocol):
        crossing = several[fold].any() and not several[~fold].any()
        if fold.all() or (crossing and protocol in ("ranks", *FARTHER)):
            continue
        partial = fit(model, ~fold, near=near)
        near = partial.inner
        kept, where = kept_points(partial), places(partial)
        yield LeftOut(
            fold,
            where.take(fold),
            partial.residuals[fold],
            np.log(points.seconds / _baseline(points, fold))[fold],
            np.log(points.seconds / _nearest(points, fold))[fold],
            parameter_variance(partial)[fold],
            where.take(kept),
            partial.residuals[kept],
        )


def judged(protocol: str, points: int, lefts: Iterable[LeftOut], rules: IntervalRules) -> HeldOut:
    """The errors of points that were left out, by the rules of intervals."""
    errors = np.full((4, points), np.nan)
    for left in lefts:
        mean, variance = Residuals(rules, left.seen, left.residuals).at(left.where, left.parameters)
        rows = np.abs(left.off), np.abs(left.off - mean), np.abs(left.line), np.sqrt(variance)
        errors[:, left.fold] = np.stack(rows)
    return HeldOut(protocol, *errors)


def _folds(points: FitPoints, protocol: str) -> Iterator[Flags]:
    if protocol == "sizes":
        sizes = np.unique(points.size)
        yield from (
            np.isin(points.size, block) for block in np.array_split(sizes, min(len(sizes), FOLDS))
        )
    elif protocol == "ranks":
        yield points.ranks == points.ranks.max()
    elif protocol == "collectives":
        collective = np.array([curve.collective for curve in points.curves])[points.curve]
        yield from (collective == name for name in np.unique(collective))
    elif protocol == "between":
        ranks = np.unique(points.ranks)
        yield from (points.ranks == middle for middle in ranks[1:-1])
    elif protocol in FARTHER:
        yield points.ranks > points.ranks.max() / FARTHER[protocol]
    elif protocol == "network":
        if (points.nodes > 1).any():
            yield points.nodes > 1
    elif protocol == "lopsided":
        alone, pair = points.nodes == 1, points.ranks == 2
        if (alone & ~pair).any() and (pair & ~alone).any():
            yield ~(alone | pair)
    elif protocol == "few":
        kept = evenly(points, FEW_POINTS)
        if np.count_nonzero(kept) == FEW_POINTS < len(points):
            yield ~kept
    else:
        yield points.largest


def _baseline(points: FitPoints, fold: Flags) -> Floats:
    """Seconds by one α and one β a curve, fitted to the other points of the curve.

    A curve that is left out whole takes the α and β of a curve with the same label, at the largest
    fitted number of ranks. The algorithm's formula rescales them. Without such a curve the seconds
    are nan.
    """
    seconds = np.full(len(points), np.nan)
    for c in np.unique(points.curve[fold]).tolist():
        on_curve = points.curve == c
        used = on_curve & ~fold
        if np.count_nonzero(used) >= 2:
            alpha, slope = affine(points.size[used], points.seconds[used])
        elif not used.any():
            alpha, slope = _rescaled(points, points.curves[c], ~fold)
        else:
            continue
        seconds[on_curve] = alpha + slope * points.size[on_curve]
    return seconds


def _nearest(points: FitPoints, fold: Flags) -> Floats:
    """Seconds of the points of `fold` on a line, in logarithms, between the fitted sizes of their
    own curve, or else of that with the same label on the nearest number of ranks. nan without
    one."""
    seconds = np.full(len(points), np.nan)
    fitted = np.unique(points.curve[~fold]).tolist()
    for c in np.unique(points.curve[fold]).tolist():
        curve, mine = points.curves[c], fold & (points.curve == c)
        peers = [k for k in fitted if points.curves[k].label == curve.label]
        if not peers:
            continue
        peer = min(peers, key=lambda k: abs(np.log(points.curves[k].ranks / curve.ranks)))
        used = np.flatnonzero(~fold & (points.curve == peer))
        used = used[np.argsort(points.size[used])]
        known = np.log(points.size[used]), np.log(points.seconds[used])
        seconds[mine] = np.exp(np.interp(np.log(points.size[mine]), *known))
    return seconds


def _rescaled(points: FitPoints, curve: FitCurve, fitted: Flags) -> tuple[float, float]:
    """α and 1/β of a curve that has no fitted point."""
    peers = [k for k in np.unique(points.curve[fitted]) if points.curves[k].label == curve.label]
    if not peers:
        return np.nan, np.nan
    nearest = max(peers, key=lambda k: points.curves[k].ranks)
    reference = points.curves[nearest]
    used = fitted & (points.curve == nearest)
    alpha, slope = affine(points.size[used], points.seconds[used])
    steps, nbytes = _least(curve) / _least(reference)
    return alpha * steps, slope * nbytes


def _least(curve: FitCurve) -> Floats:
    """The least steps, and the least bytes on a rank's port in units of V, of the algorithms that
    may have run."""
    costs = [find(name).cost for name in curve.algorithms]
    ranks = curve.ranks
    counts = [(cost.steps(ranks), float(cost.volume(ranks)) / ranks) for cost in costs]
    return np.asarray(np.min(counts, axis=0), dtype=np.float64)


def affine(sizes: Floats, seconds: Floats) -> Floats:
    """The α and 1/β, both at least 0, of least squares of relative errors."""
    from experiments.calibration.link_fit import solve

    design = np.stack((np.ones_like(sizes), sizes), axis=1) / seconds[:, None]
    return solve(design, np.ones_like(seconds))
