"""Which of several training strategies, or values of an option, is the fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from experiments.output import Record, counted
from experiments.training.training_table import rate

UNLIKE = ("asgd", "ssp", "local_sgd")
"""Strategies whose steps do not learn the same as those of a single worker."""
ALIKE = 1.005
"""A strategy that is at most so many times as fast as another is as fast."""


class _Winner(NamedTuple):
    """The fastest at a number of workers."""

    name: str
    ranks: int
    rate: float
    """Samples per second."""
    times: float
    """The same as a multiple of the second."""
    second: str
    """Empty if no other value fits."""


def comparison_text(records: Sequence[Record], swept: str, names: Mapping[str, str]) -> str:
    """The value of the swept option that is fastest at the numbers of workers, and by how much."""
    numbers = dict.fromkeys(int(record["ranks"] or 0) for record in records)
    winners = [_winner(records, swept, names, p) for p in numbers]
    spans = [list(span) for _, span in groupby(winners, key=lambda winner: winner.name)]
    lines = [_words("" if swept == "strategy" else f"{swept} ", span) for span in spans]
    strategies = dict.fromkeys(str(record["strategy"]).partition(":")[0] for record in records)
    unlike = [name for name in strategies if name in UNLIKE]
    if unlike and swept == "strategy":
        lines.append(
            f"samples/s do not show the learning of {', '.join(unlike)}: --learn mlp compares it"
        )
    return "\n".join(lines)


def _winner(records: Sequence[Record], swept: str, names: Mapping[str, str], ranks: int) -> _Winner:
    alike = [record for record in records if record["ranks"] == ranks]
    fitting = [record for record in alike if record.get("fits") is not False] or alike
    first, *others = sorted(fitting, key=_rate, reverse=True)
    second = names[str(others[0][swept])] if others else ""
    times = _rate(first) / (_rate(others[0]) or 1.0) if others else 1.0
    return _Winner(names[str(first[swept])], ranks, _rate(first), times, second)


def _words(noun: str, span: Sequence[_Winner]) -> str:
    """The same winner at some numbers of workers, in words."""
    most = max(span, key=lambda winner: winner.times)
    ranks = [counted(span[0].ranks, "worker")]
    ranks = ranks if len(span) == 1 else [str(span[0].ranks), f"{span[-1].ranks} workers"]
    rates = dict.fromkeys(rate(winner.rate) for winner in (span[0], span[-1]))
    ahead = f"{most.second} is as fast" if most.second else "and no other fits in memory"
    if most.second and most.times > ALIKE:
        up_to = "up to " if len(span) > 1 else ""
        ahead = f"{up_to}{most.times:.3g} times {most.second}"
    return (
        f"{' to '.join(ranks)}: {noun}{span[0].name} is fastest, {' to '.join(rates)} samples/s, "
        f"{ahead}"
    )


def _rate(record: Record) -> float:
    return float(record["samples_per_s"] or 0.0)
