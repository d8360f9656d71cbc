"""The words of the tables, explained once below them."""

from __future__ import annotations

from collections.abc import Iterable

from experiments.output import align
from experiments.simulations.verdict import Verdict

TERMS = {
    "V": "the size: bytes of the collective, as nccl-tests counts them",
    "busbw": (
        "V / time (algbw) times the factor of nccl-tests: compare it with the bandwidth of a link"
    ),
    "redundant": "the peak amount of duplicate data over all ranks",
    "not claimed": "the machine breaks an assumption of the formula, so a difference is no failure",
}


def footnote(terms: Iterable[str]) -> str:
    """What `terms` mean, a line each.

    >>> print(footnote(["redundant"]))
      redundant  the peak amount of duplicate data over all ranks
    """
    return align([[f"  {term}", TERMS[term]] for term in terms])


def claimed(verdicts: Iterable[Verdict]) -> list[str]:
    """The term that verdicts use, if any does."""
    return ["not claimed"] * any(not verdict.claimed for verdict in verdicts)
