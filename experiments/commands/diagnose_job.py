"""`simctl diagnose --job`: who was late in a job, and how fast its collectives were."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments import output
from experiments.commands.answer import Answer, check_files
from experiments.traces.job_calls import JobCalls
from experiments.traces.job_folder import read_job
from experiments.traces.job_problems import Problem, normal, problems
from experiments.traces.job_tables import GroupRow, RankRow, group_rows, rank_rows
from topologies.units import format_bandwidth, format_bytes, format_seconds

LATEST = 16
"""Of more ranks, the latest are printed."""


def run(logs: Sequence[Path], how: str, page: Path | None = None) -> int:
    """Print what each rank did, how fast each collective was, and what is abnormal; 1 if anything
    is."""
    check_files(report=page)
    job = JobCalls(read_job(logs))
    ranks, groups, wrong = rank_rows(job), group_rows(job), problems(job)
    report = {
        "ranks": [row._asdict() for row in ranks],
        "collectives": [row._asdict() for row in groups],
        "problems": [problem._asdict() for problem in wrong],
    }
    parameters = {"logs": ",".join(map(str, logs))}
    answer = Answer("job", report, list(_records(ranks, groups, wrong)), parameters)
    answer.write(report=page)
    answer.show(how, lambda: _text(job, ranks, groups, wrong))
    return int(bool(wrong))


def _records(
    ranks: Sequence[RankRow], groups: Sequence[GroupRow], wrong: Sequence[Problem]
) -> Iterator[dict[str, output.Value]]:
    """A record of each rank, of each collective, and of each problem."""
    columns = dict.fromkeys(("row", *RankRow._fields, *GroupRow._fields, "problem", "text"))
    for row in ranks:
        yield {**columns, "row": "rank", **row._asdict()}
    for group in groups:
        yield {**columns, "row": "collective", **group._asdict()}
    for problem in wrong:
        yield {**columns, "row": "problem", "problem": problem.kind, "text": problem.text}


def _text(
    job: JobCalls,
    ranks: Sequence[RankRow],
    groups: Sequence[GroupRow],
    wrong: Sequence[Problem],
) -> str:
    shown = sorted(ranks, key=lambda row: (-row.late_s, row.rank))[:LATEST]
    title = (
        f"{output.counted(len(job.calls), 'collective')} of {len(ranks)} ranks in "
        f"{format_seconds(job.seconds)}"
    )
    listed = [f"  abnormal: {problem.kind}, {problem.text}" for problem in wrong]
    listed = listed or [f"  nothing is abnormal: {normal(job)}"]
    blocks = [
        "\n".join([title, *listed]),
        output.align(
            [["late", "calls", "last", "mean", "most", "waits", "clock"], *map(_late, shown)]
        ),
    ]
    if any(row.computing_s is not None for row in ranks):
        head = ["overlap", "computing", "hidden", "exposed", "hidden share"]
        blocks.append(output.align([head, *map(_overlap, shown)]))
    if len(shown) < len(ranks):
        blocks.append(f"{len(ranks) - len(shown)} more ranks: --format csv prints all")
    head = ["collective", "group", "ranks", "V", "calls", "time", "busbw", "spread", "most", "last"]
    blocks.append(output.align([head, *map(_group, groups)]))
    blocks.append(
        output.align(
            [
                ["  last", "calls in which the rank got there last"],
                ["  mean", "how long after the first rank it got there"],
                ["  waits", "how long it waited for others within calls"],
                ["  time", "median of a call from when all ranks are there"],
                ["  spread", "median time from the first rank to the last"],
            ]
        )
    )
    return "\n\n".join(blocks)


def _late(row: RankRow) -> list[str]:
    return [
        f"  rank {row.rank}",
        str(row.calls),
        str(row.last),
        format_seconds(row.late_s),
        format_seconds(row.late_max_s),
        _seconds(row.waiting_s),
        format_seconds(row.clock_s),
    ]


def _overlap(row: RankRow) -> list[str]:
    hidden, exposed = row.hidden_s or 0.0, row.exposed_s or 0.0
    return [
        f"  rank {row.rank}",
        _seconds(row.computing_s),
        _seconds(row.hidden_s),
        _seconds(row.exposed_s),
        f"{hidden / ((hidden + exposed) or 1.0):.0%}",
    ]


def _group(row: GroupRow) -> list[str]:
    return [
        f"  {row.collective}",
        repr(row.group),
        str(row.ranks),
        "?" if row.size_B is None else format_bytes(row.size_B),
        str(row.calls),
        _seconds(row.time_s),
        "?" if row.busbw_Bps is None else format_bandwidth(row.busbw_Bps),
        format_seconds(row.spread_s),
        format_seconds(row.spread_max_s),
        "" if row.last is None else f"rank {row.last} ({row.last_share:.0%})",
    ]


def _seconds(value: float | None) -> str:
    return "?" if value is None else format_seconds(value)
