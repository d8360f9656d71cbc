"""Measured collectives: logs, JSON and CSV files, all as curves."""

from experiments.measurements.collectives import COLLECTIVES, UNKNOWN
from experiments.measurements.curve import Curve, Failure, Measurements, Point
from experiments.measurements.doubts import doubts
from experiments.measurements.folders import read_all
from experiments.measurements.formats.runs_csv.csv_writer import write_runs
from experiments.measurements.reading import read

__all__ = [
    "COLLECTIVES",
    "UNKNOWN",
    "Curve",
    "Failure",
    "Measurements",
    "Point",
    "doubts",
    "read",
    "read_all",
    "write_runs",
]
