"""Checks that size, time and bandwidth of a row agree: damage to one of them shows."""

import math
from collections.abc import Sequence

from experiments.measurements.formats.nccl_tests.printed_table import PrintedCell, PrintedRow

_ELEMENT = {"char": 1, "half": 2, "bfloat16": 2, "int": 4, "float": 4, "double": 8}
_SLACK = 1e-6
Interval = tuple[float, float]


def interval(printed: str) -> Interval:
    """The values that print as `printed`.

    >>> interval("337.7")
    (337.65, 337.75)
    """
    mantissa, _, exponent = printed.partition("e")
    decimals = len(mantissa.partition(".")[2])
    half = 0.5 * 10.0 ** (int(exponent or 0) - decimals)
    return float(printed) - half, float(printed) + half


def finite(cell: PrintedCell) -> bool:
    """Whether all numbers of the cell are finite: after a time of 0 a benchmark prints inf or
    nan."""
    return all(text == "N/A" or math.isfinite(float(text)) for text in vars(cell).values())


def measured(cell: PrintedCell) -> bool:
    """Whether a time above zero stands in the cell."""
    return cell.time != "N/A" and float(cell.time) > 0


def agrees(size: int, cell: PrintedCell, per_second: float, factor: float = 1.0) -> bool:
    """Whether `factor` x size / time is the algbw (GB/s) that is printed, within the rounding of
    both."""
    if not finite(cell):
        return False
    if not measured(cell) or cell.algbw == "N/A":
        return True
    (low, high), (slow, fast) = interval(cell.algbw), _rate(size, cell, per_second)
    return slow * factor * (1 - _SLACK) <= high and low <= fast * factor * (1 + _SLACK)


def row_agrees(row: PrintedRow, per_second: float, factor: float = 1.0) -> bool:
    """Whether every measurement of the row agrees with its own algbw."""
    return all(agrees(row.size, cell, per_second, factor) for cell in row.cells)


def copies(row: PrintedRow) -> float | None:
    """Size in bytes over count x element size: 1, or the ranks; None if the type has no size."""
    element = _element(row.kind)
    return row.size / (row.count * element) if row.count and element else None


def bus_ratio(rows: Sequence[PrintedRow], per_second: float) -> Interval | None:
    """The interval of busbw / (size / time), by the row with most digits; None if it is too
    wide."""
    cells = [
        (float(cell.busbw), row.size, cell)
        for row in rows
        for cell in row.cells
        if _has_busbw(cell)
    ]
    if not cells:
        return None
    _, size, cell = max(cells, key=lambda entry: entry[0])
    (low, high), (slow, fast) = interval(cell.busbw), _rate(size, cell, per_second)
    ratio = low / fast * (1 - _SLACK), high / slow * (1 + _SLACK)
    return ratio if ratio[1] < 1.1 * ratio[0] else None


def _has_busbw(cell: PrintedCell) -> bool:
    return measured(cell) and cell.busbw != "N/A" and float(cell.busbw) > 0


def _rate(size: int, cell: PrintedCell, per_second: float) -> Interval:
    low, high = interval(cell.time)
    scale = size * per_second / 1e9
    return scale / high, scale / low if low > 0 else float("inf")


def _element(kind: str) -> int | None:
    if kind in _ELEMENT:
        return _ELEMENT[kind]
    if kind.startswith(("fp8", "f8", "float8")):
        return 1
    bits = kind.lstrip("abcdefghijklmnopqrstuvwxyz")
    return int(bits) // 8 if bits in ("8", "16", "32", "64") else None
