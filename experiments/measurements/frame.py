"""Measurements as one table, a row a point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from experiments.measurements.curve import Curve, Measurements, Point

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = {
    "collective": "string",
    "algorithm": "string",
    "protocol": "string",
    "ranks": "Int64",
    "nodes": "Int64",
    "gpus_per_node": "Int64",
    "size_B": "int64",
    "in_place": "bool",
    "time_s": "float64",
    "wrong": "Int64",
    "cv": "float64",
    "repetitions": "Int64",
    "min_s": "float64",
    "p90_s": "float64",
    "mean_s": "float64",
    "backend": "string",
    "device": "string",
    "dtype": "string",
    "library": "string",
    "topology": "string",
    "family": "string",
    "machine": "string",
    "kind": "string",
    "network": "string",
    "capped": "bool",
    "curve": "int64",
    "source": "string",
    "notes": "string",
}
"""The columns and their types: `_B` is bytes, `_s` seconds, `cv` a fraction; the rest as in `Curve`
and `Point`."""


def frame(measurements: Iterable[Measurements]) -> pd.DataFrame:
    """One tidy frame of all points, with `COLUMNS`.

    Whole numbers that a file does not tell are <NA>, other numbers NaN, words empty. `curve`
    numbers the curves from 0 on in the order given; `source` and `notes` (joined by "; ") are those
    of the curve.
    """
    import pandas as pd

    curves = [curve for found in measurements for curve in found.curves]
    rows = [row for number, curve in enumerate(curves) for row in _rows(number, curve)]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def _rows(number: int, curve: Curve) -> Iterator[dict[str, object]]:
    own = {
        name: getattr(curve, name)
        for name in COLUMNS
        if name != "in_place" and hasattr(curve, name)
    }
    own |= {"curve": number, "notes": "; ".join(curve.notes)}
    for in_place, points in ((False, curve.points), (True, curve.in_place)):
        for point in points:
            yield own | {"in_place": in_place} | _cells(point)


def _cells(point: Point) -> dict[str, object]:
    cells = vars(point) | {"size_B": point.size}
    del cells["size"]
    return cells
