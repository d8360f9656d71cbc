"""Which algorithm wins at each number of ranks and size, and by how much."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.output import Record
from experiments.simulations.recommendation import Advice, Answers


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


def winner(answers: Answers, nbytes: float) -> Winner:
    """The best algorithm at one size, and the best of another name."""
    advice, best = answers.advice(nbytes), answers.best(nbytes).algorithm
    others = (
        (seconds, case.algorithm)
        for seconds, case in answers.ranked(nbytes)
        if case.algorithm.listed_name != best.listed_name
    )
    seconds, second = next(others, (None, None))
    known = seconds is not None and advice.seconds > 0
    return Winner(
        answers.question.ranks,
        advice,
        best.listed_name,
        second.name if second else "",
        seconds,
        seconds / advice.seconds if seconds is not None and known else None,
    )
