"""Files that a command reads, kept from what it writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from topologies.errors import InputError

WRITING = (
    *("--out", "--report", "--plot", "--timeline"),
    *("--nccl-tuner", "--actions", "--png"),
)
"""Options that name a file to write."""


def check_kept(words: Sequence[str]) -> None:
    """Raise InputError if a command line names a file to write that it also reads."""
    parts = [part for word in words for part in _parts(word)]
    named = list(pairwise(("", *parts)))
    read = {
        path.resolve() for option, word in named if option not in WRITING for path in _files(word)
    }
    for option, word in named:
        if option in WRITING and Path(word).resolve() in read:
            raise InputError(f"{option} {word}: the command reads this file, name another one")


def _parts(word: str) -> Sequence[str]:
    """An option and its value, if both are one word."""
    return word.split("=", 1) if word.startswith("--") else [word]


def _files(word: str) -> Iterator[Path]:
    """The files that a word names: alone, in a list, or with options behind a colon."""
    for text in {word, *word.split(","), word.partition(":")[0]}:
        path = Path(text)
        try:
            if path.suffix and path.is_file():
                yield path
        except (OSError, ValueError):
            continue
