"""Files of sizes: a CSV with what each rank has for each rank, or with one chunk a rank."""

from __future__ import annotations

import math
from pathlib import Path

from simulator.collectives.routers import SizeTable
from topologies.errors import InputError
from topologies.readers.contents import text_of

MOST_BYTES, MOST_RANKS = 2**25, 2048


def read_table(path: Path) -> SizeTable:
    """The numbers of a CSV of bytes: p rows of p, or one row of p. Empty lines and lines that begin
    with # count for nothing.

    Raises InputError with file and line of the first mistake.
    """
    text = text_of(path, MOST_BYTES, "a CSV of numbers", "take fewer ranks")
    return parse_table(text, str(path))


def parse_table(text: str, name: str) -> SizeTable:
    """The same of the text of the file called `name`.

    >>> parse_table("0,6\\n2,0\\n", "m.csv").rows
    ((0.0, 6.0), (2.0, 0.0))
    """
    rows: list[tuple[float, ...]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        where = f"{name} line {number}"
        rows.append(tuple(_number(cell, where) for cell in line.split(",")))
        if len(rows[-1]) != len(rows[0]):
            raise InputError(f"{where}: {len(rows[-1])} numbers, and {len(rows[0])} before")
        if max(len(rows), len(rows[0])) > MOST_RANKS:
            raise InputError(f"{where}: more than {MOST_RANKS} ranks")
    if not rows:
        raise InputError(f"{name} is empty: expected a row of bytes for each rank")
    if len(rows) not in (1, len(rows[0])):
        raise InputError(
            f"{name}: {len(rows)} rows of {len(rows[0])} numbers: expected as many rows as "
            f"columns, or one row"
        )
    if not any(any(row) for row in rows):
        raise InputError(f"{name}: all sizes are 0: expected one above 0")
    return SizeTable(name, tuple(rows))


def _number(cell: str, where: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1e18:
        raise InputError(f"{where}: {cell.strip()[:40]!r} is no number of bytes from 0 to 1e18")
    return value
