"""Sends have channels of their own, and mean the same to a fit and a profile."""

import numpy as np
import pytest

from experiments.calibration.known_paths import as_nodes
from experiments.calibration.libraries import MPI, NCCL
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitPoints
from experiments.calibration.prediction import predict
from made_up_curves import curve

MIXED = (
    ("all_reduce", "ring", 8, 2),
    ("all_reduce", "ring", 6, 3),
    ("all_reduce", "double_tree", 8, 1),
    ("all_to_all", "pairwise", 8, 2),
    ("all_to_all", "pairwise", 4, 4),
    ("send_recv", "shift", 8, 2),
    ("send_recv", "shift", 4, 1),
)


def test_sends_and_shared_ports_are_simulated_as_they_are_predicted() -> None:
    model = Model(
        FitPoints([curve(what, (name,), ranks, count) for what, name, ranks, count in MIXED]), NCCL
    )
    inner = model.start + np.random.default_rng(3).uniform(-0.5, 0.5, len(model.start))
    names = {
        "launch of sends",
        "α of sends",
        "node 1/β of sends",
        "network 1/β of sends",
        "network 1/β of all-to-all",
        "network 1/β by ranks a node",
    }
    assert names <= model.index.keys()
    model.explore(inner)
    assert model.explore(inner) < 1e-9
    predicted, profile = model.predict(inner), model.profile(inner, "made up", "nodes")
    for k, series in enumerate(model.points.curves):
        rows = predict(profile, NCCL, series, as_nodes(series.ranks, series.per_node))
        assert [row.seconds for row in rows] == pytest.approx(
            predicted[model.points.curve == k], rel=1e-9
        )


def test_what_sends_have_of_their_own_is_fitted_beside_something_else() -> None:
    alone = Model(
        FitPoints([curve("send_recv", ("shift",)), curve("all_to_all", ("pairwise",))]), NCCL
    )
    assert not any("sends" in name for name in alone.index)
    for library in (NCCL, MPI):
        model_of_both = Model(
            FitPoints([curve("send_recv", ("shift",)), curve("all_reduce", ("ring",))]), library
        )
        assert ("α of sends" in model_of_both.index) == (library is NCCL)


def test_an_all_to_all_that_no_curve_shows_has_the_bandwidth_of_other_collectives() -> None:
    """A message to one peer has few channels: its 1/β says nothing of an all-to-all's."""
    model = Model(FitPoints([curve("send_recv", ("shift",)), curve("all_reduce", ("ring",))]), NCCL)
    assert "network 1/β of all-to-all" not in model.index
    inner = model.start.copy()
    inner[model.index["network 1/β of sends"]] = 1.0
    inner[model.index["launch of sends"]] = 0.5
    profile = model.profile(inner)
    assert profile.slower.keys() == {"shift"}
    assert profile.launches["pairwise"] == profile.launches["shift"] > profile.launch
