"""Readers for measured collectives, all into the same points and curves: logs, JSON and CSV
files."""

from experiments.measurements.curve import (
    COLLECTIVES,
    UNKNOWN,
    Curve,
    Failure,
    Measurements,
    Point,
)
from experiments.measurements.doubts import doubts
from experiments.measurements.folders import read_all
from experiments.measurements.formats.runs_csv.csv_writer import write_runs
from experiments.measurements.frame import frame
from experiments.measurements.reading import read

__all__ = [
    "COLLECTIVES",
    "UNKNOWN",
    "Curve",
    "Failure",
    "Measurements",
    "Point",
    "doubts",
    "frame",
    "read",
    "read_all",
    "write_runs",
]
