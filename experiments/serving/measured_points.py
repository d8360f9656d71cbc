"""Operating points that a user measured, and how far they are from what is predicted."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from math import exp, hypot, isfinite, log
from pathlib import Path
from typing import NamedTuple

from experiments.serving.deployment import Deployment
from experiments.serving.operating_point import Factor, Load, overheads, point
from topologies.errors import InputError
from topologies.readers.contents import text_of
from topologies.topology import Topology

COLUMNS = "isl", "osl", "concurrency", "ttft_ms", "tpot_ms"
MOST_BYTES = 2**20
NOISE = 0.1
"""The standard deviation of a measured point about what a deployment usually takes, in the
logarithm: the same point on another day."""


class MeasuredPoint(NamedTuple):
    """A point, with times in seconds."""

    load: Load
    ttft: float
    tpot: float


def read_points(path: Path) -> list[MeasuredPoint]:
    """The points of a CSV file. Raises InputError with the line of what is no point."""
    text = text_of(path, MOST_BYTES, "a CSV of points", "take fewer points")
    try:
        rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV: {error}") from None
    if not rows or not {*COLUMNS} <= rows[0].keys():
        raise InputError(f"{path}: expected rows under the columns {', '.join(COLUMNS)}")
    points = []
    for number, row in enumerate(rows, 2):
        try:
            isl, osl, concurrency, ttft, tpot = (float(row[name]) for name in COLUMNS)
        except (TypeError, ValueError):
            raise InputError(f"{path} line {number}: expected five numbers") from None
        values = isl, osl, concurrency, ttft, tpot
        if not all(isfinite(value) and 0 < value < 1e9 for value in values):
            raise InputError(f"{path} line {number}: expected numbers above 0")
        points.append(MeasuredPoint(Load(isl, osl, concurrency), ttft / 1e3, tpot / 1e3))
    return points


def factors(
    deployment: Deployment, machine: Topology, points: Sequence[MeasuredPoint]
) -> tuple[Factor, Factor]:
    """Those of TPOT and TTFT: the mean of the points, near 1 as far as engines usually are (a
    normal prior with the spread that points of other models have)."""
    found = [point(deployment, machine, each.load) for each in points]

    def factor(name: str) -> Factor:
        prior, sure = overheads(deployment.engine)[f"spread_{name}"] ** -2, NOISE**-2
        pairs = zip(points, found, strict=True)
        off = [log(getattr(each, name) / getattr(one, name).expected) for each, one in pairs]
        all_of_it = len(off) * sure + prior
        return Factor(exp(sum(off) * sure / all_of_it), hypot(all_of_it**-0.5, NOISE))

    return factor("tpot"), factor("ttft")
