"""Prediction intervals."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from simulator.uncertainty.rules import FREEDOM
from topologies.errors import InputError

LEVEL = 0.8
"""The level of an interval unless the user says otherwise."""


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


def interval(seconds: float, mean: float, variance: float, level: float = LEVEL) -> Interval:
    """The interval of a run that a model says takes `seconds`, if log(measured / model) has this
    mean and variance."""
    expected = seconds * float(np.exp(mean))
    factor = float(np.exp(quantile(level) * np.sqrt(variance)))
    return Interval(expected, expected / factor, expected * factor, level)


@cache
def quantile(level: float) -> float:
    """How many deviations from the middle the ends of an interval of `level` are, by Student's t.
    Raises InputError if `level` is no share."""
    if not 0 < level < 1:
        raise InputError(f"level {level:g}: expected a share between 0 and 1, such as 0.8")
    from scipy.special import stdtrit

    return float(stdtrit(FREEDOM, (1 + level) / 2))
