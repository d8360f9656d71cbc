"""Names the rank that caused a failure: the other ranks that fail are its victims."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import NamedTuple

GRACE_SECONDS = 2.0
"""Seconds in which other ranks can complain after the first failure."""
_LOST = re.compile(
    r"tim(ed?|e[- ]?) ?out|connection (was )?(closed|reset|refused)|broken pipe|closed by "
    r"peer|pair closure",
    re.IGNORECASE,
)


class Complaint(NamedTuple):
    """What a rank says before it gives up."""

    point: str
    """Where it was: "in" a point, or "at the start"."""
    message: str
    """Its error."""

    @property
    def lost(self) -> bool:
        """Whether the rank only waited for other ranks, or lost them."""
        return bool(_LOST.search(self.message))


class MeasurementFailed(Exception):
    """A measurement that cannot go on: one line names the rank, the collective and the size."""


def complaint(point: str, error: BaseException) -> Complaint:
    """The complaint about an exception, in one line."""
    text = " ".join(str(error).split())
    text = re.sub(r"^\[[^]]*/[^]]*\] ?", "", text)[:300]
    return Complaint(point, f"{type(error).__name__}: {text}" if text else type(error).__name__)


def blame(
    ranks: int,
    complaints: Mapping[int, Complaint],
    ended: Mapping[int, int],
    points: Mapping[int, str],
) -> str:
    """The rank that caused the failure, in one line.

    `ended` are the exit codes of ranks that ended without a complaint (negative: the signal).
    `points` say where each rank was.
    """
    for rank, code in sorted(ended.items(), key=lambda item: item[1]):
        how = f"was killed by {_signal(-code)}" if code < 0 else f"ended with exit code {code}"
        return f"rank {rank} {how} {_where(rank, complaints, points)}"
    for rank, complaint in sorted(complaints.items()):
        if not complaint.lost:
            return f"rank {rank} failed {complaint.point}: {complaint.message}"
    silent = [rank for rank in range(ranks) if rank not in complaints]
    if not complaints:
        return f"no rank answers {_where(0, complaints, points)}"
    complaint = complaints[min(complaints)]
    if not silent:
        return f"all ranks wait for each other {complaint.point}: {complaint.message}"
    subject = (
        f"rank {silent[0]} does"
        if len(silent) == 1
        else f"ranks {', '.join(map(str, silent[:8]))} do"
    )
    return (
        f"{subject} not answer {complaint.point}: rank {min(complaints)} says {complaint.message}"
    )


def _where(rank: int, complaints: Mapping[int, Complaint], points: Mapping[int, str]) -> str:
    return points.get(rank) or next(iter(complaints.values()), Complaint("at the start", "")).point


def _signal(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return f"{name} (out of memory?)" if name == "SIGKILL" else name
