"""CSV files of measured curves, written for a test."""

from pathlib import Path

from experiments.measurements import Point

PLAIN = "size_bytes,time_us\n8,20.5\n1024,30\n"
POINTS = (Point(8, 20.5 / 1e6), Point(1024, 30 / 1e6))


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path
