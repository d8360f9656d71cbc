"""The part of the times that a fitted model does not explain and that neighbouring points share: a
Gaussian process on log(measured / model).

After Kennedy and O'Hagan, Bayesian calibration of computer models, JRSS B 63(3), 2001: measured =
model * discrepancy. The residual of a point is assumed to be like the residuals of three sets of
points: other sizes of its curve, the same algorithm on other numbers of ranks, and other algorithms
on the same ranks. The likeness falls with the distance in size and ranks.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from experiments.calibration.observations import Flags, Points
from topologies.topology import Floats

ROUNDS = 3
FREEDOM = 4.0
LEAST = 0.02
FACTORS = (0.25, 0.5, 1.0, 2.0)
LENGTHS = (8.0, 64.0, 512.0)


class Likeness(NamedTuple):
    """How alike log residuals of different points are: standard deviations, and distances in
    factors."""

    curve: float = 0.15
    """The standard deviation of what the points of a curve share."""
    algorithm: float = 0.15
    """That of what an algorithm shares."""
    ranks: float = 0.1
    """That of what a number of ranks shares."""
    all: float = 0.1
    """That of what all points share."""
    noise: float = 0.05
    """That of noise."""
    size: float = 64.0
    """The factor in size over which a likeness falls to 1/e."""
    more: float = 4.0
    """The factor in ranks over which it does."""


USUAL = Likeness()


def discrepancy(points: Points, residuals: Floats, keep: Flags) -> Floats:
    """The expected residual at every point, from the residuals of the points that `keep` chooses.
    Outliers count less (Student's t).

    The function tries a few likenesses and uses the one that makes the known residuals most likely.
    """
    observed, noise = residuals[keep], USUAL.noise
    usual = {size: _covariance(points, USUAL._replace(size=size)) for size in LENGTHS}
    among = {size: like[np.ix_(keep, keep)] for size, like in usual.items()}
    factor, size = max(
        product(FACTORS, LENGTHS),
        key=lambda candidate: _likelihood(candidate[0] ** 2 * among[candidate[1]], noise, observed),
    )
    like, covariance = factor**2 * usual[size], factor**2 * among[size]
    weight = np.ones(len(observed))
    for _ in range(ROUNDS):
        weights = np.linalg.solve(covariance + np.diag(noise**2 / weight), observed)
        surprise = (observed - covariance @ weights) / noise
        weight = np.maximum(LEAST, 1 / (1 + surprise**2 / FREEDOM))
    return np.asarray(like[:, keep] @ weights)


def _likelihood(covariance: Floats, noise: float, residuals: Floats) -> float:
    """The log likelihood of residuals, up to a constant, with one in twenty clipped as outliers."""
    from scipy.linalg import solve_triangular

    limit = max(3 * noise, float(np.quantile(np.abs(residuals), 0.95)))
    clipped = np.clip(residuals, -limit, limit)
    root = np.linalg.cholesky(covariance + noise**2 * np.eye(len(residuals)))
    return float(
        -0.5 * np.sum(solve_triangular(root, clipped, lower=True) ** 2)
        - np.log(np.diag(root)).sum()
    )


def _covariance(points: Points, likeness: Likeness) -> Floats:
    size, ranks = np.log(points.size), np.log(points.ranks)
    near = np.exp(-np.abs(size[:, None] - size) / np.log(likeness.size))
    far = np.abs(ranks[:, None] - ranks)
    close = np.exp(-far / np.log(likeness.more))
    same = likeness.curve**2 * (points.curve[:, None] == points.curve)
    kin = likeness.algorithm**2 * (points.label[:, None] == points.label) * close
    return np.asarray(
        near * (same + kin + likeness.ranks**2 * (far == 0) + likeness.all**2 * close)
    )
