"""Machines made up from a known population."""

from collections.abc import Sequence

import numpy as np
import pytest

from experiments.calibration.libraries import NCCL
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitCurve, FitPoints
from experiments.calibration.population.specification import Specification
from experiments.studies.population_fit import MachineRuns

SIZES = np.geomspace(4.0**4, 4.0**14, 11)
SLOWER = 0.6
"""The logarithm by which a launch and α of LL are longer than in the library's own model."""
CHANGED = ("launch", "LL network α")


def specification(number: int) -> Specification:
    """That of a machine with NICs of its own rate."""
    return Specification(
        f"m{number}", f"m{number}_*", "GPU", "hopper", 4, 200e9, 4, (5 + 5 * number) * 1e9, "IB", ""
    )


def blank(ranks: Sequence[int] = (4, 8, 16)) -> Model:
    """Runs of rings on nodes of four ranks, not yet measured."""
    ones = np.ones(len(SIZES))
    return Model(
        FitPoints(
            FitCurve(f"p{p}", "all_reduce", ("ring",), p, -(-p // 4), SIZES, ones) for p in ranks
        ),
        NCCL,
    )


def runs_of(number: int, spread: float = 0.1) -> MachineRuns:
    """Runs of a machine: links reach the usual share of what is specified, and all else is as in
    the library's own model but for CHANGED."""
    random, runs = np.random.default_rng(number), MachineRuns(blank(), specification(number))
    rest = [one.rest + SLOWER * (one.name in CHANGED) for one in runs.model.parameters]
    truth = runs.offset + rest + spread * random.normal(size=len(rest))
    for _ in range(2):
        runs.model.explore(truth)
    return measured(runs, runs.model.predict(truth))


def measured(runs: MachineRuns, seconds: np.ndarray) -> MachineRuns:
    """The same runs with other times, and the paths that are known."""
    runs.model.points.seconds = seconds
    return runs


@pytest.fixture(scope="session")
def machines() -> list[MachineRuns]:
    """Runs of six machines."""
    return [runs_of(number) for number in range(1, 7)]
