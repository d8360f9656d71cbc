"""Tables as commands print and write them."""

import csv
import io


def rows_of(text: str) -> list[dict[str, str]]:
    """The rows of a CSV, by the names of its columns."""
    return list(csv.DictReader(io.StringIO(text)))
