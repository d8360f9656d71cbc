"""What is abnormal in the collectives of a job."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from experiments import output
from experiments.traces.job_calls import FEWEST, JobCalls, alike
from experiments.traces.measured_calls import MeasuredCall
from topologies.units import format_bytes, format_seconds

OFTEN = 0.5
"""A straggler computes longest before more than this share of the rounds,"""
STEADY = 4
"""its mean delay is larger than this many standard errors,"""
COSTLY = 0.05
"""and all others wait for it for more than this share of the time."""
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


def normal(job: JobCalls) -> str:
    """Why no rank of a job without problems is a straggler."""
    if len(job.calls) < FEWEST:
        return f"a slow rank shows in traces of {FEWEST} steps or more"
    rank, cost = max(_waits(job).items(), key=lambda pair: pair[1])
    share = cost / (job.seconds or 1.0)
    if share > COSTLY:
        return f"the others wait {share:.0%} of the time for rank {rank}, but not in most steps"
    wait = f"the others wait {share:.1%} of the time for the latest one"
    return f"no rank is late: {wait}, below {COSTLY:.0%}"


def _stragglers(job: JobCalls) -> Iterator[Problem]:
    waits = _waits(job)
    delays, longest = defaultdict[int, list[float]](list), Counter[int]()
    for call in job.rounds:
        longest[int(call.ranks[call.computed.argmax()])] += 1
        late = (call.computed - np.median(call.computed)).tolist()
        for rank, seconds in zip(call.ranks.tolist(), late, strict=True):
            delays[rank].append(seconds)
    for rank, number in sorted(longest.items()):
        cost, rounds = waits[rank], len(delays[rank])
        often = rounds >= FEWEST and number > OFTEN * rounds
        if often and cost > COSTLY * job.seconds and _steady(delays[rank]):
            yield Problem(
                "straggler",
                f"rank {rank} is last in {number} of {rounds} calls after computing: all others "
                f"wait {format_seconds(cost)} for it, {cost / job.seconds:.0%} of the time",
            )


def _waits(job: JobCalls) -> dict[int, float]:
    """For how many seconds all others wait for each rank."""
    waits: dict[int, float] = defaultdict(float)
    for call in job.calls:
        waits[call.last] += call.wait
    return waits


def _steady(delays: Sequence[float]) -> bool:
    """Whether delays are no chance. A few long delays, like the start of a profiler, count as twice
    the median."""
    capped = np.minimum(delays, 2 * np.median(delays))
    return bool(capped.mean() > STEADY * capped.std(ddof=1) / len(capped) ** 0.5)


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
