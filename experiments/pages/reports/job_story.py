"""The answers of `simctl diagnose --job`: who is late in a job, and which ranks answer RAS."""

from __future__ import annotations

from experiments.answer_blocks import Block, Remarks, Story, table
from experiments.output import counted
from experiments.pages.reports.result import Result
from experiments.traces.job_tables import GROUPS, RANKS, WORDS, shown_ranks
from experiments.traces.ras_status import CommunicatorRow
from topologies.units import format_seconds


def job(result: Result) -> Story:
    """Who was late in a job, and how fast its collectives were."""
    report = result.report
    ranks, groups = report["ranks"], report["collectives"]
    problems = [f"{problem['kind']}: {problem['text']}" for problem in report["problems"]]
    latest = max(ranks, key=lambda row: row["last"])
    summary = [
        f"Who was late in this job, and how fast were its collectives? This page shows the calls "
        f"of {counted(len(ranks), 'rank')}.",
        f"Abnormal: {problems[0]}." if problems else "Nothing abnormal was found.",
        f"Rank {latest['rank']} got to {counted(latest['last'], 'call')} last, on average "
        f"{format_seconds(latest['late_s'])} after the first rank.",
    ]
    words = "\n".join(f"{word}: {meaning}." for word, meaning in WORDS.items())
    normal = result.words.get("normal")
    nothing = f"nothing is abnormal{f': {normal}' if normal else ''}"
    blocks: list[Block] = [
        Remarks("Verdict", problems or [nothing]),
        table("Ranks", shown_ranks(ranks), RANKS, first=16),
        table("Collectives", groups, GROUPS, ["V", "busbw"], words),
    ]
    calls = counted(result.words["calls"], "collective") if "calls" in result.words else "A job"
    took = f" in {format_seconds(result.words['seconds'])}" if "seconds" in result.words else ""
    return Story(f"{calls} of {len(ranks)} ranks{took}", summary, blocks)


def status(result: Result) -> Story:
    """Which ranks of a job answer NCCL's RAS, and whether all made the same calls."""
    communicators = result.report["communicators"]
    problems = [f"{problem['kind']}: {problem['text']}" for problem in result.report["problems"]]
    nothing = "all ranks answer, without an error, and made the same calls"
    if not communicators:
        nothing = "RAS knows no communicator of this job"
    verdict = problems or [nothing]
    title = f"{counted(len(communicators), 'communicator')} of a job"
    heads = {name: name for name in CommunicatorRow._fields}
    blocks: list[Block] = [
        Remarks("Verdict", verdict),
        table("Communicators", communicators, heads),
    ]
    summary = [
        f"Does this job hang, and where? This page shows {title}.",
        f"Abnormal: {problems[0]}." if problems else "Nothing abnormal was found.",
    ]
    return Story(title, summary, blocks)
