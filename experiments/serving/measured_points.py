"""Operating points that a user measured, and how far they are from what is predicted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, hypot
from pathlib import Path

import numpy as np

from experiments.serving.deployment import Deployment
from experiments.serving.operating_point import TIMES, Factor, Load, Point, spread_of
from topologies.errors import InputError, naming
from topologies.readers.contents import csv_rows

COLUMNS = "isl", "osl", "concurrency", "ttft_ms", "tpot_ms"
FARTHEST = 10.0
"""Points that are farther from what is predicted than this factor are no points of a deployment."""
NOISE = 0.05
"""The standard deviation of a measured point about what a deployment usually takes, in the
logarithm. Published points that were measured again differ by 3% in the median."""


MeasuredPoint = tuple[Load, tuple[float, float]]
"""A load, and the seconds of :data:`TIMES`."""


def read_points(path: Path) -> list[MeasuredPoint]:
    """The points of a CSV file. Raises InputError with the line of what is no point."""
    return [_point(*row) for row in csv_rows(path, COLUMNS, "point").items()]


def _point(where: str, cells: Sequence[str]) -> MeasuredPoint:
    try:
        isl, osl, concurrency, ttft, tpot = map(float, cells)
    except ValueError:
        raise InputError(f"{where}: expected five numbers") from None
    if not all(0 < value < 1e9 for value in (isl, osl, concurrency, ttft, tpot)):
        raise InputError(f"{where}: expected numbers above 0")
    if osl < 2:
        raise InputError(f"{where}: expected an osl of 2 or more")
    return Load(isl, osl, concurrency), (tpot / 1e3, ttft / 1e3)


def factors(
    deployment: Deployment,
    predict: Callable[[Load], Point],
    points: Sequence[MeasuredPoint],
    *,
    queued: bool = False,
) -> tuple[Factor, Factor]:
    """Those of TPOT and TTFT: the mean of the points, near 1 as far as engines usually are (a
    normal prior with the spread that points of other models have beyond their noise). First
    tokens may be `queued` behind workers that prefill.

    Raises InputError with the first point that cannot be one of the deployment.
    """
    ratios = [_ratios(predict, number, *each) for number, each in enumerate(points, 1)]
    pair = []
    for name, of_points in zip(TIMES, zip(*ratios, strict=True), strict=True):
        logs = np.log(of_points)
        noise = max(NOISE, float(logs.std()))
        beyond = spread_of(deployment, name, queued=queued) ** 2 - NOISE**2
        prior, sure = 1 / beyond, len(logs) * noise**-2
        mean = float(logs.mean()) * sure / (sure + prior)
        pair.append(Factor(exp(mean), hypot((sure + prior) ** -0.5, noise)))
    return pair[0], pair[1]


def _ratios(
    predict: Callable[[Load], Point], number: int, load: Load, seconds: tuple[float, float]
) -> list[float]:
    """Measured over predicted TPOT and TTFT."""
    where, ratios = f"measured point {number}", list[float]()
    with naming(where):
        predicted = predict(load)
    if predicted.sequences < load.concurrency:
        raise InputError(
            f"{where}: {load.concurrency:g} sequences at once, but {predicted.fits:g} fit"
        )
    for name, measured in zip(TIMES, seconds, strict=True):
        ratios.append(measured / getattr(predicted, name).expected)
        if not 1 / FARTHEST < ratios[-1] < FARTHEST:
            raise InputError(
                f"{where}: its {name.upper()} is {ratios[-1]:.3g} times what simctl predicts: "
                f"expected {1 / FARTHEST:g} to {FARTHEST:g} times"
            )
    return ratios
