"""Long exchanges between nodes take longer."""

import numpy as np
import pytest

from experiments.calibration.libraries import MPI, NCCL
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitPoints
from made_up_curves import curve


def test_long_exchanges_are_a_parameter_where_there_are_any() -> None:
    """Ranks in one node exchange through memory; NCCL's rings and trees exchange nothing."""
    for library, name, count, known in (
        (MPI, "halving_doubling", 2, True),
        (MPI, "halving_doubling", 1, False),
        (MPI, "ring", 2, False),
        (NCCL, "halving_doubling", 2, False),
    ):
        model = Model(FitPoints([curve("all_reduce", (name,), 8, count)]), library)
        assert ("long exchanges" in model.index) == known
    chosen = Model(FitPoints([curve("all_reduce", ("ring", "halving_doubling"))]), MPI)
    assert "long exchanges" not in chosen.index
    model = Model(FitPoints([curve("all_reduce", ("halving_doubling",), 8, 2)]), MPI)
    model.explore(model.start)
    free = model.start.copy()
    free[model.index["long exchanges"]] = -200.0
    between = 2 * np.maximum(
        0.0, model.points.size / 2 - model.profile(model.start).exchanges.beyond
    )
    assert model.predict(model.start) - model.predict(free) == pytest.approx(between / 40e9)
