"""Tables in CSV files: those that are shipped beside modules, and others of the same form."""

from __future__ import annotations

import csv
from pathlib import Path


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a table with a heading."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
