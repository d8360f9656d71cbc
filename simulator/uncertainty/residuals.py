"""What neighbouring points share beyond a fitted model, how far a new point may be off, and the
rules of both.

After Kennedy and O'Hagan, Bayesian calibration of computer models, JRSS B 63(3), 2001: measured =
model * discrepancy. log(measured / model) is a Gaussian process in size and ranks. It corrects a
prediction near measured points. Far from them its mean is 0 and its spread is that of the rules.
Some machines are noisier than others: the scale of all spreads follows the residuals, as in the
Student-t processes of Shah, Wilson and Ghahramani (AISTATS 2014).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import Annotated, NamedTuple

import numpy as np
from annotated_types import Ge, Le

from simulator.uncertainty.measured_places import (
    Apart,
    Beyond,
    MeasuredPlaces,
    apart,
    beyond,
    own_likeness,
)
from topologies.topology import Floats

Deviation = Annotated[float, Ge(0), Le(10)]
"""A standard deviation of log(measured / predicted)."""
Length = Annotated[float, Ge(1), Le(1e12)]
"""A factor in size or ranks over which a likeness falls to 1/e."""
Share = Annotated[float, Ge(0), Le(1)]
"""A part of a whole."""
Points = Annotated[float, Ge(1), Le(1e6)]
"""A number of points."""
FREEDOM = 4.0
"""Degrees of freedom of Student's t: outliers are more frequent than in a normal distribution."""


class IntervalRules(NamedTuple):
    """What calibration learnt from families of curves that it had left out."""

    machine: Deviation
    """What all points of a machine share."""
    collective: Deviation
    """What the points of a collective share besides."""
    algorithm: Deviation
    """What the points of an algorithm share besides."""
    allocation: Deviation
    """What points on the same ranks and nodes share besides."""
    curve: Deviation
    """What points of an algorithm on the same ranks and nodes share besides."""
    noise: Deviation
    """What no two points share."""
    size: Length
    """Over which factor in size a likeness falls to 1/e."""
    ranks: Length
    """Over which factor in ranks it does."""
    parameters: Deviation
    """The factor on what uncertain parameters contribute where no point was measured."""
    more_ranks: Deviation
    """Added for twice the ranks or nodes that were measured; grows with the doublings to 0.75."""
    more_bytes: Deviation
    """Added for twice the size that was measured; grows with the root of the doublings."""
    network: Deviation
    """Added over several nodes if only one node was measured, or the reverse."""
    other_algorithm: Deviation
    """Added for an algorithm that was not measured."""
    other_collective: Deviation
    """Added for a collective that was not measured."""
    own_scale: Share = 0.0
    """How far a profile's own residuals set the scale of all spreads: 0 not at all, 1 wholly."""
    usual_scale: Points = 1.0
    """So many points of a profile count as much as the usual scale does."""
    message: Deviation = 0.0
    """What messages of one size share besides, in all algorithms and on all ranks of a collective.
    A point has it as far as messages make up its time."""
    job: Deviation = 0.0
    """Added for another job than the measured ones: another day, and other nodes of the machine.
    It was learnt on ranks and nodes on which no job was measured."""


WEIGHT_ROUNDS = 3
LEAST_WEIGHT = 0.02
"""The least weight of an outlier."""
LEAST_NOISE, LEAST_LENGTH = 1e-3, 1.01
"""The least noise and length that are used."""


@dataclass(frozen=True, eq=False)
class Residuals:
    """log(measured / model) at measured points."""

    rules: IntervalRules
    seen: MeasuredPlaces
    """The measured points."""
    values: Floats
    """Their residuals, shape (points,)."""

    def at(self, places: MeasuredPlaces, parameters: Floats | float = 0.0) -> tuple[Floats, Floats]:
        """The expected residuals of new runs at `places`, and their variances, both of shape
        (points,). `parameters` is the variance that uncertain parameters give, of that shape.

        The variance has the noise of a run, which is another job, and grows with the distance from
        the measured points.
        """
        rules, whole = self.rules, alone(self.rules, own_likeness(places.messages))
        if not len(self.seen):
            fixed = whole + rules.noise**2 + rules.job**2
            return np.zeros(len(places)), fixed + rules.parameters**2 * parameters
        like = likeness(rules, apart(places, self.seen))
        outside = beyond(places, self.seen)
        farther = distance(rules, outside._replace(job=np.ones(len(places))))
        mean, variance = conditional(self._inverse, like, self.values, whole)
        opened = still_open(outside.job, variance, whole) * parameters
        spread = (variance + rules.noise**2 + farther) * self._scale
        return mean, spread + rules.parameters**2 * opened

    def difference(
        self, one: MeasuredPlaces, other: MeasuredPlaces, parameters: float = 0.0
    ) -> tuple[float, float]:
        """The expected residual of a new run at `other` less that of a new run at `one`, a point
        each, and the variance of this difference. What the two points share is not in it.
        `parameters` is the variance that uncertain parameters give."""
        both = one.and_also(other)
        between = apart(both, both)
        among = likeness(self.rules, between)
        signs, mean = np.array([-1.0, 1.0]), np.zeros(2)
        if len(self.seen):
            like = likeness(self.rules, apart(both, self.seen))
            solved = like @ self._inverse
            mean = solved @ self.values
            outside = beyond(both, self.seen)
            whole, known = np.diag(among), among - solved @ like.T
            parameters *= float(still_open(outside.job, np.diag(known), whole).max())
            among = known + together(self.rules, outside, between)
        variance = float(max(signs @ among @ signs, 0)) + 2 * self.rules.noise**2
        return float(signs @ mean), variance * self._scale + self.rules.parameters**2 * parameters

    @cached_property
    def _inverse(self) -> Floats:
        """That of the covariance: a profile is asked for many points, one after the other."""
        among = likeness(self.rules, apart(self.seen, self.seen))
        return np.asarray(np.linalg.inv(covariance(self.rules, among, self.values)))

    @cached_property
    def _scale(self) -> float:
        return scale(self.rules, self._inverse, self.values) if len(self.seen) else 1.0


def shared(rules: IntervalRules) -> float:
    """The variance of what a point shares with others, its messages apart."""
    of = (rules.machine, rules.collective, rules.algorithm, rules.allocation, rules.curve)
    return float(sum(deviation**2 for deviation in of))


def alone(rules: IntervalRules, messages: Floats) -> Floats:
    """The variance of what each point shares with others, shape (points,), from the likeness of its
    messages with themselves."""
    return np.asarray(shared(rules) + rules.message**2 * messages)


def likeness(rules: IntervalRules, between: Apart) -> Floats:
    """The covariance of the residuals at two sets of points without noise, shape (left, right)."""
    near = np.exp(-between.size / log(max(rules.size, LEAST_LENGTH)))
    close = np.exp(-between.ranks / log(max(rules.ranks, LEAST_LENGTH)))
    kin = (
        rules.machine**2
        + rules.collective**2 * between.collective
        + rules.algorithm**2 * between.algorithm
    )
    same = rules.allocation**2 + rules.curve**2 * between.algorithm
    messages = rules.message**2 * between.messages * between.collective
    return np.asarray(near * (close * kin + between.allocation * same) + messages)


def distance(rules: IntervalRules, outside: Beyond) -> Floats:
    """The variance that the distance from the measured points adds, shape (points,)."""
    deviations = (getattr(rules, name) for name in outside._fields)
    return np.asarray(
        sum(each**2 * column for each, column in zip(deviations, outside, strict=True))
    )


def together(rules: IntervalRules, outside: Beyond, between: Apart) -> Floats:
    """The covariance that the distance from the measured points adds, shape (points, points): two
    points share the way that both are outside."""
    whole = np.zeros_like(between.size)
    for name, column in zip(outside._fields, outside, strict=True):
        alike = {"other_algorithm": between.algorithm, "other_collective": between.collective}
        common = np.minimum.outer(column, column) * alike.get(name, True)
        np.fill_diagonal(common, column)
        whole += getattr(rules, name) ** 2 * common
    return whole


def covariance(rules: IntervalRules, among: Floats, values: Floats) -> Floats:
    """That of measured residuals, shape (points, points), from their likeness. Outliers have more
    noise (Student's t)."""
    noise = max(rules.noise, LEAST_NOISE)
    weight = np.ones(len(values))
    for _ in range(WEIGHT_ROUNDS):
        whole = among + np.diag(noise**2 / weight)
        solved = np.asarray(np.linalg.solve(whole, values), dtype=np.float64)
        surprise = values - among @ solved
        usual = noise**2 * _ratio(rules, values, solved)
        weight = np.maximum(LEAST_WEIGHT, 1 / (1 + surprise**2 / usual / FREEDOM))
    return np.asarray(among + np.diag(noise**2 / weight))


def scale(rules: IntervalRules, inverse: Floats, values: Floats) -> float:
    """The factor on all variances, from the `values` that are known and the inverse of their
    covariance, shape (points, points).

    In units of that covariance, squares are as many as points where the scale is as usual.
    """
    return _ratio(rules, values, inverse @ values)


def _ratio(rules: IntervalRules, values: Floats, solved: Floats) -> float:
    """As :func:`scale`, from the `values` divided by their covariance."""
    squares = float(values @ solved)
    ratio = (rules.usual_scale + squares) / (rules.usual_scale + len(values))
    return float(ratio**rules.own_scale)


def conditional(
    inverse: Floats, like: Floats, values: Floats, whole: Floats
) -> tuple[Floats, Floats]:
    """The mean and variance of residuals of new runs, shape (points,) each, from the inverse of the
    covariance of the `values` that are known, the new points' likeness to them, and their variance
    without them. Noise and `scale` are not in it."""
    solved = like @ inverse
    gained = np.einsum("ps,ps->p", like, solved)
    return solved @ values, np.maximum(whole - gained, 0.0)


def still_open(job: Floats, variance: Floats, whole: Floats) -> Floats:
    """The share of the parameters' variance that counts at points, shape (points,), by the variance
    that measured points leave of the `whole`. On ranks and nodes that were measured, they correct
    errors of parameters too. `job` is 1 for points on others, as in :class:`Beyond`."""
    left = np.divide(variance, whole, out=np.ones_like(variance), where=whole > 0)
    return np.asarray(np.maximum(job, left**2))
