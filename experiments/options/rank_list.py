"""Lists of ranks, as the user writes them."""

from __future__ import annotations

import re

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
