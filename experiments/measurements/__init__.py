"""Readers for measured collectives, all into the same points and curves: logs, JSON and CSV
files."""

from experiments.measurements.doubts import doubts
from experiments.measurements.folders import read_all
from experiments.measurements.frame import frame
from experiments.measurements.measurement import (
    COLLECTIVES,
    UNKNOWN,
    Curve,
    Failure,
    Measurements,
    Point,
)
from experiments.measurements.reading import read
from experiments.measurements.writing import write_runs

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
