"""What a reader sees of a value: whose contributions it holds."""

from __future__ import annotations

from typing import NamedTuple

from experiments.animation.slot_contents import Run


class Shown(NamedTuple):
    """A value as it is drawn."""

    ranks: tuple[int, ...]
    """The ranks whose contributions are in it."""
    number: int
    """How many contributions these are."""
    origin: int | None
    """The slot of the only contribution."""


def shown_values(run: Run) -> list[Shown]:
    """Each value of a run. Contributions that no result needs are not shown."""
    return [_shown(run, contributions) for contributions in run.values.sets]


def _shown(run: Run, contributions: int) -> Shown:
    useful, buffer = contributions & run.promise.useful, run.schedule.buffer
    count, ranks = useful.bit_count(), dict[int, None]()
    origin = (useful.bit_length() - 1) % buffer if count == 1 else None
    while useful:
        ranks[((useful & -useful).bit_length() - 1) // buffer] = None
        useful &= useful - 1
    return Shown(tuple(ranks), count, origin)
