"""Curves that a fit of all curves does not explain: they are several times too slow or too fast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from experiments.calibration.fit import Fit
from experiments.calibration.observations import FitCurve

FACTOR = 2.0
"""A curve is an outlier if the median of its sizes is off by at least this factor."""


class Outlier(NamedTuple):
    """A curve and measured over predicted seconds, the median of its sizes."""

    curve: FitCurve
    factor: float


def outliers(fit: Fit) -> Iterator[Outlier]:
    """Curves that are off by FACTOR or more.

    Corrections of single numbers of nodes do not count, because they would hide a curve on its own
    number of nodes.
    """
    model = fit.model
    for c, curve in enumerate(model.points.curves):
        factor = float(np.exp(np.median(fit.typical_residuals[model.points.curve == c])))
        if max(factor, 1 / factor) >= FACTOR:
            yield Outlier(curve, factor)
