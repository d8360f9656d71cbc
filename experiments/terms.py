"""The words of the tables, explained once below them."""

from __future__ import annotations

from collections.abc import Iterable

from experiments.output import align
from topologies.units import format_seconds

TERMS = {
    "V": "the size: bytes of the collective, as nccl-tests counts them",
    "of bound": "the time as a multiple of the best lower bound; no algorithm is below 1",
    "off by": "an estimate of what the tolerance of --sharing fair changes of the time",
    "busbw": "V / time (algbw) times nccl-tests' factor: compare it with the bandwidth of a link",
    "expected": "half of the runs take longer, by the profile and its errors on measured runs",
    "or": "the second fastest algorithm, if the difference is inside its error",
    "perhaps as fast": "the difference to the fastest is inside its error",
    "message": "the largest message of the algorithm",
    "redundant": "the peak amount of duplicate data over all ranks",
    "critical path": "the chain of operations that the end of the run waits for, from the end "
    "back to the start",
    "bubble": "time in which a device's main lane is idle",
    "exposed": "time in which a rank communicates while its main lane is idle",
    "hidden": "time in which a rank communicates while its main lane computes",
    "contention": "a message was ready, but its link, port or merging lane served messages of "
    "other ranks",
    "slower peer": "a device waits for a slower peer",
    "drain": "a device has nothing left to do at the end of the run",
    "not claimed": "an assumption of the formula does not hold, so a difference is no failure",
    "FAIL": "a check failed",
    "--format wide": "prints all columns: bounds, steps, bytes and memory too",
}


def footnote(terms: Iterable[str]) -> str:
    """What `terms` mean, a line each.

    >>> print(footnote(["redundant"]))
      redundant  the peak amount of duplicate data over all ranks
    """
    return align([[f"  {term}", TERMS[term]] for term in terms])


def inexact(grid: float, error: float, seconds: float) -> str:
    """What a grid for the ends of messages changes, all in seconds.

    >>> inexact(1e-6, 5e-6, 1e-3)
    'messages end at multiples of 1us: the time may be off by about 5us (0.50%)'
    """
    return (
        f"messages end at multiples of {format_seconds(grid)}: the time may be off by about "
        f"{format_seconds(error)} ({error / (seconds or 1.0):.2%})"
    )
