"""Several training runs: variants of a job at some numbers of workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from experiments.output import Value
from experiments.training.changes import what_if
from experiments.training.job import Job, TrainingRun
from experiments.training.strategy_options import SweptValue
from experiments.training.training_table import COLUMNS

RUN = 4.0
"""A run counts as so many seconds for each worker: each is a chunk, those of most workers first."""


class Outcome(NamedTuple):
    """What is kept of a training run."""

    record: dict[str, Value]
    """The run as a row."""
    failure: str = ""
    """How its result is wrong, "" if it is right."""


@dataclass(frozen=True)
class TrainingGrid:
    """Every variant of a job at every number of workers, numbered in that order from 0."""

    swept: str
    """The option of which the variants have different values, if any."""
    variants: Sequence[tuple[SweptValue | None, Job]]
    """Its values with their jobs."""
    ranks: Sequence[int]
    """Numbers of workers."""
    parameters: Mapping[str, Value]
    """The options as the user writes them: stored with the result."""

    @property
    def job(self) -> Job:
        """Everything but the number of workers, with the first value of the option."""
        return self.variants[0][1]

    @property
    def names(self) -> dict[str, str]:
        """How tables and pictures show the values."""
        return {value.text: value.name for value, _ in self.variants if value}

    @property
    def costs(self) -> list[float]:
        """More seconds for more workers: how many is not known."""
        return [RUN * p for _, p in product(self.variants, self.ranks)]

    def run(self, numbers: Sequence[int]) -> Iterator[Outcome]:
        """The runs with these numbers."""
        runs = list(product(self.variants, self.ranks))
        for number in numbers:
            (value, job), p = runs[number]
            training = job.run(p)
            record: dict[str, Value] = {self.swept: value.text} if value else {}
            record |= training.row
            if value is None:
                for name, seconds in what_if(training, always=True).items():
                    record[f"{COLUMNS[name]}_first_order_s"] = seconds["first_order"]
                    record[f"{COLUMNS[name]}_s"] = seconds["simulated"]
            yield Outcome(record, failure_of(training))

    def encode(self, outcome: Outcome) -> Any:
        """An outcome as JSON takes it."""
        return outcome

    def decode(self, encoded: Any) -> Outcome:
        """The outcome that was encoded."""
        return Outcome(*encoded)


def failure_of(training: TrainingRun) -> str:
    """How the result of a run is wrong, "" if it is right."""
    return f"{training.title}: {training.wrong}" if training.wrong else ""
