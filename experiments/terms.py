"""The words of the tables, explained once below them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from experiments.output import align
from topologies.units import format_seconds

SOFTWARE = "launches and protocols: small sizes take longer"
"""What the links of a machine do not say."""
TERMS = {
    "V": "the size: bytes of the collective, as nccl-tests counts them",
    "of bound": "the time as a multiple of the best lower bound; no algorithm is below 1",
    "off by": "an estimate of what the tolerance of --sharing fair changes of the time",
    "busbw": "V / time (algbw) times nccl-tests' factor: compare it with the bandwidth of a link",
    "expected": "half of the runs take longer, by the profile and its errors on measured runs",
    "of runs": "the interval in which this share of runs is expected",
    "redundant": "the peak amount of duplicate data over all ranks",
    "not claimed": "an assumption of the formula does not hold, so a difference is no failure",
    "FAIL": "a check failed",
    "left out": "bounds that are not computed for so many ranks and links, but may be higher",
    "not included": f"{SOFTWARE}; --profile or --library adds them",
    "any software": "may run: --library nccl advises only what NCCL can run on the machine",
    "--wide": "prints all columns: bounds, steps, bytes and memory too",
}


def footnote(terms: Iterable[str], examples: Mapping[str, Iterable[str]] | None = None) -> str:
    """What `terms` mean, a line each, and below a term its examples.

    >>> print(footnote(["redundant"]))
      redundant  the peak amount of duplicate data over all ranks
    """
    lines = []
    for term in terms:
        lines.append([f"  {term}", TERMS[term]])
        lines += [["", f"- {example}"] for example in (examples or {}).get(term, ())]
    return align(lines)


def inexact(grid: float, error: float, seconds: float) -> str:
    """What a grid for the ends of messages changes, all in seconds.

    >>> inexact(1e-6, 5e-6, 1e-3)
    'messages end at multiples of 1us: the time may be off by about 5us (0.50%)'
    """
    return (
        f"messages end at multiples of {format_seconds(grid)}: the time may be off by about "
        f"{format_seconds(error)} ({error / (seconds or 1.0):.2%})"
    )
