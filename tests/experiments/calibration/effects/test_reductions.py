"""Collectives that reduce have a launch of their own."""

import numpy as np
import pytest

from experiments.calibration.libraries import MPI
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitPoints
from made_up_curves import curve


def test_a_longer_launch_of_reductions_is_the_same_at_every_size() -> None:
    curves = [curve("all_reduce", ("ring",)), curve("broadcast", ("tree_broadcast",))]
    model = Model(FitPoints(curves), MPI)
    longer = model.start.copy()
    longer[model.index["launch of reductions"]] = np.log(30.0)
    model.explore(model.start)
    more = model.predict(longer) - model.predict(model.start)
    expected = np.where(model.points.curve == 0, 29e-6, 0.0)
    assert more == pytest.approx(expected, rel=1e-6, abs=1e-12)
    launches = model.profile(longer, "x", "nodes:per_node=4").launches
    assert {"ring", "recursive_halving_reduce_scatter", "tree_reduce"} <= launches.keys()
    assert "tree_broadcast" not in launches


@pytest.mark.parametrize("collective", ["all_reduce", "broadcast"])
def test_one_kind_of_collective_shows_no_difference(collective: str) -> None:
    name = {"all_reduce": "ring", "broadcast": "tree_broadcast"}[collective]
    assert "launch of reductions" not in Model(FitPoints([curve(collective, (name,))]), MPI).index
