"""Few points of a machine make a population's prediction better."""

import numpy as np

from experiments.calibration.observations import evenly
from experiments.calibration.population.few_points import (
    from_population,
    predicted,
    sharpened,
)
from experiments.calibration.population.machine_runs import Runs
from experiments.calibration.population.population import fit_population
from tests.experiments.calibration.population.conftest import runs_of


def test_four_points_say_how_a_machine_differs(machines: list[Runs]) -> None:
    """A machine far from the others: everything takes longer there."""
    population = fit_population(machines[:3], apart=0.0)
    unusual = runs_of(7, spread=0.5)
    measured = unusual.model.points.seconds
    keep = evenly(unusual.model.points, 4)
    before, after = (
        np.median(np.abs(np.log(seconds / measured))[~keep])
        for seconds in (predicted(unusual, population), sharpened(unusual, population, keep))
    )
    assert after < before


def test_a_fit_starts_from_the_population(machines: list[Runs]) -> None:
    population = fit_population(machines[:2])
    model = from_population(machines[2], population)
    values = dict(zip((one.name for one in model.parameters), model.start, strict=True))
    assert values["launch"] == population.members["launch"].mean
    assert values["Simple network 1/β"] < population.members["Simple network 1/β"].mean
