"""Corrections of single numbers of nodes mean the same to a fit and a simulation."""

import numpy as np
import pytest

from experiments.calibration.exploration import Exploration
from experiments.calibration.libraries import MPI
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitPoints
from made_up_curves import SIZES, curve


def test_sessions_are_simulated_as_they_are_predicted() -> None:
    model = Model(
        FitPoints([curve("all_reduce", ("ring",), 8, 2), curve("all_reduce", ("ring",), 16, 4)]),
        MPI,
    )
    inner = model.start + np.random.default_rng(2).uniform(-1, 1, len(model.start))
    assert any(" at " in parameter.name for parameter in model.parameters)
    model.explore(inner)
    (place,) = [
        candidate
        for candidate in model.paths.places()
        if candidate.nodes == 4 and candidate.algorithm == "ring"
    ]
    exploration, simulated = Exploration(model.profile(inner), model.paths.jobs, model.kinds), []
    for number in range(len(MPI.protocols)):
        costs = exploration.costs(place, number, SIZES[-1])
        simulated.append(place.paths.simulate(costs, SIZES[-1], number))
    memory = model.profile(inner).memory
    first = model.values(inner)["launch"] + memory.touch(SIZES[-1]) * SIZES[-1]
    assert model.predict(inner)[-1] == pytest.approx(first + min(simulated), rel=1e-9)
