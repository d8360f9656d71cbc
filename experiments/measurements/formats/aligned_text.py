"""Tokens of a line of a table, and the columns that they stand in."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_TOKEN = re.compile(r"\S+")

Span = tuple[int, int]
"""Where a token begins and ends in its line."""


def spans(text: str) -> list[Span]:
    """Where each run of non-blank characters begins and ends."""
    return [match.span() for match in _TOKEN.finditer(text)]


@dataclass(frozen=True)
class TableHeader:
    """The header of a table."""

    line: int
    """Its line in the file."""
    columns: tuple[str, ...]
    """The names of the columns."""
    ends: tuple[int, ...]
    """Where columns of values end in the text."""
    prefix: re.Pattern[str]
    """What a launcher puts before each line."""

    def strip(self, line: str) -> str:
        """`line` without the launcher's prefix that the header had too."""
        match = self.prefix.match(line)
        return line[match.end() :] if match else line


def aligned(tokens: Sequence[Span], ends: Sequence[int]) -> bool:
    """Whether tokens end where their columns end.

    A number too wide for its column (a large #wrong) moves the rest of its row to the right. Two
    blanks separate columns, so a token that is too wide begins right after them.
    """
    shift = previous_end = 0
    for (start, end), column_end in zip(tokens, ends, strict=True):
        excess = end - (column_end + shift)
        if excess < 0 or (excess > 0 and start - previous_end > 2):
            return False
        shift, previous_end = shift + excess, end
    return True


def prefix_pattern(prefix: str) -> re.Pattern[str]:
    """A pattern for a launcher's prefix, in which digits may differ: those of time stamps do."""
    parts = re.split(r"([0-9]+)", prefix)
    varied = "".join("[0-9]+" if part.isdigit() else re.escape(part) for part in parts)
    if prefix[-1:].isdigit():  # or the digits that begin a row would go with it
        varied = varied.removesuffix("+") + f"{{{len(parts[-2])}}}"
    return re.compile(varied)
