"""The reports of `simctl diagnose`: what is abnormal in curves, and who is late in a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from experiments.diagnosis.diagnosis_records import point_columns
from experiments.output import counted
from experiments.pages.page import Block, Lines
from experiments.pages.reports.report_tables import Record, listed, number, table
from experiments.pages.reports.result import Result, Story
from experiments.traces.job_tables import GROUPS, RANKS, WORDS, shown_ranks
from topologies.units import format_seconds

FEW = 12
"""Curves of which each has a table; of more, only the abnormal ones, at most so many."""


def curves(result: Result) -> Story:
    """What is abnormal, and what to try."""
    report = result.report
    found: Sequence[Mapping[str, Any]] = report["curves"]
    failures, differences = report["failures"], report["differences"]
    sources = [curve["source"] for curve in found] + [failure["source"] for failure in failures]
    named = str(result.origin.get("parameters", {}).get("logs") or ",".join(map(str, sources)))
    logs = listed((PurePath(name).name for name in named.split(",")), most=3)
    bad = [curve for curve in found if curve["abnormal"]]
    amount = counted(len(found), "measured curve")
    summary = [
        f"Are these measurements normal? This page judges {amount} of {logs}.",
        _answer(found, bad, failures, differences),
        _advice(found),
    ]
    rows = [_row(curve) for curve in found] if len(found) > 1 else []
    columns = {"log": "source", "collective": "collective", "ranks": "ranks", "nodes": "nodes"}
    columns |= {"verdict": "verdict", "findings": "findings"}
    blocks: list[Block] = [table("All curves", rows, columns)] if rows else []
    if differences:
        heads = {"collective": "collective", "ranks": "ranks", "slower": "slower"}
        heads |= {"faster": "faster", "difference": "text"}
        blocks.append(table("Between set-ups", differences, heads))
    if failures:
        heads = {"log": "source", "what": "kind", "text": "text"}
        blocks.append(table("Tests that failed", failures, heads))
    for curve in (found if len(found) <= FEW else bad)[:FEW]:
        blocks += _curve(curve, len(found) == 1)
    left = "simctl does not know how fast your links are: name your machine with --topology."
    expects = any(row.get("expected_s") is not None for c in found for row in c["points"])
    return Story(f"Diagnosis of {logs}", summary, blocks, [] if expects else [left])


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
    lines = [line for curve in found for line in curve["advice"]]
    facts = [line for curve in found for line in curve["facts"]]
    if lines:
        return f"Try first: {lines[0]}."
    return f"The first curve in figures: {facts[-1]}." if facts else "There is nothing to try."


def _row(curve: Mapping[str, Any]) -> Record:
    kinds = listed(str(finding["kind"]) for finding in curve["findings"])
    source = PurePath(str(curve["source"])).name
    return {**curve, "source": source, "findings": kinds or None}


def _curve(curve: Mapping[str, Any], alone: bool) -> list[Block]:
    """The findings of a curve, what to try, and its points."""
    ranks = f", {curve['ranks']} ranks" if curve["ranks"] else ""
    source = PurePath(str(curve["source"])).name
    name = "" if alone else f": {curve['collective']}{ranks}, {source}"
    bad = [f"{each['kind']}: {each['text']}" for each in curve["findings"] if each["alarm"]]
    known = [f"{each['kind']}: {each['text']}" for each in curve["findings"] if not each["alarm"]]
    lists = {
        "What is abnormal": bad,
        "What to try": curve["advice"],
        "Worth knowing": [*known, *curve["facts"]],
    }
    blocks: list[Block] = [Lines(f"{title}{name}", each) for title, each in lists.items() if each]
    note = (
        "regime: what limits the time at this size, for example latency or bandwidth.\n"
        "fitted: the time by the line α + V / β that simctl fitted to this part of the curve."
    )
    columns = {**point_columns(curve["ranks"]), "fitted": "fitted_s", "bound": "bound_s"}
    columns |= {"worth knowing": "notes"}
    return [*blocks, table(f"All sizes{name}", curve["points"], columns, ["busbw"], note)]


def job(result: Result) -> Story:
    """Who was late in a job, and how fast its collectives were."""
    report = result.report
    ranks, groups = report["ranks"], report["collectives"]
    problems = [f"{problem['kind']}: {problem['text']}" for problem in report["problems"]]
    latest = max(ranks, key=lambda row: number(row, "last"))
    summary = [
        f"Who was late in this job, and how fast were its collectives? This page shows the calls "
        f"of {counted(len(ranks), 'rank')}.",
        f"Abnormal: {problems[0]}." if problems else "Nothing abnormal was found.",
        f"Rank {latest['rank']} got to {counted(latest['last'], 'call')} last, on average "
        f"{format_seconds(number(latest, 'late_s'))} after the first rank.",
    ]
    words = "\n".join(f"{word}: {meaning}." for word, meaning in WORDS.items())
    blocks: list[Block] = [Lines("Abnormal", problems)] if problems else []
    blocks.append(table("Ranks", shown_ranks(ranks), RANKS))
    blocks.append(table("Collectives", groups, GROUPS, ["V", "busbw"], words))
    return Story("Diagnosis of a job", summary, blocks)
