"""Tables of a job: what each rank did, and how fast the collectives of each group were."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.traces.job_calls import JobCall, JobCalls
from experiments.traces.measured_calls import RankTrace
from simulator.analysis.busy_time import union
from simulator.collectives import of_collective

RANKS = {
    "rank": "rank",
    "calls": "calls",
    "last": "last",
    "mean": "late_s",
    "most": "late_max_s",
    "waits": "waiting_s",
    "clock": "clock_s",
    "computing": "computing_s",
    "hidden": "hidden_s",
    "exposed": "exposed_s",
    "hidden share": "{hidden_part:.0%}",
}
"""The columns of a table of ranks."""
GROUPS = {
    "collective": "collective",
    "group": "group",
    "ranks": "ranks",
    "V": "size_B",
    "calls": "calls",
    "time": "time_s",
    "busbw": "busbw_Bps",
    "spread": "spread_s",
    "most": "spread_max_s",
    "last": "rank {last} ({last_share:.0%})",
}
"""The columns of a table of collectives."""
WORDS = {
    "last": "calls in which the rank got there last; the rank that most often did",
    "mean, most": "how long after the first rank it got there",
    "waits": "how long it waited for others within calls",
    "clock": "the correction of its clock",
    "hidden, exposed": "communication while it computes, and while it does not",
    "time": "median of a call from when all ranks are there",
    "spread, most": "time from the first rank to the last, median and greatest",
}
"""The words of both tables."""


class RankRow(NamedTuple):
    """What a rank did. Times are in seconds."""

    rank: int
    calls: int
    last: int
    """Calls in which it was the last to get there."""
    late_s: float
    """How long after the first rank it got there, on average."""
    late_max_s: float
    waiting_s: float | None
    """How long it waited for others within calls, in all."""
    computing_s: float | None
    hidden_s: float | None
    """Communication while it computed."""
    exposed_s: float | None
    """Communication while it did not compute."""
    clock_s: float
    """What its clock is ahead of the others, as the ends of calls say. It is taken off."""


class GroupRow(NamedTuple):
    """The calls of a collective of one size in a group."""

    collective: str
    group: str
    ranks: int
    size_B: float | None
    calls: int
    time_s: float | None
    """The median of what it takes when all ranks are there."""
    busbw_Bps: float | None
    spread_s: float
    """The median time from the first rank to the last."""
    spread_max_s: float
    last: int | None
    """The rank that was last most often; None if all ranks always got there at once."""
    last_share: float
    """The share of the calls in which it was last."""


def shown_ranks(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The ranks with what tables show of them, the latest first."""
    shown = list[Mapping[str, Any]]()
    for row in sorted(rows, key=lambda row: (-row["late_s"], row["rank"])):
        hidden, exposed = row["hidden_s"], row["exposed_s"]
        known = hidden is not None and exposed is not None
        part = hidden / ((hidden + exposed) or 1.0) if known else None
        shown.append({**row, "hidden_part": part})
    return shown


def rank_rows(job: JobCalls) -> list[RankRow]:
    """A row for each rank."""
    late = defaultdict[int, list[float]](list)
    waits, last = defaultdict[int, float](float), defaultdict[int, int](int)
    for call in job.calls:
        last[call.last] += call.spread > 0
        behind = (call.arrival - call.arrival.min()).tolist()
        for rank, seconds in zip(call.ranks.tolist(), behind, strict=True):
            late[rank].append(seconds)
        if call.took is not None:
            waited = (call.took - call.took.min()).tolist()
            for rank, seconds in zip(call.ranks.tolist(), waited, strict=True):
                waits[rank] += seconds
    return [
        RankRow(
            trace.rank,
            len(late[trace.rank]),
            last[trace.rank],
            float(np.mean(late[trace.rank] or [0.0])),
            max(late[trace.rank], default=0.0),
            waits.get(trace.rank),
            *_overlap(trace),
            job.clocks[trace.rank] / 1e9,
        )
        for trace in job.traces
    ]


def group_rows(job: JobCalls) -> list[GroupRow]:
    """A row for each collective, group and size."""
    alike = defaultdict[tuple[str, str, float | None], list[JobCall]](list)
    for call in job.calls:
        alike[call.collective, call.group, call.nbytes].append(call)
    rows = [_group_row(calls) for calls in alike.values()]
    return sorted(rows, key=lambda row: (row.collective, row.group, row.size_B or 0.0))


def _overlap(trace: RankTrace) -> tuple[float | None, float | None, float | None]:
    """Seconds computing, communicating while computing, and communicating alone."""
    if trace.computing is None or trace.talking is None:
        return None, None, None
    every = np.concatenate((trace.computing, trace.talking), axis=1)
    origin = every.min(initial=2**62)
    busy, talking, both = (
        _length(union(*(intervals - origin).astype(np.float64)))
        for intervals in (trace.computing, trace.talking, every)
    )
    return busy, busy + talking - both, both - busy


def _length(intervals: npt.NDArray[np.float64]) -> float:
    """Seconds of intervals of nanoseconds."""
    return float((intervals[1] - intervals[0]).sum()) / 1e9


def _group_row(calls: Sequence[JobCall]) -> GroupRow:
    first, size = calls[0], len(calls[0].ranks)
    seconds = [call.seconds for call in calls if call.seconds is not None]
    time = median(seconds) if seconds else None
    lasts = [call.last for call in calls if call.spread > 0]
    last = max(sorted({*lasts}), key=lasts.count, default=None)
    factor = _busbw(first.collective, size)
    timed = time and first.nbytes is not None and factor is not None
    return GroupRow(
        first.collective,
        first.group,
        size,
        first.nbytes,
        len(calls),
        time,
        (first.nbytes or 0.0) / time * factor if timed and time and factor else None,
        median(call.spread for call in calls),
        max(call.spread for call in calls),
        last,
        0.0 if last is None else lasts.count(last) / len(calls),
    )


def _busbw(collective: str, ranks: int) -> float | None:
    """nccl-tests' factor from algbw to busbw; None for a collective without it."""
    known = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce")
    if collective not in known:
        return None
    return float(of_collective(collective)[0].collective.busbw(ranks))
