"""Which algorithm wins at each number of ranks and size, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.output import Record, align
from experiments.profiles.interval_levels import RUNS
from experiments.simulations.recommendation import Advice, Question
from topologies.units import format_bytes, in_binary

OWN = "with software of your own"
"""What the library cannot run on the machine stands below this."""
ADVICE = {
    "size": "size_B",
    "algorithm": "algorithm",
    "protocol": "protocol",
    "channels": "channels",
    "message": "segment_B",
    "time": "time_s",
    "of bound": "over_bound",
    "gain": "gain",
    **RUNS,
    "or": "rival",
}
"""The columns of a table of the best algorithms."""
EXPLAINED = {
    "algorithm": "algorithm",
    "time": "time_s",
    **RUNS,
    "perhaps as fast": "rival",
    "of best": "over_best",
    "steps": "steps",
    "protocol": "protocol",
    "where the time goes": "path",
}
"""The columns of a table of all algorithms at one size."""


@dataclass(frozen=True)
class Winner:
    """The best algorithm at a number of ranks and a size, and the second."""

    ranks: int
    advice: Advice
    name: str
    """The algorithm without its options."""
    second: str
    """The fastest algorithm of another name, empty if there is none."""
    second_time_s: float | None
    margin: float | None
    """How many times as long the second takes."""

    def record(self) -> Record:
        """The fields by name, as files show them."""
        second = {"second": self.second, "second_time_s": self.second_time_s}
        return {"ranks": self.ranks, **self.advice.record(), **second, "margin": self.margin}


def winner(question: Question, nbytes: float) -> Winner:
    """The best algorithm at one size, and the best of another name."""
    advice, best = question.advice(nbytes), question.best(nbytes).algorithm
    seconds, second = question.second(nbytes) or (None, None)
    return Winner(
        question.ranks,
        advice,
        best.listed_name,
        second.algorithm.name if second else "",
        seconds,
        seconds / advice.seconds if seconds is not None and advice.seconds > 0 else None,
    )


def own_software(rows: Sequence[Advice]) -> list[str]:
    """Lines on the algorithms that are faster than the best, but that the library cannot run."""
    faster: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row.own_software and row.own_software_time_s:
            points = faster.setdefault(row.own_software.partition(":")[0], [])
            points.append((row.size_B, row.seconds / row.own_software_time_s))
    table = []
    for name, points in faster.items():
        sizes, gains = zip(*points, strict=True)
        binary = in_binary(sizes)
        ends = dict.fromkeys((format_bytes(min(sizes), binary), format_bytes(max(sizes), binary)))
        table.append([f"  {name}", " to ".join(ends), f"up to {max(gains):.2f} times as fast"])
    return [OWN, align(table)] if table else []
