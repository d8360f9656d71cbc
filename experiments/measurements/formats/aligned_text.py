"""Tokens of a line of a table, and the columns that they stand in."""

import re
from collections.abc import Sequence

_TOKEN = re.compile(r"\S+")

Span = tuple[int, int]
"""Where a token begins and ends in its line."""


def spans(text: str) -> list[Span]:
    """Where each run of non-blank characters begins and ends."""
    return [match.span() for match in _TOKEN.finditer(text)]


def aligned(tokens: Sequence[Span], ends: Sequence[int]) -> bool:
    """Whether tokens end where their columns end.

    A number too wide for its column (a large #wrong) pushes the rest of its row to the right; it
    then stands right after the two blanks that separate columns, and only such a token may.
    """
    shift = previous = 0
    for (start, end), column in zip(tokens, ends, strict=True):
        drift = end - column - shift
        if drift < 0 or (drift > 0 and start - previous > 2):
            return False
        shift, previous = shift + drift, end
    return True


def prefix_pattern(prefix: str) -> re.Pattern[str]:
    """Digits vary from line to line (time stamps), the rest of a launcher's prefix does not."""
    parts = re.split(r"([0-9]+)", prefix)
    varied = "".join("[0-9]+" if part.isdigit() else re.escape(part) for part in parts)
    if prefix[-1:].isdigit():  # or the digits that begin a row would go with it
        varied = varied.removesuffix("+") + f"{{{len(parts[-2])}}}"
    return re.compile(varied)
