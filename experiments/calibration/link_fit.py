"""The α and β of links with which the simulator reproduces measured times, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.analysis.critical_path import sensitivities
from simulator.engines import Engine, simulate
from simulator.schedules.schedule import Schedule
from topologies.errors import InputError
from topologies.topology import Floats, Topology

Links = Callable[[float, float], Topology]
"""From α in seconds and β in bytes/s to the machine."""

Interval = tuple[float, float]


class LinkFit(NamedTuple):
    """The fitted links. Intervals are (low, high) at 95%, and nan if there are too few data."""

    latency: float
    """α in seconds."""
    latency_interval: Interval
    bandwidth: float
    """β in bytes/s."""
    bandwidth_interval: Interval

    @property
    def notes(self) -> list[str]:
        """The parameters that the data do not determine."""
        figures = (
            ("α", self.latency, self.latency_interval),
            ("β", self.bandwidth, self.bandwidth_interval),
        )
        return [
            f"{name} is not bounded by these sizes: they are too few, or it hardly matters in them"
            for name, value, (low, high) in figures
            if not high - low <= value
        ]


def fit_links(
    schedule: Schedule,
    sizes: Sequence[float],
    seconds: Sequence[float],
    links: Links,
    engine: Engine = "auto",
) -> LinkFit:
    """Least squares of relative errors: |simulated/measured - 1| over `sizes` (bytes) and
    `seconds`.

    The counts of the critical path are the gradient. While the order of service does not change,
    the time is linear in α and 1/β, and one step is exact. If the order changes, steps are halved
    until the simulated error falls. Raises InputError for fewer than two distinct sizes.
    """
    if len(set(sizes)) < 2:
        raise InputError(f"too few sizes to fit, {len(set(sizes))}: α and β need at least 2")
    schedules = [schedule.scaled(float(size)) for size in sizes]
    unit, measured = links(1.0, 1.0), np.array(seconds)
    fitted_links, fitted_media = unit.latency == 1.0, unit.medium_bandwidth == 1.0

    def at(x: Floats) -> _Point:
        # seconds: an α that is fitted to zero is simulated with this value
        machine = links(max(float(x[0]), 1e-12), 1 / float(x[1]) if x[1] > 0 else np.inf)
        counts, times = np.zeros((len(schedules), 2)), np.zeros(len(schedules))
        for k, each in enumerate(schedules):
            timeline = simulate(each, machine, engine)
            gradient = sensitivities(timeline)
            counts[k] = (
                gradient.latency[fitted_links].sum(),
                gradient.inverse_bandwidth[fitted_media].sum(),
            )
            times[k] = timeline.makespan
        return _Point(x, counts, times, float(((times / measured - 1) ** 2).sum()))

    def step(point: _Point) -> _Point:
        """The best point on the way to the least squares of the linear model; `point` itself if no
        better point is found."""
        goal = solve(point.counts / measured[:, None], 1 - point.fixed / measured)
        for shrink in (1.0, 0.5, 0.25, 0.125):
            candidate = at(point.x + shrink * (goal - point.x))
            if candidate.error <= point.error:
                return candidate
        return point

    x = np.array([min(seconds) / (4 * max(schedule.steps, 1)), min(np.divide(seconds, sizes))])
    point = at(x)
    for _ in range(8):
        better = step(point)
        if better.error >= point.error * (1 - 1e-9):
            break
        point = better
    return _fit(point, measured)


class _Point(NamedTuple):
    """A point of the fit."""

    x: Floats
    """The parameters (α, 1/β)."""
    counts: Floats
    """How often each size counts them, shape (sizes, 2)."""
    times: Floats
    error: float
    """The sum of squared relative errors."""

    @property
    def fixed(self) -> Floats:
        """The part of the times that does not depend on α and β: gaps, merging, links of another
        kind."""
        return np.asarray(self.times - self.counts @ self.x)


def solve(design: Floats, wanted: Floats) -> Floats:
    """The x ≥ 0 for which `design @ x` is nearest to `wanted`, by least squares. Counts below
    1e-150, relative to a measured time, are 0: their squares would underflow."""
    from scipy.optimize import nnls

    return np.asarray(nnls(np.where(design < 1e-150, 0.0, design), wanted)[0])


def _fit(point: _Point, seconds: Floats) -> LinkFit:
    latency, slowness = (
        (max(0.0, float(value - width)) if width == width else float("nan"), float(value + width))
        for value, width in zip(point.x, _half_widths(point, seconds), strict=True)
    )
    alpha, beta = float(point.x[0]), _inverse(float(point.x[1]))
    return LinkFit(alpha, latency, beta, (_inverse(slowness[1]), _inverse(slowness[0])))


def _inverse(slowness: float) -> float:
    return np.inf if slowness == 0 else 1 / slowness


def _half_widths(point: _Point, seconds: Floats) -> npt.NDArray[np.float64]:
    design, free = point.counts / seconds[:, None], len(seconds) - 2
    if free < 1 or np.linalg.matrix_rank(design) < 2:
        return np.full(2, np.nan)
    # commands that fit nothing do without a quarter of a second
    from scipy.special import stdtrit

    covariance = point.error / free * np.linalg.inv(design.T @ design)
    return np.asarray(stdtrit(free, 0.975) * np.sqrt(np.diag(covariance)))
