"""A curve as columns, with its noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from experiments.measurements import Curve, Point
from topologies.errors import InputError
from topologies.topology import Flags, Floats

NOISE = 0.02
"""Relative noise of a mean over iterations where nothing is known of it: in place and out of place,
healthy logs of nccl-tests differ by 0.5% to 3.5% (the medians of 40 curves)."""
GREATEST_NOISE = 0.25
"""The most noise that excuses a point: a measurement that varies by more says nothing, and that is
worth a word."""
Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CurveColumns:
    """The points of a curve by ascending size, as columns of shape (points,)."""

    size: Floats
    """Bytes."""
    seconds: Floats
    """Times out of place."""
    noise: Floats
    """Relative noise of each time."""
    wrong: Flags
    """Whether the result was wrong."""
    in_place: Floats
    """Seconds of the same size in place; NaN if not measured."""
    host: bool
    """Whether the buffers are in the host's memory."""

    @property
    def rate(self) -> Floats:
        """algbw in bytes/s."""
        return self.size / self.seconds


def curve_columns(curve: Curve) -> CurveColumns:
    """The columns of a curve: its points out of place, or those in place if it has no others.

    A barrier's size of 0 bytes is counted as 1. One rank copies out of place and does nothing in
    place, so its times in place are not compared. Raises InputError for a curve without a point.
    """
    points = curve.points or curve.in_place
    if not points:
        raise InputError(f"{curve.source}: no times to judge")
    comparable = curve.points and curve.ranks != 1
    in_place = {point.size: point.time_s for point in curve.in_place} if comparable else {}
    return CurveColumns(
        np.array([max(point.size, 1) for point in points], dtype=float),
        np.array([point.time_s for point in points]),
        np.array([_noise(point) for point in points]),
        np.array([bool(point.wrong) for point in points]),
        np.array([in_place.get(point.size, np.nan) for point in points]),
        curve.on_host,
    )


def _noise(point: Point) -> float:
    return min(max(NOISE, point.cv or 0.0), GREATEST_NOISE)
