"""The bytes and the text of a file that a user names. What is no file is refused, and nobody waits
for a pipe without a writer."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from topologies.errors import InputError

LIMIT = 16 * 2**20
MOST_ROWS = 1000
"""Rows of a CSV that a user writes."""
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def contents(
    path: Path, limit: int, larger: str = "", thin: Callable[[bytes], bytes] | None = None
) -> bytes:
    """Up to `limit` + 1 bytes of the file at `path`.

    A file with more than `limit` is refused with the message `larger`; without a message by the
    caller. Of a larger file, `thin` removes what nobody reads from whole lines, and the rest
    counts.

    A pipe is read to its end, so `/dev/stdin` and `<(zcat log.gz)` may be named. Raises InputError
    if the file does not exist or cannot be read. It also refuses folders, devices, sockets, and
    pipes without a writer.
    """
    name = str(path)[:200]
    name = name if name.isprintable() else repr(name)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise InputError(f"no such file: {name}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {name}: {_reason(error)}") from None
    try:
        data = _read(handle, name, limit, thin)
    except OSError as error:
        raise InputError(f"cannot read {name}: {_reason(error)}") from None
    finally:
        os.close(handle)
    if larger and len(data) > limit:
        raise InputError(larger)
    return data


def _read(handle: int, name: str, limit: int, thin: Callable[[bytes], bytes] | None) -> bytes:
    mode = os.fstat(handle).st_mode
    if stat.S_ISDIR(mode):
        raise InputError(f"{name} is a directory: expected a file")
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        raise InputError(f"{name} is a device or a socket: expected a file or a pipe")
    begun = _first(handle, name, limit) if stat.S_ISFIFO(mode) else b""
    os.set_blocking(handle, True)
    data, thinned = bytearray(begun), 0
    while len(data) <= limit and (part := os.read(handle, 2**20)):
        data += part
        if len(data) > limit and thin:
            end = data.rfind(b"\n") + 1
            data[thinned:end] = thin(bytes(data[thinned:end]))
            thinned = data.rfind(b"\n") + 1
    return bytes(data[: limit + 1])


def _first(pipe: int, name: str, limit: int) -> bytes:
    """What is in a pipe already. An end at once means that nobody has it open for writing."""
    try:
        begun = os.read(pipe, limit + 1)
    except BlockingIOError:
        return b""
    if not begun:
        raise InputError(
            f"{name} is a pipe that nobody writes to: start the writer first, or name a file"
        )
    return begun


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def unpacked(path: Path, name: str, limit: int, smaller: str) -> bytes:
    """The bytes of the file at `path`, unpacked if it is gzipped. Messages call it `name`.

    Raises InputError for damage and for more than `limit` bytes, and says how a larger file becomes
    `smaller`.
    """
    data = contents(path, limit)
    if data.startswith(b"\x1f\x8b"):
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
                data = file.read(limit + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{name} is damaged or cut off: {error}") from None
    if len(data) > limit:
        raise InputError(f"{name} has more than {limit // 2**20} MiB: {smaller}")
    return data


def decoded(data: bytes, name: str, expected: str = "text") -> str:
    """The text of a file. Raises InputError, which says what was `expected`."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{name} line {line}: not UTF-8: expected {expected}") from None


def text_of(path: Path, most: int, expected: str, smaller: str) -> str:
    """The text of the file at `path`, of at most `most` bytes.

    Raises InputError, which says what was `expected`, and how a larger file becomes `smaller`.
    """
    data = contents(path, most, f"{path} is larger than {most // 2**20} MiB: {smaller}")
    return decoded(data, str(path), expected)


def csv_rows(path: Path, columns: Sequence[str], noun: str) -> dict[str, list[str]]:
    """The cells of these columns in a CSV that a user writes, by file and line; a cell that is
    missing is empty. More columns count for nothing. `noun`: what a row is.

    Raises InputError with file and line of the first mistake.
    """
    expected = f"a CSV of {', '.join(columns)}"
    text = text_of(path, 2**20, expected, f"take at most {MOST_ROWS} {noun}s")
    reader, rows = csv.DictReader(io.StringIO(text, newline=""), strict=True), {}
    try:
        missing = [column for column in columns if column not in (reader.fieldnames or ())]
        if missing:
            raise InputError(f"{path} line 1: no column {missing[0]}: expected {expected}")
        for row in reader:
            rows[f"{path} line {reader.line_num}"] = [row[column] or "" for column in columns]
            if len(rows) > MOST_ROWS:
                raise InputError(f"{path}: more than {MOST_ROWS} {noun}s")
    except csv.Error as error:
        raise InputError(f"{path} line {reader.line_num}: {error}: expected a CSV") from None
    if not rows:
        raise InputError(f"{path} has no {noun}: expected a line with {', '.join(columns)}")
    return rows


def check_text(text: str, name: str) -> str:
    """The text of the file `name` without a byte order mark.

    Raises InputError when it is blank, holds control characters or has more than 16 Mi characters.
    """
    if len(text) > LIMIT:
        raise InputError(f"{name} is larger than 16 MiB")
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise InputError(f"{name} is empty: it describes nothing")
    if strange := _UNPRINTABLE.search(text):
        line = text.count("\n", 0, strange.start()) + 1
        raise InputError(
            f"{name} line {line}: the character {strange[0]!r} is not text: expected UTF-8"
        )
    return text
