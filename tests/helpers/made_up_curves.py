"""Curves to make up times for."""

import numpy as np

from experiments.calibration.observations import FitCurve

SIZES = np.geomspace(4.0**4, 4.0**14, 11)
"""Sizes in bytes, from 256 B to 256 MiB."""


def curve(collective: str, names: tuple[str, ...], ranks: int = 8, count: int = 2) -> FitCurve:
    """A curve of one second a size on `count` nodes."""
    return FitCurve("made up", collective, names, ranks, count, SIZES, np.ones(len(SIZES)))
