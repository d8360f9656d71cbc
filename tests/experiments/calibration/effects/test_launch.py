"""A launch precedes every collective."""

import numpy as np
import pytest

from experiments.calibration.libraries import MPI
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitPoints
from made_up_curves import curve


def test_a_launch_delays_every_algorithm_alike() -> None:
    """A call that takes two microseconds longer makes every size two microseconds longer."""
    model = Model(
        FitPoints([curve("all_reduce", ("ring",)), curve("all_to_all", ("pairwise",))]), MPI
    )
    later = model.start.copy()
    later[model.index["launch"]] = np.log(3e-6)
    model.explore(model.start)
    assert model.predict(later) - model.predict(model.start) == pytest.approx(2e-6)
    assert model.profile(later).launch == pytest.approx(3e-6)
