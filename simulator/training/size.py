"""How many operations a run has, before any is built, and whether they are too many."""

from __future__ import annotations

from simulator.schedules.schedule import LIMIT
from topologies.resources import LONG, Need, check, free_memory, refuse

WRITTEN = 2_000_000
"""Up to this many operations, all transfers of a run are simulated, and its memory is traced."""
OPERATION = Need(4e-6, 300.0)
"""To build, simulate and measure an operation."""

AGAIN = Need(0.5e-6)
"""To simulate an operation again."""
QUICK = 2**24
"""Up to this many operations, a run is simulated again under changes of the machine."""


def most_operations() -> int:
    """The operations for which the free memory suffices, and the time that a command may take."""
    return int(min(free_memory() / OPERATION.nbytes, LONG / OPERATION.seconds, LIMIT))


def check_size(
    step: float, steps: int, *, once: float = 0.0, every: int = 1, repeated: int = 0
) -> None:
    """Raise InputError if `steps` steps, and `repeated` attempts that a failure adds, have more
    operations than a run may.

    Steps have `step` operations on average, if `every` divides their number; else no more. `once`
    do not depend on that number. What the message advises changes no time of a step.
    """
    total, most = once + step * (steps + repeated), most_operations()
    if total <= most:
        return
    fewer = int((most - once) // step) - repeated
    fewer -= fewer % every
    if 1 <= fewer < steps:
        subject = f"{steps} steps have {total:.3g} operations"
        advice = f"take {fewer} step{'s' * (fewer > 1)}"
    else:
        subject = f"a step has {once + step:.3g} operations"
        advice = (
            "take fewer ranks; other buckets or another algorithm may have fewer operations, but "
            "their times are others"
        )
    refuse(subject, _need(total), advice)


def _need(operations: float) -> Need:
    return Need(operations * OPERATION.seconds, operations * OPERATION.nbytes)


def check_collective(operations: float) -> None:
    """Raise InputError if one collective has more operations than a run may."""
    check(
        f"a collective has {operations:.3g} operations",
        _need(operations),
        "take fewer ranks or another algorithm",
    )
