"""Calibrate the times of a device with measured steps.

A step is bound by the device or by the CPU that launches its kernels. What a row tells of the two
is weighed against what is known before: tables of matrix products know a device well, and the
launch of a kernel is a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
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
ROUNDS = 30
"""Fits to known paths, at most."""
PRECISE = 1e-9
"""The error of a step by its known paths, as a share of it."""
FINENESS = 0.03


class Factors(NamedTuple):
    """What rows tell."""

    scale: float = 1.0
    """The factor on the times of the device."""
    launch: float = 1.0
    """The factor on the launch of a kernel."""

    def of(self, times: DeviceTimes) -> DeviceTimes:
        """The calibrated times."""
        return replace(times, scale=times.scale * self.scale, launch=times.launch * self.launch)


class Row(NamedTuple):
    """A measured step."""

    path: Callable[[Factors], Floats]
    """The seconds of its critical path with factors, shape (3,): of the device, of launches, and
    of all else."""
    measured: float
    """Its measured seconds."""


def calibrate(rows: Sequence[Row]) -> Factors:
    """The likeliest factors.

    All logarithms are taken as normal. So one row that is bound by the device moves the factor on
    its times half of the way, by the root of what the row says; one that is bound by the CPU moves
    the launch nearly all of the way. Raises InputError for a step of 0 s or less.
    """
    for row in rows:
        if not 0 < row.measured < float("inf"):
            raise InputError(f"a step of {row.measured} s was measured: it is above 0")
    # A step takes as long as its longest path, and the time of a path is linear in both factors.
    # So the likeliest factors by the paths that are known say where to simulate next, which adds
    # the path that is critical there, until no path is new.
    paths = [np.zeros((0, 3)) for _ in rows]
    for start in STARTS:
        _learn(rows, paths, Factors(launch=start))
    for _ in range(ROUNDS):
        factors = _likeliest(rows, paths)
        if not _learn(rows, paths, factors):
            break
    return factors


def _learn(rows: Sequence[Row], paths: list[Floats], factors: Factors) -> bool:
    """Add the critical path of each row to its paths, seconds for factors of 1, shape (paths, 3).
    Returns whether a row takes another time than the longest path that was known."""
    point, learnt = np.array([*factors, 1.0]), False
    for number, row in enumerate(rows):
        path = row.path(factors)
        step, known = path.sum(), paths[number] @ point
        learnt |= bool(abs(known.max(initial=0.0) - step) > PRECISE * step)
        # Where factors change the order of operations, an old path may take longer than the step.
        rest = paths[number][known <= (1 + PRECISE) * step]
        paths[number] = np.append(rest, [path / point], axis=0)
    return learnt


def _doubts(rows: Sequence[Row], paths: Sequence[Floats], logs: Floats) -> Floats:
    """How unlikely logarithms of factors are, in standard deviations: of each factor, then of each
    row by its paths."""
    point = np.append(np.exp(logs), 1.0)
    steps = [(known @ point).max() for known in paths]
    missed = np.log(steps) - np.log([row.measured for row in rows])
    return np.array([logs[0] / KNOWN, logs[1] / GUESSED, *(missed / ROW)])


def _likeliest(rows: Sequence[Row], paths: Sequence[Floats]) -> Factors:
    """The likeliest factors by paths of each row."""
    from scipy.optimize import least_squares

    fits = [
        least_squares(
            partial(_doubts, rows, paths),
            [0.0, np.log(start)],
            diff_step=[FINENESS, FINENESS],
            x_scale=0.1,
        )
        for start in STARTS
    ]
    best = min(fits, key=lambda each: float(each.cost))
    return Factors(*np.exp(best.x).tolist())
