"""What is abnormal in the collectives of a job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from experiments import output
from experiments.traces.job_calls import FEWEST_ROUNDS, JobCalls, alike
from experiments.traces.measured_calls import MeasuredCall
from topologies.units import format_bytes, format_seconds

STRAGGLER_DELAY = 0.25
"""A straggler is behind the median rank for more than this share of what the latest rank is,"""
DELAY_ERRORS = 4
"""its mean delay is larger than this many standard errors,"""
STRAGGLER_ROUNDS = 0.5
"""the stragglers compute longest before more than this share of the rounds,"""
WAIT_SHARE = 0.05
"""and all others wait for them for more than this share of the time."""
LISTED_PROBLEMS = 10
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
            f"{_listed(sorted(slow))} {'are' if len(slow) > 1 else 'is'} last in {number} of "
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
