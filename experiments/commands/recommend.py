"""`simctl recommend`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments import output
from experiments.profiles.interval_levels import level_of, span
from experiments.simulations.recommendation import (
    Advice,
    Answers,
    Crossover,
    Explained,
    Question,
)
from experiments.simulations.tuner_choices import check_tuner, tuner_lines
from experiments.simulations.tuner_file import written
from experiments.terms import footnote
from topologies.catalogue import Blueprint
from topologies.units import format_bytes, format_seconds, in_binary

if TYPE_CHECKING:
    from experiments.pages.reports.result import Picture

GAIN = 1.005
"""A default that takes no more than this many times as long is as good."""
SHOWN = 12
"""Algorithms in a picture, at most."""


@dataclass(frozen=True)
class Request:
    """What to recommend for, and which files to write."""

    question: Question
    sizes: Sequence[float]
    """In bytes, from the least."""
    machine: Blueprint
    explain: float | None = None
    """The size at which all algorithms are compared."""
    plot: Path | None = None
    tuner: Path | None = None
    report: Path | None = None


def run(request: Request, how: str) -> int:
    """Print the best algorithm of each size; 0."""
    question = request.question
    output.check_writable(request.plot, output.PICTURES)
    output.check_writable(request.tuner, (".csv", ".conf"))
    output.check_writable(request.report, output.REPORTS)
    if request.tuner:
        check_tuner(question.collective, request.sizes[0])
    progress = output.Progress("sizes")
    answers = Answers(question)
    if request.explain is not None:
        explained = answers.explained(request.explain)
        if request.report:
            records = [row.record() for row in explained]
            _write_report(request.report, request, "explain", records)
        output.say(_explained(explained, request, how))
        return 0
    rows = []
    for number, size in enumerate(request.sizes):
        progress(number, len(request.sizes))
        rows.append(answers.advice(size))
    progress(len(request.sizes), len(request.sizes))
    crossovers = answers.crossovers(request.sizes)
    if request.plot:
        kind = request.plot.suffix[1:].lower()
        output.write(request.plot, _picture(answers, request, rows, crossovers, kind))
    if request.tuner:
        comments = [f"simctl recommend: {_title(request)}", "set NCCL_TUNER_CONFIG_FILE"]
        output.write(request.tuner, written(tuner_lines(answers, request.sizes), comments))
    report: dict[str, object] = {
        "collective": question.collective,
        "ranks": question.ranks,
        "machine": request.machine.text,
        "advice": [row.record() for row in rows],
        "crossovers": [vars(crossover) for crossover in crossovers],
        "not_tried": [left._asdict() for left in answers.left],
    }
    if request.report:
        from experiments.pages.reports.result import Picture

        draw = partial(_picture, answers, request, rows, crossovers, "svg")
        _write_report(request.report, request, "recommend", report, [Picture("All sizes", draw)])
    if how == "json":
        output.say(output.to_json(report))
    elif how == "csv":
        output.say(output.to_csv([row.record() for row in rows]).rstrip("\n"))
    else:
        output.say(_text(request, rows, crossovers, answers))
    return 0


def _write_report(
    path: Path, request: Request, kind: str, report: object, pictures: Sequence[Picture] = ()
) -> None:
    from experiments.pages.reports.assumptions import assumptions
    from experiments.pages.reports.report_file import write
    from experiments.pages.reports.result import Result, origin

    question = request.question
    parameters: dict[str, output.Value] = {
        "collective": question.collective,
        "p": question.ranks,
        "topology": request.machine.text,
        "size": None if request.explain is None else format_bytes(request.explain),
        "profile": question.profile.name if question.profile else None,
    }
    missing = assumptions(request.machine, profile=question.profile)
    write(path, Result(kind, report, origin(parameters), pictures, left_out=missing))


def _title(request: Request) -> str:
    question = request.question
    return f"{question.collective} of {question.ranks} ranks on {request.machine.text}"


def _text(
    request: Request, rows: Sequence[Advice], crossovers: Sequence[Crossover], answers: Answers
) -> str:
    binary = in_binary([row.size_B for row in rows])
    level = level_of(request.question.profile)
    sure = ["expected", f"{level:.0%} of runs", "or"] if level else []
    table = [["size", "algorithm", "protocol", "channels", "message", "time", "of bound", "gain"]]
    table[0] += sure
    table += [
        [
            format_bytes(row.size_B, binary),
            row.algorithm,
            row.protocol or "-",
            str(row.channels),
            format_bytes(round(row.segment_B), binary),
            format_seconds(row.time_s),
            f"{row.over_bound:.2f}",
            f"{row.gain:.2f}x" if row.gain > GAIN else "-",
            *([*_interval(row), row.rival or "-"] if level else []),
        ]
        for row in rows
    ]
    if not any(row.protocol for row in rows):
        table = [line[:2] + line[3:] for line in table]
    changes = [
        f"from {format_bytes(crossover.size_B, binary)}: {crossover.after} instead of "
        f"{crossover.before}"
        for crossover in crossovers
    ]
    defaults = ", ".join(dict.fromkeys(row.default for row in rows))
    terms = [
        f"  gain      how many times as long the default of the library takes: {defaults}",
        "  of bound  the time as a multiple of the best lower bound",
        "  message   the largest message of the algorithm",
    ]
    if level:
        terms += [
            "  expected  half of the runs take longer; best and gain are by this time",
            "  or        the second fastest algorithm, if the difference is inside its error",
        ]
    names = dict.fromkeys(left.name for left in answers.left)
    if names:
        terms.append(f"  not tried here: {', '.join(names)} (--format json says why)")
    if request.question.profile is None:
        terms.append(footnote(["not included"]))
    why = ["why", *_reasons(rows, binary=binary)]
    blocks = [[_title(request)], [output.align(table)], changes, why, terms]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _reasons(rows: Sequence[Advice], *, binary: bool) -> list[str]:
    """The reason of each algorithm, at the first size at which it is best."""
    first = {row.algorithm: row for row in reversed(rows)}
    return [
        f"  {format_bytes(row.size_B, binary)} {row.algorithm}: {row.why}"
        for row in sorted(first.values(), key=lambda row: row.size_B)
    ]


def _explained(rows: Sequence[Explained], request: Request, how: str) -> str:
    assert request.explain is not None
    if how == "json":
        return output.to_json([row.record() for row in rows])
    if how == "csv":
        return output.to_csv([row.record() for row in rows]).rstrip("\n")
    level = level_of(request.question.profile)
    sure = ["expected", f"{level:.0%} of runs", "slower"] if level else []
    table = [["algorithm", "time", *sure, "of best", "steps", "where the time goes"]]
    table += [
        [
            row.algorithm,
            format_seconds(row.time_s),
            *([*_interval(row), "perhaps" if row.rival else "yes"] if level else []),
            f"{row.over_best:.2f}",
            str(row.steps),
            row.path + (f" ({row.protocol})" if row.protocol else ""),
        ]
        for row in rows
    ]
    if level:
        table[1][4] = "-"
    size = format_bytes(request.explain)
    return f"{_title(request)}, {size}\n\n{output.align(table)}"


def _interval(row: Advice | Explained) -> list[str]:
    """The expected time and the interval of a run."""
    return [format_seconds(row.expected_s or 0.0), span(row.low_s, row.high_s)]


def _picture(
    answers: Answers,
    request: Request,
    rows: Sequence[Advice],
    crossovers: Sequence[Crossover],
    kind: str,
) -> bytes:
    from experiments.pictures.recommendation_curves import recommendation_figure

    names = dict.fromkeys(name for row in rows for name in (row.algorithm, row.default))
    curves = {
        case.algorithm.name: [answers.seconds(case, row.size_B) for row in rows]
        for case in answers.cases
        if case.algorithm.name in list(names)[:SHOWN]
    }
    return recommendation_figure(rows, curves, crossovers, _title(request), kind)
