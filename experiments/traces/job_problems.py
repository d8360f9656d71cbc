"""What is abnormal in the collectives of a job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from experiments import output
from experiments.traces.job_calls import JobCalls, alike
from experiments.traces.job_tables import rank_rows
from experiments.traces.measured_calls import MeasuredCall
from topologies.units import format_bytes, format_seconds

OFTEN = 0.5
"""A straggler is last in more than this share of its calls,"""
COSTLY = 0.05
"""and all others wait for it for more than this share of the time."""
FEWEST = 4
"""Calls from which on a rank can be a straggler."""
MOST = 10
"""Problems of a kind that are listed."""


class Problem(NamedTuple):
    """Something abnormal."""

    kind: str
    """"straggler", "missing", "unfinished" or "mismatch"."""
    text: str


def problems(job: JobCalls) -> list[Problem]:
    """What is abnormal, at most 10 of a kind."""
    listed = []
    for kind in (_stragglers(job), _missing(job), _unfinished(job), _mismatches(job)):
        every = list(kind)
        listed += every[:MOST]
        if len(every) > MOST:
            listed.append(Problem(every[0].kind, f"{len(every) - MOST} more"))
    return listed


def _stragglers(job: JobCalls) -> Iterator[Problem]:
    behind: dict[int, float] = defaultdict(float)
    for call in job.calls:
        behind[call.last] += float(np.sort(call.arrival)[-1] - np.sort(call.arrival)[-2])
    for row in rank_rows(job):
        cost = behind[row.rank]
        often = row.calls >= FEWEST and row.last > OFTEN * row.calls
        if often and cost > COSTLY * job.seconds:
            yield Problem(
                "straggler",
                f"rank {row.rank} is last in {row.last} of {row.calls} calls: all others wait "
                f"{format_seconds(cost)} for it, {cost / job.seconds:.0%} of the time",
            )


def _missing(job: JobCalls) -> Iterator[Problem]:
    """The first call of each group that a rank did not make, although others did."""
    if not all(trace.records_all for trace in job.traces):
        return
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
                f"{_listed(waiting)}",
            )


def _mismatches(job: JobCalls) -> Iterator[Problem]:
    for (group, number), rows in sorted(job.matched.items()):
        if not alike(rows):
            words = {_described(call): rank for rank, call in sorted(rows.items(), reverse=True)}
            texts = "; ".join(f"rank {rank}: {word}" for word, rank in [*words.items()][::-1][:3])
            yield Problem("mismatch", f"call {number} of group {group!r} differs: {texts}")


def _described(call: MeasuredCall) -> str:
    return call.collective + (f" of {format_bytes(call.nbytes)}" if call.nbytes is not None else "")


def _listed(ranks: Sequence[int]) -> str:
    more = f" and {len(ranks) - 5} more" if len(ranks) > 5 else ""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks[:5]))}{more}"
