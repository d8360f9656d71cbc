"""`simctl diagnose --job`: who was late in a job, and how fast its collectives were."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments import output
from experiments.commands.answer import Answer, check_files
from experiments.templates import render
from experiments.traces.job_calls import JobCalls
from experiments.traces.job_folder import read_job
from experiments.traces.job_tables import (
    GROUPS,
    RANKS,
    WORDS,
    GroupRow,
    Problem,
    RankRow,
    group_rows,
    normal,
    problems,
    rank_rows,
    shown_ranks,
)
from topologies.units import format_seconds

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
    shown = shown_ranks(row._asdict() for row in ranks)[:LATEST]
    title = (
        f"{output.counted(len(job.calls), 'collective')} of {len(ranks)} ranks in "
        f"{format_seconds(job.seconds)}"
    )
    listed = [f"  abnormal: {problem.kind}, {problem.text}" for problem in wrong]
    listed = listed or [f"  nothing is abnormal: {normal(job)}"]
    blocks = ["\n".join([title, *listed]), render(shown, RANKS)]
    if len(shown) < len(ranks):
        blocks.append(f"{len(ranks) - len(shown)} more ranks: --format csv prints all")
    blocks.append(render([row._asdict() for row in groups], GROUPS))
    blocks.append(output.align([[f"  {word}", meaning] for word, meaning in WORDS.items()]))
    return "\n\n".join(blocks)
