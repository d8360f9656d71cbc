"""Curves to make up times for."""

from typing import Any

import numpy as np
import pytest

from experiments.calibration.known_paths import as_nodes
from experiments.calibration.library import Library
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitCurve, FitPoints
from experiments.calibration.prediction import predict

SIZES = np.geomspace(4.0**4, 4.0**14, 11)
"""Sizes in bytes, from 256 B to 256 MiB."""


def curve(collective: str, names: tuple[str, ...], ranks: int = 8, count: int = 2) -> FitCurve:
    """A curve of one second a size on `count` nodes."""
    return FitCurve("made up", collective, names, ranks, count, SIZES, np.ones(len(SIZES)))


def model_of(library: Library, *curves: FitCurve, **options: Any) -> Model:
    """The model of some curves."""
    return Model(FitPoints(curves), library, **options)


def check_simulated(model: Model, inner: np.ndarray) -> None:
    """The profile of some parameters simulates the seconds that the known paths predict."""
    model.explore(inner)
    assert model.explore(inner) < 1e-9
    predicted, profile = model.predict(inner), model.profile(inner, "made up", "nodes")
    for k, series in enumerate(model.points.curves):
        machine = as_nodes(series.ranks, series.per_node)
        seconds = [row.seconds for row in predict(profile, model.library, series, machine)]
        assert seconds == pytest.approx(predicted[model.points.curve == k], rel=1e-9)
