"""Measured collectives: logs, JSON and CSV files, all as curves."""

from experiments.measurements.collectives import COLLECTIVES, UNKNOWN
from experiments.measurements.curve import Curve, Failure, Measurements, Point
from experiments.measurements.curve_checks import doubts
from experiments.measurements.formats.runs_csv import write_runs
from experiments.measurements.reading import read, read_all

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
