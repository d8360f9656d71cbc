"""Remarks on stderr. Those of a command wait for its answer: a mistake gets one line and no
remark."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_held: list[list[str]] = []
"""The lines that wait, if remarks are held."""


def remark(line: str) -> None:
    """Print a line to stderr; if remarks are held, in front of the next answer."""
    if _held:
        _held[0].append(line)
    else:
        print(line, file=sys.stderr)  # noqa: T201


@contextmanager
def held() -> Iterator[None]:
    """Let remarks wait until they are released, at the latest at the end. After an exception they
    are dropped."""
    _held[:] = [[]]
    try:
        yield
        release()
    finally:
        _held.clear()


def release() -> None:
    """Print the remarks that wait, and hold no more of them."""
    waiting = [line for lines in _held for line in lines]
    _held.clear()
    for line in waiting:
        remark(line)
