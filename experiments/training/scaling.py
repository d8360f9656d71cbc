"""Where more workers stop paying, from the runs of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from experiments.output import Record, counted
from experiments.training.training_table import COLUMNS
from topologies.units import format_seconds

PAYS = 0.5
"""A further worker pays if it adds at least this share of what a worker alone does."""
TERMS = """
  efficiency    samples/s as a share of p times one worker alone
  stops paying  a further worker adds less than half of what a worker alone does"""


class Scaling(NamedTuple):
    """How fast a job is on more and more workers."""

    ranks: list[int]
    """Ascending numbers of workers."""
    speed_up: list[float]
    """The multiple of a worker alone, at each number."""

    def added(self, place: int) -> tuple[float, int]:
        """The most that each further worker adds from one number to a later one, as a share of a
        worker alone, and the later number."""
        p, speed_up = self.ranks[place], self.speed_up[place]
        later = zip(self.ranks[place + 1 :], self.speed_up[place + 1 :], strict=True)
        return max(((faster - speed_up) / (number - p), number) for number, faster in later)

    @property
    def end(self) -> int | None:
        """The place of the number beyond which workers stop paying; None if all pay."""
        places = range(len(self.ranks) - 1)
        return next((place for place in places if self.added(place)[0] < PAYS), None)

    def __str__(self) -> str:
        """The same in words.

        >>> print(Scaling([1, 2, 4], [1.0, 1.9, 2.5]))
        stops paying beyond 2 workers: up to 4, each further worker adds 30.0% of a worker alone
        >>> print(Scaling([1, 2, 4], [1.0, 1.9, 3.5]))
        pays up to 4 workers, the most here: they are 3.5 times one worker (88%)
        """
        last, speed_up = self.ranks[-1], self.speed_up[-1]
        if self.end is None:
            return (
                f"pays up to {last} workers, the most here: they are {speed_up:.4g} times one "
                f"worker ({speed_up / last:.0%})"
            )
        share, up_to = self.added(self.end)
        beyond = counted(self.ranks[self.end], "worker")
        if share < 0:
            return f"stops paying beyond {beyond}: {up_to} are slower"
        return (
            f"stops paying beyond {beyond}: up to {up_to}, each further worker adds {share:.1%} of "
            f"a worker alone"
        )


def scaling(records: Sequence[Record]) -> Scaling:
    """The scaling of the runs of one job."""
    speed_up = {
        int(record["ranks"] or 0): float(record["efficiency"] or 0.0) * int(record["ranks"] or 0)
        for record in records
    }
    ranks = sorted(speed_up)
    return Scaling(ranks, [speed_up[p] for p in ranks])


def series(records: Sequence[Record], swept: str) -> dict[str, list[Record]]:
    """The runs of each value of the swept option, by ascending numbers of workers."""
    curves: dict[str, list[Record]] = {}
    for record in records:
        curves.setdefault(str(record[swept]) if swept else "", []).append(record)
    return {
        value: sorted(curve, key=lambda record: int(record["ranks"] or 0))
        for value, curve in curves.items()
    }


def scaling_text(records: Sequence[Record], swept: str, names: Mapping[str, str]) -> str:
    """Where more workers stop paying, a line each value of the swept option.

    Empty for one number of workers, and where there are more values of an option than numbers.
    """
    numbers, values = len({record["ranks"] for record in records}), len(names)
    if numbers < 2 or (values >= numbers and swept != "strategy"):
        return ""
    lines = []
    for value, curve in series(records, swept).items():
        lines.append(f"{f'{swept} {names[value]}' if swept else 'scaling'} {scaling(curve)}")
        lines += [] if swept else [_help(curve[-1])]
    return "\n".join(lines) + "\n" + TERMS


def _help(record: Record) -> str:
    """Which change of the machine would help most on the most workers."""
    step = float(record["step_s"] or 0.0)
    times = {name: float(record[f"{column}_s"] or 0.0) for name, column in COLUMNS.items()}
    name = min(times, key=lambda name: times[name])
    return (
        f"on {record['ranks']} workers {name} would help most: {format_seconds(times[name])} a "
        f"step instead of {format_seconds(step)}"
    )
