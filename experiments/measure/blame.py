"""One line that says who is to blame: of the ranks that fail together, most are only the victims of
one."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import NamedTuple

GRACE = 2.0
"""Seconds that the others have to complain as well, once something is wrong."""
_LOST = re.compile(
    r"tim(ed?|e[- ]?) ?out|connection (was )?(closed|reset|refused)|broken pipe|closed by "
    r"peer|pair closure",
    re.IGNORECASE,
)


class Complaint(NamedTuple):
    """What a rank says before it gives up, and at which point it was."""

    point: str
    message: str

    @property
    def lost(self) -> bool:
        """Whether it only waited for others, or lost them."""
        return bool(_LOST.search(self.message))


class MeasurementFailed(Exception):
    """A run that cannot go on: one line that names the rank, the collective and the size."""


def complaint(point: str, error: BaseException) -> Complaint:
    """What an exception says, in one line."""
    text = " ".join(str(error).split())
    text = re.sub(r"^\[[^]]*/[^]]*\] ?", "", text)[:300]
    return Complaint(point, f"{type(error).__name__}: {text}" if text else type(error).__name__)


def blame(
    ranks: int,
    complaints: Mapping[int, Complaint],
    ended: Mapping[int, int],
    points: Mapping[int, str],
) -> str:
    """Who is to blame, in one line.

    `ended` are the exit codes of ranks that ended without a word (negative: the signal), `points`
    where each rank was.
    """
    for rank, code in sorted(ended.items(), key=lambda item: item[1]):
        how = f"was killed by {_signal(-code)}" if code < 0 else f"ended with exit code {code}"
        return f"rank {rank} {how} {_where(rank, complaints, points)}"
    for rank, said in sorted(complaints.items()):
        if not said.lost:
            return f"rank {rank} failed {said.point}: {said.message}"
    silent = [rank for rank in range(ranks) if rank not in complaints]
    if not complaints:
        return f"no rank answers {_where(0, complaints, points)}"
    said = complaints[min(complaints)]
    if not silent:
        return f"all ranks wait for each other {said.point}: {said.message}"
    who = (
        f"rank {silent[0]} does"
        if len(silent) == 1
        else f"ranks {', '.join(map(str, silent[:8]))} do"
    )
    return f"{who} not answer {said.point}: rank {min(complaints)} says {said.message}"


def _where(rank: int, complaints: Mapping[int, Complaint], points: Mapping[int, str]) -> str:
    return points.get(rank) or next((said.point for said in complaints.values()), "at the start")


def _signal(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return f"{name} (out of memory?)" if name == "SIGKILL" else name
