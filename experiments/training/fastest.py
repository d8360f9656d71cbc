"""Which of several training strategies, or values of an option, is the fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from experiments.output import Record, counted
from experiments.training.training_table import rate

UNLIKE = ("asgd", "ssp", "local_sgd")
"""Strategies whose steps do not learn the same as those of a single worker."""
ALIKE = 1.005
"""A strategy that is at most so many times as fast as another is as fast."""


def comparison_text(records: Sequence[Record], swept: str, names: Mapping[str, str]) -> str:
    """The value of the swept option that is fastest at the numbers of workers, and by how much."""
    numbers = dict.fromkeys(record["ranks"] for record in records)
    alike = ([record for record in records if record["ranks"] == p] for p in numbers)
    ordered = [
        sorted(
            [record for record in each if record.get("fits") is not False] or each,
            key=_rate,
            reverse=True,
        )
        for each in alike
    ]
    spans = [list(span) for _, span in groupby(ordered, key=lambda each: each[0][swept])]
    lines = [_words(swept, names, span) for span in spans]
    strategies = dict.fromkeys(str(record["strategy"]).partition(":")[0] for record in records)
    unlike = [name for name in strategies if name in UNLIKE]
    if unlike and swept == "strategy":
        lines.append(
            f"samples/s do not show the learning of {', '.join(unlike)}: --learn mlp compares it"
        )
    return "\n".join(lines)


def _words(swept: str, names: Mapping[str, str], span: Sequence[Sequence[Record]]) -> str:
    """The same winner at some numbers of workers, in words. At each number the runs that fit are
    in the order of their rates."""
    first, last = span[0][0], span[-1][0]
    ahead = "and no other fits in memory"
    most = max(span, key=_ahead)
    if len(most) > 1:
        second, up_to = names[str(most[1][swept])], "up to " if len(span) > 1 else ""
        ahead = f"{second} is as fast"
        if _ahead(most) > ALIKE:
            ahead = f"{up_to}{_ahead(most):.3g} times {second}"
    ranks = counted(int(first["ranks"] or 0), "worker")
    if len(span) > 1:
        ranks = f"{first['ranks']} to {last['ranks']} workers"
    rates = " to ".join(dict.fromkeys(rate(_rate(record)) for record in (first, last)))
    noun = "" if swept == "strategy" else f"{swept} "
    return f"{ranks}: {noun}{names[str(first[swept])]} is fastest, {rates} samples/s, {ahead}"


def _ahead(ordered: Sequence[Record]) -> float:
    """How many times as fast as the second run the first one is; 1 if it is alone."""
    return _rate(ordered[0]) / (_rate(ordered[1]) or 1.0) if len(ordered) > 1 else 1.0


def _rate(record: Record) -> float:
    return float(record["samples_per_s"] or 0.0)
