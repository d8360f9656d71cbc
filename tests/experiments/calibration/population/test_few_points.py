"""Few points of a machine make a population's prediction better."""

import numpy as np

from experiments.calibration.observations import evenly
from experiments.calibration.population.few_points import (
    from_population,
    predicted,
    sharpened,
)
from experiments.calibration.population.machine_runs import Runs
from experiments.calibration.population.population import Population, fit_population
from tests.experiments.calibration.population.conftest import runs_of


def test_four_points_say_how_machines_differ(machines: list[Runs]) -> None:
    """Machines far from the others."""
    population = fit_population(machines[:3], apart=0.0)
    before, after = np.mean([_errors(number, population) for number in range(7, 11)], axis=0)
    assert after < 0.8 * before


def _errors(number: int, population: Population) -> list[float]:
    """Median errors on a machine's other points, without four points and with them."""
    unusual = runs_of(number, spread=0.5)
    keep = evenly(unusual.model.points, 4)
    measured = unusual.model.points.seconds
    times = predicted(unusual, population), sharpened(unusual, population, keep)
    return [float(np.median(np.abs(np.log(each / measured))[~keep])) for each in times]


def test_a_fit_starts_from_the_population(machines: list[Runs]) -> None:
    population = fit_population(machines[:2])
    model = from_population(machines[2], population)
    values = dict(zip((one.name for one in model.parameters), model.start, strict=True))
    assert values["launch"] == population.members["launch"].mean
    assert values["Simple network 1/β"] < population.members["Simple network 1/β"].mean
