"""Prediction intervals."""

from __future__ import annotations

from math import acos, cos, exp, sqrt
from statistics import NormalDist
from typing import NamedTuple

from topologies.errors import InputError
from topologies.units import format_seconds

LEVEL = 0.8
"""The level of an interval unless the user says otherwise."""
WIDEST_LOG = 100.0
"""No interval is wider than from 1 / e**WIDEST_LOG to e**WIDEST_LOG times the expected time."""


class Interval(NamedTuple):
    """The time of a run: half of the runs take longer than `expected`, and the share `level` of
    them takes from `low` to `high`."""

    expected: float
    """Seconds."""
    low: float
    """Seconds."""
    high: float
    """Seconds."""
    level: float = LEVEL
    """The share of runs inside the interval."""
    unsure: tuple[str, ...] = ()
    """In what the run is outside the measured runs, in words."""

    def above(self, bound: float) -> Interval:
        """The interval, which ends at a bound in seconds that no algorithm can beat. If half of the
        runs beat it all the same, it says so.

        >>> Interval(2.0, 1.0, 4.0).above(1.5)[:3], Interval(2.0, 1.0, 4.0).above(2.5)[:3]
        ((2.0, 1.5, 4.0), (2.0, 1.0, 4.0))
        """
        if self.expected >= bound:
            return self._replace(low=max(self.low, bound))
        why = f"measured runs beat the bound of the specified links, {format_seconds(bound)}"
        return self._replace(unsure=(*self.unsure, why))

    def upper(self, level: float) -> float:
        """The upper end of the interval of another level, in seconds.

        >>> sure = interval(2.0, 0.0, 0.04)
        >>> sure.upper(0.8) == sure.high, round(sure.upper(0.95), 3)
        (True, 3.485)
        """
        wider = quantile(level) / quantile(self.level)
        return float(self.expected * (self.high / self.expected) ** wider)

    def at_least(self, seconds: float) -> Interval:
        """The interval of a run that also waits until `seconds` have passed.

        >>> Interval(2.0, 1.0, 4.0).at_least(3.0)[:3]
        (3.0, 3.0, 4.0)
        """
        expected, low, high = (max(each, seconds) for each in self[:3])
        return self._replace(expected=expected, low=low, high=high)


def interval(seconds: float, mean: float, variance: float, level: float = LEVEL) -> Interval:
    """The interval of a run that a model says takes `seconds`, if log(measured / model) has this
    mean and variance."""
    expected = seconds * exp(mean)
    factor = exp(min(WIDEST_LOG, quantile(level) * sqrt(variance)))
    return Interval(expected, expected / factor, expected * factor, level)


def quantile(level: float) -> float:
    """How many deviations from the middle the ends of an interval of `level` are, by Student's t
    with FREEDOM = 4 degrees of freedom.

    Its closed form is of Shaw, Sampling Student's T distribution, Journal of Computational Finance
    9(4), 2006. Raises InputError if `level` is no share.
    """
    if not 0 < level < 1:
        raise InputError(f"--level {level:g}: expected a share between 0 and 1, like 0.8 for 80%")
    root = sqrt((1 + level) * (1 - level))
    return 2 * sqrt(max(0.0, cos(acos(root) / 3) / root - 1))


def last_of(ranks: int) -> float:
    """How many standard deviations behind the mean the last of so many normal draws is expected, by
    the formula of Blom (Statistical Estimates and Transformed Beta-Variables, 1958).

    >>> last_of(1), round(last_of(8), 2), round(last_of(1024), 2)
    (0.0, 1.43, 3.23)
    """
    return NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25))
