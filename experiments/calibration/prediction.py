"""Predictions of a profile for measured curves: every size, with every algorithm and protocol that
may have run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from experiments.calibration.library import Library
from experiments.calibration.observations import FitCurve
from experiments.calibration.profile_times import ProfileTime, times
from simulator.collectives import find
from simulator.profile import Profile
from simulator.uncertainty.interval import Interval
from topologies.topology import Floats, Topology


class PredictedPoint(NamedTuple):
    """What a profile says of one point."""

    size: float
    """The size in bytes."""
    measured: float
    """The measured seconds."""
    seconds: float
    """The predicted seconds."""
    algorithm: str
    """The fastest algorithm, by the profile."""
    protocol: str
    """Its fastest protocol."""
    interval: Interval | None = None
    """None if the profile does not say how sure it is."""

    @property
    def inside(self) -> bool | None:
        """Whether the measured time is inside the interval; None without one."""
        if self.interval is None:
            return None
        return self.interval.low <= self.measured <= self.interval.high

    @property
    def error(self) -> float:
        """predicted / measured - 1."""
        return self.seconds / self.measured - 1


class CurveJob(NamedTuple):
    """A simulation that several curves may need."""

    algorithm: str
    """The algorithm."""
    ranks: int
    """The number of ranks."""
    nodes: int
    """The number of nodes."""
    protocols: tuple[str, ...]
    """The protocols that the run was told to use. None if it chose."""


def predict(
    profile: Profile, library: Library, curve: FitCurve, topology: Topology
) -> list[PredictedPoint]:
    """Simulate every size of a curve. If the library chose the algorithm, the fastest of its
    algorithms counts."""
    return predict_all(profile, library, [curve], lambda _: topology)[0]


def predict_all(
    profile: Profile,
    library: Library,
    curves: Sequence[FitCurve],
    machine: Callable[[CurveJob], Topology],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[list[PredictedPoint]]:
    """As :func:`predict`, for several curves. A simulation that several curves need runs once."""
    jobs: dict[CurveJob, set[float]] = {}
    for curve in curves:
        for size in curve.sizes.tolist():
            for job in _running(library, curve, size):
                jobs.setdefault(job, set()).add(size)
    best_times: dict[CurveJob, dict[float, ProfileTime]] = {}
    for done, (job, sizes) in enumerate(jobs.items()):
        progress(done, len(jobs))
        protocols = tuple(
            protocol for protocol in profile.protocols if protocol.name in job.protocols
        )
        simulated = replace(profile, protocols=protocols or profile.protocols)
        best_times[job] = times(
            simulated, find(job.algorithm), machine(job), job.ranks, sorted(sizes)
        )
    progress(len(jobs), len(jobs))
    return [_rows(library, curve, best_times) for curve in curves]


def _rows(
    library: Library, curve: FitCurve, best_times: Mapping[CurveJob, Mapping[float, ProfileTime]]
) -> list[PredictedPoint]:
    rows = []
    for size, measured in zip(curve.sizes.tolist(), curve.seconds.tolist(), strict=True):
        best = min(_running(library, curve, size), key=lambda job: best_times[job][size].seconds)
        timed = best_times[best][size]
        rows.append(PredictedPoint(size, measured, timed.seconds, best.algorithm, *timed[1:]))
    return rows


def _running(library: Library, curve: FitCurve, size: float) -> list[CurveJob]:
    """The algorithms that may have run at a size."""
    names = library.ran(curve, size)
    return [CurveJob(name, curve.ranks, curve.nodes, curve.protocols) for name in names]


def coverage(rows: Sequence[PredictedPoint]) -> float | None:
    """The share of rows inside their intervals; None if they have none."""
    inside = [row.inside for row in rows if row.inside is not None]
    return sum(inside) / len(inside) if inside else None


def errors(rows: list[PredictedPoint]) -> Floats:
    """|error| of every row."""
    return np.asarray(np.abs([row.error for row in rows]))
