"""Calibrate the times of a device with measured steps.

A step is bound by the device or by the CPU that launches its kernels. What a row tells of the two
is weighed against what is known before: tables of matrix products know a device well, and the
launch of a kernel is a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from experiments.models.device_times import DeviceTimes
from topologies.errors import InputError
from topologies.topology import Floats

KNOWN = 0.15
"""The standard deviation of the logarithm of the factor on a device's times, before a row is
seen."""
GUESSED = 1.0
"""The same of the factor on the launch of a kernel, which depends on CPU and framework."""
ROW = 0.15
"""The standard deviation of the logarithm of a measured step over that of a model with the right
factors. Some jobs run short of memory or share a machine, which no model of compute knows."""
STARTS = 1.0, 4.0
"""Factors on the launch to start from: where it does not bind, the step tells nothing of it."""
FINENESS = 0.03


class Row(NamedTuple):
    """A measured step."""

    step: Callable[[DeviceTimes], float]
    """Its predicted seconds with times of a device."""
    measured: float
    """Its measured seconds."""


class Factors(NamedTuple):
    """What rows tell."""

    scale: float = 1.0
    """The factor on the times of the device."""
    launch: float = 1.0
    """The factor on the launch of a kernel."""

    def of(self, times: DeviceTimes) -> DeviceTimes:
        """The calibrated times."""
        return replace(times, scale=times.scale * self.scale, launch=times.launch * self.launch)


def calibrate(rows: Sequence[Row], times: DeviceTimes) -> Factors:
    """The likeliest factors.

    All logarithms are taken as normal. So one row that is bound by the device moves the factor on
    its times half of the way, by the root of what the row says; one that is bound by the CPU moves
    the launch nearly all of the way. Raises InputError for a step of 0 s or less.
    """
    from scipy.optimize import least_squares

    for row in rows:
        if not 0 < row.measured < float("inf"):
            raise InputError(f"a step of {row.measured} s was measured: it is above 0")

    def doubts(logs: Floats) -> Floats:
        chosen = Factors(*np.exp(logs).tolist()).of(times)
        predicted = [row.step(chosen) for row in rows]
        missed = [np.log(step / row.measured) for step, row in zip(predicted, rows, strict=True)]
        return np.array([logs[0] / KNOWN, logs[1] / GUESSED, *(np.array(missed) / ROW)])

    fits = [
        least_squares(doubts, [0.0, np.log(start)], diff_step=[FINENESS, FINENESS], x_scale=0.1)
        for start in STARTS
    ]
    best = min(fits, key=lambda each: float(each.cost))
    return Factors(*np.exp(best.x).tolist())
