"""Measurements made up from a known machine."""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest

from experiments.calibration.fit import Fit, explore
from experiments.calibration.libraries import NCCL
from experiments.calibration.library import Library
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitCurve, FitPoints

SIZES = np.geomspace(4.0**4, 4.0**14, 11)
Made = Callable[..., tuple[Model, np.ndarray]]


def curves(ranks: Sequence[int], names: Sequence[str], sizes: np.ndarray = SIZES) -> list[FitCurve]:
    """All-reduces on nodes of four ranks, not yet measured."""
    return [
        FitCurve(f"{name} {p}", "all_reduce", (name,), p, -(-p // 4), sizes, np.ones(len(sizes)))
        for name in names
        for p in ranks
    ]


def make(
    ranks: Sequence[int] = (8, 16),
    names: Sequence[str] = ("ring", "double_tree"),
    library: Library = NCCL,
    *,
    noise: float = 0.0,
    spread: float = 0.2,
) -> tuple[Model, np.ndarray]:
    """A model whose points were measured on a machine a little off the priors, and that machine's
    parameters."""
    random = np.random.default_rng(3)
    blank = Model(FitPoints(curves(ranks, names)), library)
    truth = blank.start + random.uniform(-spread, spread, len(blank.start))
    for _ in range(2):
        blank.explore(truth)
    seconds = blank.predict(truth) * np.exp(noise * random.normal(size=len(blank.points)))
    measured = [
        FitCurve(**(vars(curve) | {"seconds": seconds[blank.points.curve == k]}))
        for k, curve in enumerate(blank.points.curves)
    ]
    return Model(FitPoints(measured), library), truth


@pytest.fixture(scope="session")
def made() -> Made:
    """Measurements of rank counts and algorithms."""
    return cache(make)


@pytest.fixture(scope="session")
def exact() -> tuple[Model, np.ndarray]:
    """Without noise."""
    return make()


@pytest.fixture(scope="session")
def exact_fit(exact: tuple[Model, np.ndarray]) -> Fit:
    """The fit to measurements without noise."""
    return explore(exact[0])
