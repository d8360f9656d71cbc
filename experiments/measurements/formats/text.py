"""Reads the text of a file, and its lines."""

import re
from collections.abc import Iterator
from pathlib import Path

from experiments.measurements.formats.mpirun_tags import streams
from topologies.errors import InputError
from topologies.readers.contents import contents

LIMIT = 64 * 2**20
_DEBUGGING = re.compile(
    rb"^(?:\S{1,64} )?\S{1,300}:\d+:\d+ \[\d+\] NCCL (?:INFO|TRACE) "
    rb"(?![^\n]*(?:CCL_|FI_|UCX_|OMPI_|MPI|nranks \d|ersion|Using|rovider|cxi|Slingshot|_perf|busbw"
    rb"|-place|Rank|Pid|Out of|Avg|OSU|ailure|signal|fault|Killed|killed|CANCEL|Exited|TERMINATION"
    rb"|\d +\d+ +[a-z]|#|[ \t][\d.]+[ \t\r]*$))[^\n]*",
    re.MULTILINE,
)
"""A line of NCCL, alone on its line, that says nothing that is read here."""
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def load(path: Path) -> str:
    """The text of the file at `path`. Of a file larger than 64 MiB, without most lines that NCCL
    prints for debugging: they are empty.

    Raises InputError if the file does not exist or cannot be read, or is a directory or a pipe
    without a writer. It also refuses a file that is empty, binary (a NUL byte, or not UTF-8) or
    larger than 64 MiB even so.
    """
    data = contents(path, LIMIT, lambda lines: _DEBUGGING.sub(b"", lines))
    if len(data) > LIMIT:
        raise InputError(
            f"{path} is larger than 64 MiB without NCCL's INFO lines: expected one log or one "
            f"table, cut it to the tests that you need"
        )
    if not data or data.isspace():
        raise InputError(
            f"{path} is empty: expected an nccl-tests log or a CSV with size_bytes and time_us"
        )
    if (at := data.find(b"\0")) >= 0:
        raise InputError(
            f"{path} line {_line(data, at)}: a NUL byte, so binary (or UTF-16): expected UTF-8 text"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} line {_line(data, error.start)}: not UTF-8: expected text"
        ) from None


def numbered(text: str) -> Iterator[tuple[int, str]]:
    """The lines of `text` with their numbers, free of colour codes and carriage returns.

    A carriage return inside a line starts a new line of the same number, as it does on a terminal.
    So does the tag of another rank; a second tag of the same rank is left out
    (:func:`experiments.measurements.formats.mpirun_tags.streams`).

    >>> list(numbered("one\\r\\n\\x1b[1mtwo\\x1b[0m\\rthree"))
    [(1, 'one'), (2, 'two'), (2, 'three')]
    """
    for number, line in enumerate(text.split("\n"), 1):
        for part in line.rstrip("\r").split("\r"):
            plain = _COLOUR.sub("", part) if "\x1b" in part else part
            for stream in (plain,) if too_long(plain) else streams(plain):
                yield number, stream


def too_long(line: str) -> bool:
    """Whether a line is too long (over 64 Ki characters) to be anything that a benchmark prints."""
    return len(line) > 2**16


def _line(data: bytes, position: int) -> int:
    return data.count(b"\n", 0, position) + 1
