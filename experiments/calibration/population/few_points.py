"""Fits of few points that start from a population."""

from __future__ import annotations

from experiments.calibration.fit import fit
from experiments.calibration.library_model import Model
from experiments.calibration.observations import Flags
from experiments.calibration.population.machine_runs import Runs
from experiments.calibration.population.population import Population
from topologies.topology import Floats


def predicted(runs: Runs, population: Population) -> Floats:
    """Seconds of all points by the machine's specification, shape (points,)."""
    inner = population.inner(runs)
    explored(runs.model, inner)
    return runs.model.predict(inner)


def sharpened(runs: Runs, population: Population, keep: Flags) -> Floats:
    """Seconds of all points after a fit of those that `keep` chooses, shape (points,)."""
    model = from_population(runs, population)
    explored(model, model.start)
    inner = fit(model, keep).inner
    explored(model, inner)
    return fit(model, keep, inner).predicted


def from_population(runs: Runs, population: Population) -> Model:
    """The model of some runs, whose fit starts from a population.

    Starts have the library's own weights. Weights by the spreads of the population made errors on
    most of the tuned machines larger: machines of other transports make these spreads wide.
    """
    return runs.model.starting(population.inner(runs), runs.model.weight)


def explored(model: Model, inner: Floats) -> None:
    """Keep the paths of simulations at some parameters. The second time has those that the first
    one uncovers."""
    for _ in range(2):
        model.explore(inner)
