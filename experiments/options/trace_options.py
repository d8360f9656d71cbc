"""The options of what a trace has, and lists of ranks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from experiments.options.options import Options, option
from experiments.trace_choice import NO_TRANSFERS, TraceChoice
from topologies.errors import InputError

_RANKS = re.compile(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?", re.ASCII)
MOST = 2**20


def parse_rank_list(option: str, text: str) -> tuple[int, ...]:
    """The ranks of "0-7,9" or "0-14:2" in their order. Raises InputError, which names the option.

    >>> parse_rank_list("--ranks", "0-6:2,7")
    (0, 2, 4, 6, 7)
    """
    ranks: list[int] = []
    for part in text.split(","):
        match = _RANKS.fullmatch(part.strip())
        if match is None:
            raise InputError(
                f"{option}: {part[:40]!r} is no rank or range: write 0-7, 0-14:2 or 0,8"
            )
        first, last, step = (None if number is None else int(number) for number in match.groups())
        assert first is not None
        last = first if last is None else last
        if last < first:
            raise InputError(f"{option}: {part!r} runs backwards: write {last}-{first}")
        if step == 0 or last > MOST:
            raise InputError(f"{option}: {part!r}: ranks are at most {MOST}, a step is 1 or more")
        ranks += range(first, last + 1, step or 1)
    return tuple(ranks)


@dataclass(frozen=True)
class TraceOptions(Options):
    """What a trace has, as the user writes it."""

    ranks: str | None = option(
        "With a trace as --timeline: only these ranks, like 0-7,9 or 0,8. transfers=no: a "
        "Chrome trace without transfers.  [default: all]",
        hidden=True,
        stored=False,
    )

    @property
    def choice(self) -> TraceChoice:
        """The values of the options. Raises InputError."""
        parts = (self.ranks or "").split(",")
        ranks = ",".join(part for part in parts if part != NO_TRANSFERS)
        chosen = tuple(sorted({*parse_rank_list("--ranks", ranks)})) if ranks else None
        return TraceChoice(chosen, NO_TRANSFERS not in parts, ranks)
