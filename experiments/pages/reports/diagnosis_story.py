"""The answers of `simctl diagnose` and `simctl expect`: what is abnormal in curves and in jobs, and
what is normal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from experiments.answer_blocks import Block, Record, Remarks, Story, listed, table
from experiments.diagnosis.diagnosis_records import point_columns
from experiments.output import counted
from experiments.pages.reports.result import Picture, Result
from experiments.templates import headed
from experiments.traces.job_tables import GROUPS, RANKS, WORDS, shown_ranks
from experiments.traces.ras_status import CommunicatorRow
from topologies.units import format_bandwidth, format_bytes, format_seconds

TERMINAL, PAGE = 4, 12
"""Curves of which each has a table in a terminal, and on a page; of more, only the abnormal ones
are told."""
COLUMNS = {"log": "source", **headed("collective", "ranks", "nodes", "verdict", "findings")}


def curves(result: Result) -> Story:
    """What is abnormal, and what to try."""
    report = result.report
    judged = report["curves"]
    failures, differences = report["failures"], report["differences"]
    sources = [curve["source"] for curve in judged] + [failure["source"] for failure in failures]
    named = str(result.stated("logs") or ",".join(map(str, sources)))
    logs = listed((PurePath(name).name for name in named.split(",")), most=3)
    bad = [curve for curve in judged if curve["abnormal"]]
    total = [f"{len(bad)} of {counted(len(judged), 'curve')} abnormal"]
    total += [f"{counted(len(differences), 'difference')} between set-ups"] * bool(differences)
    total += [f"{counted(len(failures), 'failure')} of tests"] * bool(failures)
    summary = [
        f"Are these measurements normal? This page judges "
        f"{counted(len(judged), 'measured curve')} of {logs}.",
        _answer(judged, bad, failures, differences),
        _advice(judged),
    ]
    blocks: list[Block] = []
    if len(judged) > 1:
        blocks.append(table("All curves", [*map(_row, judged)], COLUMNS))
    if differences:
        heads = {**headed("collective", "ranks", "slower", "faster"), "difference": "text"}
        lines = [f"abnormal: {each['text']}" for each in differences]
        tries = [f"try: {line}" for line in result.words.get("between", ())]
        blocks.append(Remarks("Between set-ups", [*lines, *tries]))
        blocks.append(table("Set-ups that differ", differences, heads, page_only=True))
    if failures:
        lines = [
            f"abnormal: {each['kind']}, {PurePath(each['source']).name}: {each['text']}"
            for each in failures
        ]
        tries = [f"try: {line}" for line in result.words.get("tests", ())]
        blocks.append(Remarks("Tests that failed", [*lines, *tries]))
    for curve in (judged if len(judged) <= PAGE else bad)[:PAGE]:
        blocks += _curve(curve, len(judged), {failure["source"] for failure in failures})
    left = "simctl does not know how fast your links are: name your machine with --topology."
    expects = any(row.get("expected_s") is not None for c in judged for row in c["points"])
    title = f"Diagnosis of {logs}: {', '.join(total)}"
    return Story(title, summary, blocks, [] if expects else [left])


def _answer(
    found: Sequence[Any], bad: Sequence[Any], failures: Sequence[Any], differences: Sequence[Any]
) -> str:
    if failures and not found:
        return f"{counted(len(failures), 'test')} failed, and no times were measured."
    if not bad:
        short = sum(curve["verdict"] != "healthy" for curve in found)
        few = f" {counted(short, 'curve')} had too few points to judge." if short else ""
        text = f"Nothing abnormal was found.{few}"
    else:
        alarms = [finding for curve in bad for finding in curve["findings"] if finding["alarm"]]
        verb = "is" if len(bad) == 1 else "are"
        text = f"{len(bad)} of {counted(len(found), 'curve')} {verb} abnormal: {alarms[0]['text']}."
    rest = [counted(len(failures), "failed test")] * bool(failures)
    rest += [counted(len(differences), "difference") + " between set-ups"] * bool(differences)
    return f"{text} There is also: {listed(rest)}." if rest else text


def _advice(found: Sequence[Mapping[str, Any]]) -> str:
    causes = [line for curve in found for line in curve.get("causes", ())]
    if causes:
        return f"{causes[0][0].upper()}{causes[0][1:]}."
    lines = [line for curve in found for line in curve["advice"]]
    facts = [line for curve in found for line in curve["facts"]]
    if lines:
        return f"Try first: {lines[0]}."
    return f"The first curve in figures: {facts[-1]}." if facts else "There is nothing to try."


def _row(curve: Mapping[str, Any]) -> Record:
    kinds = listed(str(finding["kind"]) for finding in curve["findings"])
    source = PurePath(str(curve["source"])).name
    return {**curve, "source": source, "findings": kinds or None}


def _curve(curve: Mapping[str, Any], number: int, died: set[str]) -> Iterator[Block]:
    """What is found in one of a number of curves, what to try, and its points. Findings say of
    tests that `died` that they did not end."""
    from experiments.measurements.curve import COLLECTIVE, NO_FOOTER

    ranks = counted(curve["ranks"], "rank") if curve["ranks"] else "ranks unknown"
    kind = "" if curve["kind"] == COLLECTIVE else curve["kind"]
    about = ", ".join(word for word in (curve["collective"], kind, ranks) if word)
    name = f"{about}, {PurePath(str(curve['source'])).name}"
    lines = [
        f"{'abnormal' if each['alarm'] else 'note'}: {each['kind']}, {each['text']}"
        for each in curve["findings"]
    ]
    if NO_FOOTER in curve["notes"] and curve["source"] not in died:
        lines.append(f"note: {NO_FOOTER}")
    if curve["capped"]:
        lines.append(
            "note: the benchmark itself lowered its largest size for lack of memory: no fault"
        )
    lines += curve.get("causes", ())
    lines += [*curve["facts"], *(f"try: {line}" for line in curve["advice"])]
    is_long = number > TERMINAL
    yield Remarks(f"{name}: {curve['verdict']}", lines, page_only=is_long and not curve["abnormal"])
    terms = ["busbw"]
    note = (
        "regime: what limits the time at this size, for example latency or bandwidth.\n"
        "fitted: the time by the line α + V / β that simctl fitted to this part of the curve."
    )
    columns = {**point_columns(curve["ranks"]), **headed("fitted_s", "bound_s")}
    columns |= {"worth knowing": "notes"}
    rare = ["worth knowing", "bound", "fitted"]
    yield table(
        f"All sizes: {name}", curve["points"], columns, terms, note, rare=rare, page_only=is_long
    )


EXPECTED = {
    "size": "size_B",
    "time": "expected_s",
    "{level:.0%} of runs": "{low_s} - {high_s}",
    "busbw": "busbw_Bps",
    "{level:.0%} of runs ": "{low_Bps} - {high_Bps}",
    "algorithm": "algorithm",
}


def expected(result: Result) -> Story:
    """What a library should give on a machine."""
    rows = result.report
    first, last = rows[0], rows[-1]
    library = f"{first['library']} {first['version']}".strip()
    case = (
        f"{first['collective']} of {library}, {counted(first['ranks'], 'rank')} on "
        f"{first['machine']}"
    )
    summary = [
        f"What should {case} give?",
        f"{format_bandwidth(last['busbw_Bps'])} at {format_bytes(last['size_B'], binary=True)}: "
        f"{last['level']:.0%} of runs have {format_bandwidth(last['low_Bps'])} to "
        f"{format_bandwidth(last['high_Bps'])}.",
    ]
    block = table("What each size should give", rows, EXPECTED, ["V", "busbw"])
    return Story(f"Expected: {case}", summary, [block])


def pictures(results: Sequence[Any]) -> list[Picture]:
    """A picture of each diagnosis."""
    return [
        Picture(f"{_about(each.curve)}: {each.verdict}", (each,), str(number), bool(each.abnormal))
        for number, each in enumerate(results, 1)
    ]


def _about(curve: Any) -> str:
    ranks = f", {curve.ranks} ranks" if curve.ranks else ""
    return f"{curve.collective}{ranks}, {PurePath(curve.source).name}"


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
