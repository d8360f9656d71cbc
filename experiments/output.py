"""Tables to stdout, files to disk: aligned text, CSV or JSON, written to a temporary name and
renamed."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path

from experiments import remarks
from experiments.text_lines import GAP, NARROWEST, WIDEST, shrunk, visible, wrapped
from topologies.errors import InputError

PICTURES = (".png", ".svg", ".pdf")
"""The endings of pictures."""
REPORTS = (".html", ".md")
"""The endings of reports."""
RESULT = ".json"
"""The ending of a stored result."""
PARQUET = ".parquet"
"""The ending of a table that is no CSV."""
TABLES = (".csv", PARQUET)
"""The endings of tables."""
META = ".meta.json"
"""What follows a table's name in that of the file that says how it was made."""
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"-|[-+]?\d[\d.]*(?:e[-+]?\d+)?%?", re.ASCII | re.IGNORECASE)
Value = str | int | float | bool | None
Record = Mapping[str, Value]


def align(rows: Sequence[Sequence[str]], widest: int = WIDEST) -> str:
    """Columns of equal width, numbers to the right, words to the left. Where a line would be longer
    than `widest`, the longest words go on in the line below."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    right = [
        all(row[k] in ("", "-") or _is_quantity(row[k]) for row in rows[1:])
        for k in range(len(widths))
    ]
    least = {
        k: max(NARROWEST, *(len(word) for row in rows for word in row[k].split()), 0)
        for k, number in enumerate(right)
        if not number
    }
    widths = shrunk(widths, least, widest)

    def lines(row: Sequence[str]) -> Iterator[str]:
        parts = (wrapped(cell, width, "") for cell, width in zip(row, widths, strict=True))
        for cells in zip_longest(*parts, fillvalue=""):
            padded = (
                c.rjust(w) if r else c.ljust(w)
                for c, w, r in zip(cells, widths, right, strict=True)
            )
            yield GAP.join(padded).rstrip()

    return "\n".join(line for row in rows for line in lines(row))


def _is_quantity(text: str) -> bool:
    """Whether a text is a number or a range, perhaps with units, and no sentence."""
    return text.lstrip("-+")[:1].isdigit() and len(text.split()) <= 3 and ", " not in text


def to_csv(records: Sequence[Record], headed: bool = True) -> str:
    """All fields of the records, floats in full precision."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]) if records else [], lineterminator="\n")
    if headed:
        writer.writeheader()
    writer.writerows({key: _csv_cell(value) for key, value in row.items()} for row in records)
    return visible(text.getvalue())


def _csv_cell(value: Value) -> Value:
    """Text that spreadsheets would take for a formula gets an apostrophe, by which they do not."""
    if not isinstance(value, str):
        return value
    is_formula = value.startswith(_FORMULAS) and not _NUMBER.fullmatch(value)
    return f"'{value}" if is_formula else value


def to_parquet(records: Sequence[Record]) -> bytes:
    """All fields of the records, floats in full precision."""
    import pyarrow
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(list(records)), file)
    return file.getvalue()


def provenance(**parameters: Value) -> str:
    """JSON that says how a result was made: versions, parameters and command."""
    return json.dumps(facts(parameters) | {"command": ["simctl", *sys.argv[1:]]}, indent=1)


def facts(parameters: Mapping[str, Value]) -> dict[str, Mapping[str, Value]]:
    """What a result depends on: versions, parameters, and the digest of each file that a parameter
    names. Of the folders only that of a model's traces counts: others are namesakes of a value."""
    from importlib.metadata import version

    packages = ("simctl-collectives", "numpy", "numba", "simpy")
    versions: dict[str, Value] = {package: version(package) for package in packages}
    words = {word for value in parameters.values() for word in str(value).split(",")}
    names = {name for word in words for name in (word, word.partition(":")[0]) if name}
    folders = {str(parameters.get("model"))}
    files: dict[str, Value] = {
        name: _digest(path)
        for name in sorted(names)
        if _is_readable(path := Path(name)) and (name in folders or not path.is_dir())
    }
    return {"versions": versions, "parameters": parameters, "files": files}


def _is_readable(path: Path) -> bool:
    try:
        return (path.is_file() or path.is_dir()) and os.access(path, os.R_OK)
    except (OSError, ValueError):
        return False


def _digest(path: Path) -> str:
    """That of a file; of a folder that of its list, as it may hold gigabytes."""
    if not path.is_dir():
        return sha256(path.read_bytes()).hexdigest()
    states = sorted((file.name, file.lstat()) for file in path.iterdir())
    files = [(name, state.st_size, state.st_mtime_ns) for name, state in states]
    return sha256(repr(files).encode()).hexdigest()


def counted(number: int, noun: str) -> str:
    """A number of things in words.

    >>> counted(1, "point"), counted(2, "point")
    ('1 point', '2 points')
    """
    return f"{number} {noun}{'s' * (number != 1)}"


def check_writable(path: Path | None, suffixes: Sequence[str] = ()) -> None:
    """Raise InputError now, before any work, if `path` cannot be written or has an unknown
    ending."""
    if path is None:
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise InputError(f"cannot write {str(path)!r}: its name ends in {', '.join(suffixes)}")
    with _refused(path):
        goal = path.resolve()
        blocked = (
            (goal.exists() and not goal.is_file())
            or not path.parent.exists()  # of a/../b, resolved, nothing is left of a
            or not _takes_files(goal.parent)
            or len(goal.name) > 200
        )
    if blocked:
        raise InputError(
            f"cannot write {str(path)[:80]!r}: name a file in a folder that can be written"
        )


def check_different(files: Mapping[str, Path | None]) -> None:
    """Raise InputError if two options name the same file."""
    named: dict[Path, str] = {}
    for option, path in files.items():
        if path is None:
            continue
        earlier = named.setdefault(path.resolve(), option)
        if earlier != option:
            raise InputError(f"--{earlier} and --{option} are both {str(path)!r}: name two files")


def check_folder(path: Path, names: Collection[str], endings: tuple[str, ...]) -> None:
    """Raise InputError now, before any work, unless the files `names` can be written to a folder.

    It may exist already, but holds no further files with these endings: readers of the folder would
    take them for files of this run.
    """
    with _refused(path):
        goal = path.resolve()
        exists = goal.exists()
        blocked = not goal.is_dir() if exists else not path.parent.exists()
        blocked = blocked or not _takes_files(goal if exists else goal.parent)
        further = [file.name for file in goal.iterdir()] if exists and not blocked else []
    if blocked:
        raise InputError(f"cannot write {str(path)[:80]!r}: name a folder that can be written")
    further = [name for name in further if name.endswith(endings) and name not in names]
    if further:
        raise InputError(
            f"cannot write {str(path)[:80]!r}: it holds {min(further)[:80]!r} of something else: "
            f"name a new folder"
        )


def write_folder(path: Path, contents: Mapping[str, bytes | str]) -> None:
    """Write all files to a folder, or none. Raises InputError."""
    with _refused(path):
        path.mkdir(exist_ok=True)
    write_all({path / name: content for name, content in contents.items()})


def _takes_files(folder: Path) -> bool:
    """By trying: what its permissions say is not enough, /proc takes none."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def is_result(path: Path | None) -> bool:
    """Whether a file is to hold a whole result, not a table."""
    return path is not None and path.suffix.lower() == RESULT


def check_table(path: Path | None, endings: Sequence[str]) -> None:
    """Raise InputError now, before any work, if the table cannot be written to `path`."""
    check_writable(path, endings)
    check_writable(path and meta_of(path))
    if path and path.suffix.lower() == PARQUET:
        check_parquet(path, "write")


def check_parquet(path: Path, verb: str) -> None:
    """Raise InputError if what reads and writes Parquet is not installed."""
    if find_spec("pyarrow") is None:
        raise InputError(
            f"cannot {verb} {str(path)!r}: this needs pyarrow, which is not installed: "
            f"pip install '.[parquet]'"
        )


def meta_of(path: Path) -> Path:
    """Where it is kept how the table at `path` was made."""
    return path.with_name(f"{path.name}{META}")


def write_table(path: Path, records: Sequence[Record], provenance: str) -> None:
    """Write a table, as CSV unless its name ends in .parquet, and its `provenance` in a file of its
    own: both or neither.

    Raises InputError.
    """
    table = to_parquet(records) if path.suffix.lower() == PARQUET else to_csv(records)
    write_all({path: table, meta_of(path): provenance})


def write(path: Path, content: bytes | str) -> None:
    """Write all of `content` or nothing. Raises InputError if that is not possible."""
    write_all({path: content})


def write_all(contents: Mapping[Path, bytes | str]) -> None:
    """Write all files or none: each under a temporary name, then all are renamed. Raises
    InputError."""
    with ExitStack() as leftovers:
        renames = [
            (_temporary(path.resolve(), content, leftovers), path)
            for path, content in contents.items()
        ]
        for temporary, path in renames:
            with _refused(path):
                temporary.replace(path.resolve())


def _temporary(path: Path, content: bytes | str, leftovers: ExitStack) -> Path:
    """A file beside `path` with that content; what is left of it is removed with `leftovers`."""
    with _refused(path):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        leftovers.callback(Path(name).unlink, missing_ok=True)
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(handle)
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
    return Path(name)


@contextmanager
def _refused(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", error)
        raise InputError(f"cannot write {str(path)[:200]!r}: {reason}") from None


class Progress:
    """A line on stderr once work has taken two seconds, and then once a second."""

    def __init__(self, noun: str, stream: io.TextIOBase | None = None) -> None:
        self._what, self._stream = noun, stream or sys.stderr
        self._next = time.monotonic() + 2.0
        self._shown = False

    def __call__(self, done: int, total: int, remark: str = "") -> None:
        """Say how far the work has come."""
        if done >= total:
            self.clear()
            return
        if time.monotonic() < self._next:
            return
        self.clear()
        remarks.release()
        self._next, self._shown = time.monotonic() + (1.0 if self._stream.isatty() else 10.0), True
        end = "" if self._stream.isatty() else "\n"
        print(f"{self._what}: {done} of {total}{remark}", end=end, file=self._stream, flush=True)

    def clear(self) -> None:
        """Remove the line from a terminal, so that something else can be printed there."""
        if self._shown and self._stream.isatty():
            print("\r\033[K", end="", file=self._stream, flush=True)
        self._shown = False


def say(text: str) -> None:
    """Print data to stdout; if nobody reads it any more, end quietly."""
    if not is_read(text):
        sys.exit(141)


def tell(text: str) -> None:
    """Print text for people: a line that is too long goes on in the line below."""
    say("\n".join(part for line in text.split("\n") for part in wrapped(line)))


def is_read(text: str) -> bool:
    """Print data to stdout, unless nobody reads it any more."""
    remarks.release()
    try:
        print(visible(text), flush=True)  # noqa: T201
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def note(*texts: str) -> None:
    """Print remarks to stderr, a line each, in a command in front of its answer."""
    for text in texts:
        remarks.remark(visible(f"note: {text}"))


def note_skipped(lines: Iterable[str]) -> None:
    """Print what is skipped, and why, as remarks."""
    note(*(f"skipped {line}" for line in lines))


def to_json(value: object) -> str:
    """JSON, in which what is not finite is null."""
    return json.dumps(plain(value), indent=1, allow_nan=False).replace("\x7f", "\\u007f")


def plain(value: object) -> object:
    """The value for JSON: what is not finite is None."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
