"""The lines of a CSV, one at a time: a copy of a large text would take much memory."""

import re
from collections.abc import Iterator
from pathlib import Path

from topologies.errors import InputError

MOST_LINES = 100_000
"""The most lines of a CSV. To read so many takes about two seconds."""
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def lines(text: str, path: Path) -> Iterator[str]:
    """The lines in the text of the CSV at `path`, with their ends. Raises InputError if there are
    too many."""
    count = text.count("\n") or text.count("\r")
    count += not text.endswith(("\n", "\r"))
    if count > MOST_LINES:
        raise InputError(
            f"{path} has {count} lines: expected at most {MOST_LINES}, split it by collective"
        )
    return (line[0] for line in _LINE.finditer(text))
