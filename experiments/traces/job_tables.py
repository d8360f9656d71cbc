"""Problems of a job, and its groups and ranks as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from experiments import output
from experiments.measurements.collectives import bus_factor
from experiments.templates import headed
from experiments.text_lines import first_of
from experiments.traces.job_calls import (
    CALL,
    FEWEST_ROUNDS,
    JobCalls,
    MeasuredCall,
    RankTrace,
    alike,
)
from simulator.schedules.timeline import union
from topologies.topology import Floats
from topologies.units import format_bytes, format_seconds

if TYPE_CHECKING:
    import pandas as pd

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
    arrivals = job.arrivals
    waits = arrivals["latest"] - arrivals["arrival"]
    rank = waits.groupby(arrivals["rank"]).sum().idxmax()
    behind = waits[arrivals["rank"] == rank].groupby(arrivals["last"]).sum()
    share = behind.sum() / (job.seconds or 1.0)
    if share > WAIT_SHARE:
        most = f"rank {rank} waits {share:.0%} of the time, most for rank {behind.idxmax()}"
        return f"{most}, but no rank is late in most steps"
    return (
        f"no rank is late: none waits for more than {share:.1%} of the time, below {WAIT_SHARE:.0%}"
    )


def _stragglers(job: JobCalls) -> Iterator[Problem]:
    """The ranks that are slow, all in one problem: those of a slow node hide each other."""
    rounds, arrivals = job.rounds, job.arrivals
    late = rounds["computed"] - rounds.groupby(CALL)["computed"].transform("median")
    delays = {int(rank): several.to_numpy() for rank, several in late.groupby(rounds["rank"])}
    least = STRAGGLER_DELAY * max((several.sum() for several in delays.values()), default=0.0)
    slow = {rank for rank, late in delays.items() if late.sum() > least and _steady(late)}
    is_slow = arrivals["rank"].isin(slow)
    others = arrivals["arrival"].mask(is_slow, arrivals["first"])
    latest_other = others.groupby([arrivals[name] for name in CALL]).transform("max")
    waits = (arrivals["latest"] - latest_other)[is_slow].groupby(arrivals["rank"]).sum()
    last = rounds.loc[rounds.groupby(CALL)["computed"].idxmax(), "rank"] if slow else ()
    number = sum(rank in slow for rank in last)
    calls = len(rounds[rounds["rank"].isin(slow)].drop_duplicates(CALL))
    cost = float(waits.max()) if slow else 0.0
    if cost > WAIT_SHARE * job.seconds and number > STRAGGLER_ROUNDS * calls:
        yield Problem(
            "straggler",
            f"{listed_ranks(sorted(slow))} {'are' if len(slow) > 1 else 'is'} last in {number} of "
            f"{calls} calls after computing: all others wait {format_seconds(cost)} "
            f"for {'them' if len(slow) > 1 else 'it'}, {cost / job.seconds:.0%} of the time",
        )


def _steady(delays: Floats) -> bool:
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
    **headed("rank", "calls", "last"),
    "mean": "late_s",
    "most": "late_max_s",
    "waits": "waiting_s",
    **headed("clock_s", "computing_s", "hidden_s", "exposed_s"),
    "hidden share": "{hidden_part:.0%}",
}
"""The columns of a table of ranks."""
GROUPS = {
    **headed("collective", "group", "ranks"),
    "V": "size_B",
    **headed("calls", "time_s", "busbw_Bps", "spread_s"),
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
    import pandas as pd

    arrivals, ranks = job.arrivals, job.arrivals["rank"]
    late = (arrivals["arrival"] - arrivals["first"]).groupby(ranks)
    calls = job.calls
    columns = {
        "calls": late.size(),
        "last": calls[calls["latest"] > calls["first"]].groupby("last").size(),
        "late": late.mean(),
        "most": late.max(),
    }
    table = pd.DataFrame(columns).reindex([trace.rank for trace in job.traces]).fillna(0)
    waits = (arrivals["took"] - arrivals["seconds"]).groupby(ranks).sum(min_count=1)
    return [
        RankRow(
            trace.rank,
            int(number),
            int(last),
            float(mean),
            float(most),
            _known(waits.get(trace.rank)),
            *_overlap(trace),
            job.clocks[trace.rank] / 1e9,
        )
        for trace, number, last, mean, most in zip(
            job.traces, *(table[name] for name in columns), strict=True
        )
    ]


def group_rows(job: JobCalls) -> list[GroupRow]:
    """A row for each collective, group and size."""
    by_size = job.calls.groupby(["collective", "group", "nbytes"], dropna=False)
    rows = [_group_row(calls) for _, calls in by_size]
    return sorted(rows, key=lambda row: (row.collective, row.group, row.size_B or 0.0))


def _known(value: float | None) -> float | None:
    """None for NaN."""
    return None if value is None or np.isnan(value) else float(value)


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


def _group_row(calls: pd.DataFrame) -> GroupRow:
    first, time = calls.iloc[0], _known(calls["seconds"].median())
    nbytes, ranks = _known(first["nbytes"]), int(first["ranks"])
    spread = calls["latest"] - calls["first"]
    lasts = calls["last"][spread > 0]
    last = int(lasts.mode().iloc[0]) if len(lasts) else None
    collective = first["collective"]
    factor = bus_factor(collective, ranks) if collective in COUNTED else 0.0
    return GroupRow(
        collective,
        first["group"],
        ranks,
        nbytes,
        len(calls),
        time,
        nbytes / time * factor if time and factor and nbytes is not None else None,
        float(spread.median()),
        float(spread.max()),
        last,
        float((lasts == last).sum() / len(calls)),
    )
