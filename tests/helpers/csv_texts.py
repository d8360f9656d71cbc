"""CSV files of measured curves, written for a test, and tables as commands write them."""

import csv
import io
from pathlib import Path

from experiments.measurements import Point

PLAIN = "size_bytes,time_us\n8,20.5\n1024,30\n"
POINTS = (Point(8, 20.5 / 1e6), Point(1024, 30 / 1e6))


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def rows_of(text: str) -> list[dict[str, str]]:
    """The rows of a CSV, by the names of its columns."""
    return list(csv.DictReader(io.StringIO(text)))
