"""Measured and predicted times: a band where the profile has intervals."""

import numpy as np
import pytest

from experiments.calibration.observations import FitCurve
from experiments.calibration.prediction import PredictedPoint
from experiments.pictures.prediction_curves import prediction_drawing
from simulator.uncertainty.interval import Interval

SIZES = np.array([1024.0, 2048.0])


@pytest.mark.parametrize("sure", [True, False])
def test_a_band_where_the_profile_has_intervals(sure: bool) -> None:
    series = FitCurve("a.csv", "all_reduce", ("ring",), 8, 2, SIZES, SIZES * 1e-9)
    interval = Interval(1e-6, 5e-7, 2e-6) if sure else None
    rows = [PredictedPoint(size, 1e-6, 1e-6, "ring", "LL", interval) for size in SIZES.tolist()]
    figure = prediction_drawing("mine", [(series, rows)])
    assert len(figure.axes[0].collections) == sure
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert ("bands: intervals of a run" in labels) is sure
