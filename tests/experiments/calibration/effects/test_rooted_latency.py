"""Collectives with a root have an α of their own."""

import numpy as np
import pytest

from experiments.calibration.libraries import MPI, NCCL
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitCurve, FitPoints
from made_up_curves import curve

BOTH = [curve("all_reduce", ("ring",)), curve("broadcast", ("tree_broadcast",))]


def test_a_shorter_alpha_of_roots_shortens_only_collectives_with_a_root() -> None:
    model = Model(FitPoints(BOTH), MPI)
    shorter = model.start.copy()
    shorter[model.index["α of roots"]] = np.log(0.5)
    for inner in (model.start, shorter):
        model.explore(inner)
    before, after = model.predict(model.start), model.predict(shorter)
    rooted = model.points.curve == 1
    assert after[~rooted] == pytest.approx(before[~rooted])
    assert after[rooted][0] < 0.8 * before[rooted][0]
    for protocol in model.profile(shorter, "x", "nodes:per_node=4").protocols:
        assert protocol.factors["tree_reduce"] == pytest.approx({"node": 0.5, "network": 0.5})
        assert protocol.factor("ring_all_gather", "node") == 1.0


@pytest.mark.parametrize("curves", [BOTH[:1], BOTH[1:]])
def test_one_kind_of_collective_shows_no_difference(curves: list[FitCurve]) -> None:
    assert "α of roots" not in Model(FitPoints(curves), MPI).index


def test_nccl_has_no_such_factor() -> None:
    """nccl-tests reports the slowest rank."""
    assert "α of roots" not in Model(FitPoints(BOTH), NCCL).index
