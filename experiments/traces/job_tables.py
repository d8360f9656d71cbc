"""Problems of a job, and its groups and ranks as tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from experiments import output
from experiments.measurements.collectives import bus_factor
from experiments.text_lines import first_of
from experiments.traces.job_calls import (
    FEWEST_ROUNDS,
    JobCall,
    JobCalls,
    MeasuredCall,
    RankTrace,
    alike,
)
from simulator.analysis.busy_time import union
from topologies.topology import Floats
from topologies.units import format_bytes, format_seconds

STRAGGLER_DELAY = 0.25
"""A straggler is behind the median rank for more than this share of what the latest rank is,"""
DELAY_ERRORS = 4
"""its mean delay is larger than this many standard errors,"""
STRAGGLER_ROUNDS = 0.5
"""the stragglers compute longest before more than this share of the rounds,"""
WAIT_SHARE = 0.05
"""and all others wait for them for more than this share of the time."""
COUNTED = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce")
"""Collectives that nccl-tests gives a busbw."""
LISTED_PROBLEMS = 10
"""Problems of a kind that are listed."""


class Problem(NamedTuple):
    """Something abnormal."""

    kind: str
    """"straggler", "missing", "unfinished", "error" or "mismatch"."""
    text: str


def problems(job: JobCalls) -> list[Problem]:
    """What is abnormal, at most 10 of a kind."""
    return first_problems((_stragglers(job), _missing(job), _unfinished(job), _mismatches(job)))


def first_problems(kinds: Iterable[Iterable[Problem]]) -> list[Problem]:
    """The first problems of each kind, and how many more there are."""
    listed = []
    for kind in kinds:
        every = list(kind)
        listed += every[:LISTED_PROBLEMS]
        if len(every) > LISTED_PROBLEMS:
            listed.append(Problem(every[0].kind, f"{len(every) - LISTED_PROBLEMS} more"))
    return listed


def normal(job: JobCalls) -> str:
    """Why no rank of a job without problems is a straggler."""
    if len(job.calls) < FEWEST_ROUNDS:
        return f"a slow rank shows in traces of {FEWEST_ROUNDS} steps or more"
    waits: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for call in job.calls:
        last, seconds = call.last, (call.arrival.max() - call.arrival).tolist()
        for rank, wait in zip(call.ranks.tolist(), seconds, strict=True):
            waits[rank][last] += wait
    rank, behind = max(waits.items(), key=lambda pair: sum(pair[1].values()))
    share = sum(behind.values()) / (job.seconds or 1.0)
    if share > WAIT_SHARE:
        latest = max(behind, key=lambda rank: behind[rank])
        most = f"rank {rank} waits {share:.0%} of the time, most for rank {latest}"
        return f"{most}, but no rank is late in most steps"
    return (
        f"no rank is late: none waits for more than {share:.1%} of the time, below {WAIT_SHARE:.0%}"
    )


def _stragglers(job: JobCalls) -> Iterator[Problem]:
    """The ranks that are slow, all in one problem: those of a slow node hide each other."""
    delays, waits = defaultdict[int, list[float]](list), defaultdict[int, float](float)
    for call in job.rounds:
        late = (call.computed - np.median(call.computed)).tolist()
        for rank, seconds in zip(call.ranks.tolist(), late, strict=True):
            delays[rank].append(seconds)
    least = STRAGGLER_DELAY * max(map(sum, delays.values()), default=0.0)
    slow = {rank for rank, late in delays.items() if sum(late) > least and _steady(late)}
    for call in job.calls:
        waits.update({rank: waits[rank] + call.wait(slow) for rank in slow & {*call.ranks}})
    rounds = [call for call in job.rounds if slow & {*call.ranks}]
    number = sum(call.ranks[call.computed.argmax()] in slow for call in rounds)
    cost = max(waits.values(), default=0.0)
    if cost > WAIT_SHARE * job.seconds and number > STRAGGLER_ROUNDS * len(rounds):
        yield Problem(
            "straggler",
            f"{listed_ranks(sorted(slow))} {'are' if len(slow) > 1 else 'is'} last in {number} of "
            f"{len(rounds)} calls after computing: all others wait {format_seconds(cost)} "
            f"for {'them' if len(slow) > 1 else 'it'}, {cost / job.seconds:.0%} of the time",
        )


def _steady(delays: Sequence[float]) -> bool:
    """Whether delays are no chance. A few long delays, like the start of a profiler, count as twice
    the median."""
    if len(delays) < FEWEST_ROUNDS:
        return False
    capped = np.minimum(delays, 2 * np.median(delays))
    return bool(capped.mean() > DELAY_ERRORS * capped.std(ddof=1) / len(capped) ** 0.5)


def _missing(job: JobCalls) -> Iterator[Problem]:
    """The first call of each group that a rank did not make, although others did."""
    if not all(trace.records_all for trace in job.traces):
        return
    given = {trace.rank for trace in job.traces}
    if absent := sorted({*chain(*job.listed.values())} - given):
        yield Problem(
            "missing", f"no dump of {listed_ranks(absent)}: groups of other ranks have them"
        )
    latest, begin = dict[tuple[str, int], int](), dict[str, int]()
    for (group, number), rows in sorted(job.matched.items()):
        begin.setdefault(group, number)
        latest |= {(group, rank): number for rank in rows}
    for group, members in sorted(job.members.items()):
        for rank in sorted(members):
            number = latest.get((group, rank), begin[group] - 1) + 1
            calls = job.matched.get((group, number))
            if calls:
                call = next(iter(calls.values()))
                yield Problem(
                    "missing",
                    f"rank {rank} did not call {_described(call)}, call {number} of group "
                    f"{group!r}: {output.counted(len(calls), 'rank')} did",
                )


def _unfinished(job: JobCalls) -> Iterator[Problem]:
    for (group, number), rows in sorted(job.matched.items()):
        waiting = [rank for rank, call in sorted(rows.items()) if not call.done]
        if waiting:
            call = rows[waiting[0]]
            yield Problem(
                "unfinished",
                f"{_described(call)}, call {number} of group {group!r}, has not ended at "
                f"{listed_ranks(waiting)}",
            )


def _mismatches(job: JobCalls) -> Iterator[Problem]:
    for (group, number), rows in sorted(job.matched.items()):
        if not alike(rows):
            words = {_described(call): rank for rank, call in sorted(rows.items(), reverse=True)}
            texts = "; ".join(f"rank {rank}: {word}" for word, rank in [*words.items()][::-1][:3])
            yield Problem("mismatch", f"call {number} of group {group!r} differs: {texts}")


def _described(call: MeasuredCall) -> str:
    return call.collective + (f" of {format_bytes(call.nbytes)}" if call.nbytes is not None else "")


def listed_ranks(ranks: Sequence[int]) -> str:
    """Some ranks in words, at most five by number."""
    return f"rank{'s' * (len(ranks) > 1)} {first_of(ranks, 5)}"


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


def _length(intervals: Floats) -> float:
    """Seconds of intervals of nanoseconds."""
    return float((intervals[1] - intervals[0]).sum()) / 1e9


def _group_row(calls: Sequence[JobCall]) -> GroupRow:
    first, size = calls[0], len(calls[0].ranks)
    seconds = [call.seconds for call in calls if call.seconds is not None]
    time = median(seconds) if seconds else None
    lasts = [call.last for call in calls if call.spread > 0]
    last = max(sorted({*lasts}), key=lasts.count, default=None)
    factor = bus_factor(first.collective, size) if first.collective in COUNTED else 0.0
    return GroupRow(
        first.collective,
        first.group,
        size,
        first.nbytes,
        len(calls),
        time,
        first.nbytes / time * factor if time and factor and first.nbytes is not None else None,
        median(call.spread for call in calls),
        max(call.spread for call in calls),
        last,
        0.0 if last is None else lasts.count(last) / len(calls),
    )
