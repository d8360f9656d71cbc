"""Estimates the operations of a run, and refuses too many before any is built."""

from __future__ import annotations

from typing import NamedTuple

from topologies.errors import InputError

MOST_OPERATIONS = 2**24
"""The most operations of a run. They take about 5 GB."""
WRITTEN = 2_000_000
"""Up to this many operations, all transfers of a run are simulated, and its memory is traced."""


class Size(NamedTuple):
    """How many operations a run has."""

    step: float
    """Operations of a step, on average."""
    once: float = 0.0
    """Operations that do not depend on the number of steps."""
    every: int = 1
    """The average holds for numbers of steps that this divides; others have no more."""


def check_size(size: Size, steps: int, repeated: int = 0) -> None:
    """Raise InputError if `steps` steps, and `repeated` attempts that a failure adds, have more
    operations than a run may. What it advises changes no time of a step."""
    total = size.once + size.step * (steps + repeated)
    if total <= MOST_OPERATIONS:
        return
    fewer = int((MOST_OPERATIONS - size.once) // size.step) - repeated
    fewer -= fewer % size.every
    if 1 <= fewer < steps:
        take = f"take {fewer} step{'s' * (fewer > 1)}"
        raise InputError(
            f"{steps} steps have {total:.3g} operations, a run at most {MOST_OPERATIONS}: {take}"
        )
    raise InputError(
        f"a step has {size.once + size.step:.3g} operations, a run at most {MOST_OPERATIONS}: "
        f"take fewer ranks; "
        "other buckets or another algorithm may have fewer operations, but their times are others"
    )
