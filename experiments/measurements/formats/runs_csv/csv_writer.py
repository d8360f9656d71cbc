"""Writes curves as the CSV that `csv_reader` reads."""

import csv
import io
from collections.abc import Iterable, Iterator

from experiments.measurements.curve import Curve, Point
from experiments.measurements.formats.runs_csv.csv_cells import CURVE, PROVENANCE, STATISTICS

COLUMNS = (*CURVE, "size_bytes", "in_place", "time_us", *STATISTICS, *PROVENANCE)
"""The header, in the order that is written."""


def write_runs(curves: Iterable[Curve]) -> str:
    """A CSV with a row a measured point: sizes in bytes, times in microseconds, empty where nothing
    is known.

    Notes, family and machine are not written: an index.csv has them.
    """
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for curve in curves:
        writer.writerows(_rows(curve))
    return file.getvalue()


def _rows(curve: Curve) -> Iterator[dict[str, object]]:
    about = {name: getattr(curve, name) for name in (*CURVE, *PROVENANCE)}
    for in_place, points in ((0, curve.points), (1, curve.in_place)):
        for point in points:
            yield about | {"in_place": in_place} | _cells(point)


def _cells(point: Point) -> dict[str, object]:
    times = {
        "time_us": point.time_s,
        "min_us": point.min_s,
        "p90_us": point.p90_s,
        "mean_us": point.mean_s,
    }
    cells: dict[str, object] = {
        name: None if time is None else time * 1e6 for name, time in times.items()
    }
    return cells | {
        "size_bytes": point.size,
        "cv": point.cv,
        "repetitions": point.repetitions,
        "wrong": point.wrong,
    }
