"""The text of a file, its lines and the columns of its tables."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from topologies.errors import InputError
from topologies.readers.contents import contents, decoded

_STREAM = r"[0-9]{1,9},[0-9]{1,9}\]<std(?:out|err|diag)>:"
_TAG = re.compile(rf"\[{_STREAM}|\[[^\s\[\]@]{{1,255}}@{_STREAM} ?")
_UNTAGGED_PIECE = re.compile(
    r"[ \t]*[0-9]{1,18}[ \t]{1,20}[0-9]{1,18}[ \t]{1,20}[A-Za-z]\w{0,15}[ \t]"
)


def streams(line: str) -> Iterator[str]:
    """What each rank wrote in a line, with its first tag: a line of one piece is yielded as it is.

    >>> list(streams("[1,0]<stdout>:  8  -1[1,0]<stdout>:  85.70[1,3]<stderr>:hello"))
    ['[1,0]<stdout>:  8  -1  85.70', '[1,3]<stderr>:hello']
    """
    tags = list(_TAG.finditer(line)) if "]<std" in line else []
    if not tags or (len(tags) == 1 and not _UNTAGGED_PIECE.match(line)):
        yield line
        return
    untagged = line[: tags[0].start()]
    pieces = {
        tags[0][0]: untagged if _UNTAGGED_PIECE.match(untagged) else f"{untagged}{tags[0][0]}"
    }
    for tag, end in zip(tags, [*(tag.start() for tag in tags[1:]), len(line)], strict=True):
        pieces[tag[0]] = pieces.get(tag[0], tag[0]) + line[tag.end() : end]
    yield from pieces.values()


LIMIT = 64 * 2**20
_DEBUGGING = re.compile(
    rb"^(?:\S{1,64} )?\S{1,300}:\d+:\d+ \[\d+\] NCCL (?:INFO|TRACE) "
    rb"(?![^\n]*(?:CCL_|FI_|UCX_|OMPI_|MPI|nranks \d|ersion|Using|rovider|cxi|Slingshot|_perf|busbw"
    rb"|-> Algo|-place|Rank|Pid|Out of|Avg|OSU|ailure|signal|fault|Killed|killed|CANCEL|Exited"
    rb"|TERMINATION"
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
    larger = (
        f"{path} is larger than 64 MiB without NCCL's INFO lines: expected one log or one table, "
        f"cut it to the tests that you need"
    )
    data = contents(path, LIMIT, larger, lambda lines: _DEBUGGING.sub(b"", lines))
    if not data or data.isspace():
        raise InputError(
            f"{path} is empty: expected an nccl-tests log or a CSV with size_bytes and time_us"
        )
    if (at := data.find(b"\0")) >= 0:
        line = data.count(b"\n", 0, at) + 1
        raise InputError(
            f"{path} line {line}: a NUL byte, so binary (or UTF-16): expected UTF-8 text"
        )
    return decoded(data, str(path))


def numbered(text: str) -> Iterator[tuple[int, str]]:
    """The lines of `text` with their numbers, free of colour codes and carriage returns.

    A carriage return inside a line starts a new line of the same number, as it does on a terminal.
    So does the tag of another rank; a second tag of the same rank is left out
    (:func:`experiments.measurements.formats.text.streams`).

    >>> list(numbered("one\\r\\n\\x1b[1mtwo\\x1b[0m\\rthree"))
    [(1, 'one'), (2, 'two'), (2, 'three')]
    """
    for number, line in enumerate(text.split("\n"), 1):
        for part in line.rstrip("\r").split("\r"):
            plain = _COLOUR.sub("", part) if "\x1b" in part else part
            for stream in (plain,) if too_long(plain) else streams(plain):
                yield number, stream


def whole_number(text: str, digits: int = 18) -> int | None:
    """The number that a text of at most so many digits is; None if it is anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None


def too_long(line: str) -> bool:
    """Whether a line is too long (over 64 Ki characters) to be anything that a benchmark prints."""
    return len(line) > 2**16


@dataclass(frozen=True)
class TableHeader:
    """The header of a table."""

    line: int
    columns: tuple[str, ...]
    prefix: re.Pattern[str]
    """What a launcher puts before each line."""

    def strip(self, line: str) -> str:
        """`line` without the launcher's prefix that the header had too."""
        match = self.prefix.match(line)
        return line[match.end() :] if match else line


def prefix_pattern(prefix: str) -> re.Pattern[str]:
    """A pattern for a launcher's prefix, in which digits may differ: those of time stamps do."""
    parts = re.split(r"([0-9]+)", prefix)
    varied = "".join("[0-9]+" if part.isdigit() else re.escape(part) for part in parts)
    if prefix[-1:].isdigit():  # or the digits that begin a row would go with it
        varied = varied.removesuffix("+") + f"{{{len(parts[-2])}}}"
    return re.compile(varied)
