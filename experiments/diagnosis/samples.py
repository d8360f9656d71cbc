"""A curve as columns, with what is known of its noise."""

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
NOISIEST = 0.25
"""The most noise that excuses a point: a measurement that varies by more says nothing, and that is
worth a word."""
Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Samples:
    """Shape (points,), by ascending size: bytes, seconds, relative noise, whether the result was
    wrong, and the time of the same size in place (NaN: not measured). `host`: the buffers are known
    to be in the host's memory."""

    size: Floats
    seconds: Floats
    noise: Floats
    wrong: Flags
    in_place: Floats
    host: bool

    @property
    def rate(self) -> Floats:
        """algbw in bytes/s."""
        return self.size / self.seconds


def samples(curve: Curve) -> Samples:
    """The out-of-place points of a curve beside those in place; the latter alone where there are no
    others.

    A barrier's size of 0 bytes is counted as 1. One rank copies out of place and does nothing in
    place, so its times in place are not compared. Raises InputError for a curve without a point.
    """
    points = curve.points or curve.in_place
    if not points:
        raise InputError(f"{curve.source}: no times to judge")
    both = curve.points and curve.ranks != 1
    beside = {point.size: point.time_s for point in curve.in_place} if both else {}
    return Samples(
        np.array([max(point.size, 1) for point in points], dtype=float),
        np.array([point.time_s for point in points]),
        np.array([_noise(point) for point in points]),
        np.array([bool(point.wrong) for point in points]),
        np.array([beside.get(point.size, np.nan) for point in points]),
        curve.on_host,
    )


def _noise(point: Point) -> float:
    return min(max(NOISE, point.cv or 0.0), NOISIEST)
