"""Readers for measured collectives: nccl-tests logs and CSV files, into the same points and curves."""

from pathlib import Path

from experiments.measurements import curves, nccl_tests
from experiments.measurements.loading import load
from experiments.measurements.measurement import COLLECTIVES, UNKNOWN, Curve, Measurements, Point

__all__ = ["COLLECTIVES", "UNKNOWN", "Curve", "Measurements", "Point", "read"]


def read(path: Path) -> Measurements:
    """The measurements in the file at `path`, a CSV if its first line has its columns, else a log.

    Raises InputError when the file cannot be read, or is neither.
    """
    text = load(path)
    if curves.looks_like_csv(text, path):
        return curves.parse_csv(text, path)
    return nccl_tests.parse_log(text, str(path))
