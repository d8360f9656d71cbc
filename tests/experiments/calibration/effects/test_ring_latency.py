"""Latency in rings is a parameter where curves were forced to be rings."""

import numpy as np
import pytest

from experiments.calibration.libraries import MPI
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitPoints
from made_up_curves import curve


def test_a_rendezvous_in_a_ring_has_an_alpha_of_its_own() -> None:
    model = Model(
        FitPoints([curve("all_reduce", ("ring",)), curve("all_reduce", ("halving_doubling",))]), MPI
    )
    ringed = model.start.copy()
    ringed[model.index["rendezvous α in rings"]] = np.log(3.0)
    for inner in (model.start, ringed):
        model.explore(inner)
    before, after = model.predict(model.start), model.predict(ringed)
    ring = model.points.curve == 0
    assert after[~ring] == pytest.approx(before[~ring])
    assert (after[ring] > 1.05 * before[ring]).any()
    factors = model.profile(ringed, "x", "nodes:per_node=4").protocols[-1].factors
    assert factors["ring_all_gather"] == pytest.approx({"node": 3.0, "network": 3.0})


def test_what_only_rings_know_is_no_parameter_where_the_library_chose() -> None:
    """It would be fitted so that rings are never chosen."""
    free = Model(FitPoints([curve("all_reduce", ("ring", "halving_doubling"))]), MPI)
    with_ring = Model(FitPoints([*free.points.curves, curve("all_reduce", ("ring",))]), MPI)
    assert "rendezvous α in rings" in with_ring.index
    assert "rendezvous α in rings" not in free.index


def test_neighbour_exchange_waits_for_two_peers_as_a_ring_does() -> None:
    model = Model(FitPoints([curve("all_gather", ("neighbor_exchange",))]), MPI)
    ringed = model.start.copy()
    ringed[model.index["rendezvous α in rings"]] = np.log(3.0)
    factors = model.profile(ringed).protocols[-1].factors
    assert factors["neighbor_exchange"] == pytest.approx({"node": 3.0, "network": 3.0})
