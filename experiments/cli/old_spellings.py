"""Command lines of earlier versions, in today's spelling."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.cli.kept_files import check_kept
from experiments.cli.plain_values import PlainGroup

NOTE = "note: simctl validate PROFILE RUNS is now simctl judge PROFILE RUNS"
FLAGS = ("--fit", "--in-place", "--forced", "--help", "-h")
"""The options of `validate` and `judge` that take no value."""


class Commands(PlainGroup):
    """The commands of `simctl`, under their old spellings too."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first word names, and the words after it."""
        if args[:1] == ["validate"] and _names_a_profile(args[1:]):
            if not ctx.resilient_parsing:
                print(NOTE, file=sys.stderr)  # noqa: T201
            args = ["judge", *args[1:]]
        if not ctx.resilient_parsing:
            check_kept(args)
        return super().resolve_command(ctx, args)


def _names_a_profile(words: Sequence[str]) -> bool:
    """Whether words after `validate` are a profile and runs, instead of one log."""
    files = [Path(file) for file in _files(words)]
    if any(file.suffix in (".yaml", ".yml") for file in files[:1]):
        return True
    return len(files) > 1 and not (files[0].suffix and files[0].is_file())


def _files(words: Sequence[str]) -> Iterator[str]:
    """The words that are neither options nor their values."""
    option = ""
    for word in words:
        if word.startswith("-"):
            option = "" if "=" in word or word in FLAGS else word
        elif option:
            option = ""
        else:
            yield word
