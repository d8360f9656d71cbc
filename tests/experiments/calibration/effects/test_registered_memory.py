"""Memory that is registered again costs more in larger jobs."""

import pytest

from experiments.calibration.libraries import MPI
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitPoints
from made_up_curves import curve


def test_what_is_registered_again_grows_with_the_ranks() -> None:
    """V p / 2 bytes of a ring's reduce-scatter of fresh memory, and nothing else."""
    model = Model(
        FitPoints([curve("reduce_scatter", ("ring_reduce_scatter",), p, p // 4) for p in (8, 16)]),
        MPI,
    )
    model.explore(model.start)
    free = model.start.copy()
    free[model.index["memory registered again"]] = -200.0
    worth = (model.predict(model.start) - model.predict(free)) / model.points.size
    fresh = model.points.size >= model.profile(model.start).memory.mapped
    assert worth[fresh] == pytest.approx(model.points.ranks[fresh] / 2 / 40e9)
    assert worth[~fresh] == pytest.approx(0.0, abs=1e-18)
