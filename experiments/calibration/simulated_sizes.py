"""The sizes of a curve that a fit simulates. The times of all other sizes follow from these."""

from __future__ import annotations

import numpy as np

from experiments.calibration.observations import FitCurve, FitPoints, Ints, equally_far
from simulator.effects.jobs import Index
from topologies.topology import Floats

SIMULATED_SIZES = 64
"""A fit simulates at most so many sizes of a curve."""


class SimulatedSizes:
    """The simulated points among measured points, and where the others are between them."""

    def __init__(self, measured: FitPoints) -> None:
        self.all = all(len(curve.sizes) <= SIMULATED_SIZES for curve in measured.curves)
        """Whether every measured point is simulated."""
        chosen, places = zip(*map(_spread, measured.curves), strict=True)
        simulated = map(FitCurve.at, measured.curves, chosen)
        self.points = measured if self.all else FitPoints(simulated)
        """The simulated points."""
        first = np.cumsum([0, *map(len, chosen[:-1])])
        self.place: Floats = np.concatenate(list(map(np.add, places, first)))
        """Where each measured point is among the simulated points: 2.5 is half way between numbers
        2 and 3, in log(size)."""

    def rows(self, keep: Index) -> Index:
        """The simulated points that say the times of the measured points that `keep` chooses."""
        return keep if self.all else slice(None)

    def between(self, values: Floats, keep: Index) -> Floats:
        """The values of the measured points that `keep` chooses, linear in log(size) between
        those of the simulated points `rows(keep)`. Shape (points, ...)."""
        if self.all:
            return values
        place = self.place[keep]
        low, high = values[np.floor(place).astype(int)], values[np.ceil(place).astype(int)]
        return np.asarray(low + ((high - low).T * (place % 1)).T)

    def seconds(self, simulated: Floats, keep: Index) -> Floats:
        """The times of the measured points that `keep` chooses, from those of `rows(keep)`: a power
        of the size from one simulated size to the next."""
        return simulated if self.all else np.exp(self.between(np.log(simulated), keep))

    @property
    def nearest(self) -> Ints:
        """The simulated point nearest to each measured point."""
        return np.rint(self.place).astype(np.int64)


def _spread(curve: FitCurve) -> tuple[Ints, Floats]:
    """The numbers of the sizes of a curve to simulate, and where each size is among them."""
    every, logs = np.arange(len(curve.sizes)), np.log(curve.sizes)
    if len(every) <= SIMULATED_SIZES:
        return every, every.astype(np.float64)
    chosen = equally_far(curve.sizes, SIMULATED_SIZES)
    return chosen, np.interp(logs, logs[chosen], every[: len(chosen)])
