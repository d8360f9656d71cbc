"""Merging, copying and fresh memory are rates that a profile has too."""

import numpy as np
import pytest

from experiments.calibration.libraries import FUJITSU, MPI
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitPoints
from made_up_curves import SIZES, curve


def test_memory_given_back_is_a_parameter_where_scratch_has_several_blocks() -> None:
    """A binary tree has one block in Open MPI, and three in Fujitsu's library."""
    points = FitPoints([curve("all_reduce", ("binary_tree",))])
    assert "memory given back" not in Model(points, MPI).index
    assert "memory given back" in Model(points, FUJITSU).index


def test_merging_takes_its_rate_for_every_byte() -> None:
    """A ring merges V / p in each of p - 1 steps."""
    model = Model(FitPoints([curve("reduce_scatter", ("ring_reduce_scatter",), 8, 8)]), MPI)
    free = model.start.copy()
    free[[model.index[name] for name in ("γ", "γ beyond cache")]] = -200.0
    for inner in (model.start, free):
        model.explore(inner)
    worth = model.predict(model.start) - model.predict(free)
    merge = model.profile(model.start).memory.merge(SIZES)
    assert worth == pytest.approx(np.asarray(merge) * SIZES * 7 / 8, rel=1e-3)
