"""`simctl recommend`: the best algorithm by size, or which wins where by size and ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments import output
from experiments.commands.answer import Answer, Drawing, check_files
from experiments.profiles.interval_levels import level_of, span
from experiments.simulations.candidates import Left
from experiments.simulations.recommendation import (
    GAIN,
    Advice,
    Answers,
    Crossover,
    Explained,
    Question,
)
from experiments.simulations.tuner_choices import check_tuner, tuner_lines, write_tuner
from experiments.simulations.tuner_file import Line
from experiments.simulations.winners import OWN, Winner, own_software, winner
from experiments.terms import footnote
from topologies.catalogue import Blueprint
from topologies.units import format_bytes, format_seconds, in_binary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 12
"""Algorithms in a picture, at most."""


@dataclass(frozen=True)
class Request:
    """What to recommend for, and which files to write."""

    question: Question
    """Of any number of ranks."""
    ranks: Sequence[int]
    """Several make a map."""
    sizes: Sequence[float]
    """In bytes, from the least."""
    machine: Blueprint
    explain: float | None = None
    """The size at which all algorithms are compared."""
    plot: Path | None = None
    tuner: Path | None = None
    report: Path | None = None


Answered = tuple[Answer, str, Sequence[Line]]
"""An answer, its text, and the lines of a tuner file."""


def run(request: Request, how: str) -> int:
    """Print the best algorithms; 0."""
    check_files(plot=request.plot, report=request.report)
    output.check_writable(request.tuner, (".csv", ".conf"))
    if request.tuner:
        check_tuner(request.question.collective, request.sizes[0])
    if request.explain is not None:
        answer, text, lines = _explained(request, request.explain)
    else:
        answer, text, lines = _map(request) if len(request.ranks) > 1 else _by_size(request)
    answer.write(plot=request.plot, report=request.report)
    if request.tuner:
        write_tuner(request.tuner, lines, _title(request), request.question.profile)
    answer.show(how, lambda: text)
    return 0


def _answer(
    request: Request,
    kind: str,
    report: object,
    records: Sequence[output.Record],
    pictures: Sequence[Drawing] = (),
) -> Answer:
    question = request.question
    parameters: dict[str, output.Value] = {
        "collective": question.collective,
        "p": ",".join(map(str, request.ranks)),
        "topology": request.machine.text,
        "size": None if request.explain is None else format_bytes(request.explain),
        "profile": question.profile.name if question.profile else None,
    }
    about = parameters, request.machine, question.profile
    return Answer(kind, report, records, *about, pictures)


def _answers(request: Request, ranks: int) -> Answers:
    return Answers(replace(request.question, ranks=ranks))


def _by_size(request: Request) -> Answered:
    """The best algorithm of each size."""
    question, progress = request.question, output.Progress("sizes")
    answers, rows = _answers(request, question.ranks), list[Advice]()
    for number, size in enumerate(request.sizes):
        progress(number, len(request.sizes))
        rows.append(answers.advice(size))
    progress(len(request.sizes), len(request.sizes))
    crossovers, records = answers.crossovers(request.sizes), [row.record() for row in rows]
    report = {
        "collective": question.collective,
        "ranks": question.ranks,
        "machine": request.machine.text,
        "advice": records,
        "crossovers": [vars(crossover) for crossover in crossovers],
        "not_tried": [left._asdict() for left in answers.left],
    }
    draw = partial(_curves, answers, request, rows, crossovers)
    lines = tuner_lines(answers, request.sizes) if request.tuner else []
    text = _text(request, rows, crossovers, answers)
    return _answer(request, "recommend", report, records, [("All sizes", draw)]), text, lines


def _map(request: Request) -> Answered:
    """The best algorithm of each number of ranks and size."""
    winners, lines, left = list[Winner](), list[Line](), dict[Left, None]()
    progress = output.Progress("points")
    total = len(request.ranks) * len(request.sizes)
    for ranks in request.ranks:
        answers = _answers(request, ranks)
        left.update(dict.fromkeys(answers.left))
        for size in request.sizes:
            progress(len(winners), total)
            winners.append(winner(answers, size))
        lines += tuner_lines(answers, request.sizes) if request.tuner else []
    progress(total, total)
    records = [each.record() for each in winners]
    report = {
        "collective": request.question.collective,
        "machine": request.machine.text,
        "winners": records,
        "not_tried": [each._asdict() for each in left],
    }
    draw = partial(_cells, winners, _title(request))
    text = _map_text(request, winners, list(left))
    return _answer(request, "winners", report, records, [("Who wins where", draw)]), text, lines


def _title(request: Request) -> str:
    question = request.question
    ranks = f" of {question.ranks} ranks" if len(request.ranks) == 1 else ""
    return f"{question.collective}{ranks} on {request.machine.text}"


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
        terms.append(_without_library(request.question))
    why = ["why", *_reasons(rows, binary=binary)]
    blocks = [[_title(request)], [output.align(table)], changes, own_software(rows), why, terms]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _without_library(question: Question) -> str:
    return footnote(["not included", *(["any software"] if question.runs is None else [])])


def _reasons(rows: Sequence[Advice], *, binary: bool) -> list[str]:
    """The reason of each algorithm, at the first size at which it is best."""
    first = {row.algorithm: row for row in reversed(rows)}
    return [
        f"  {format_bytes(row.size_B, binary)} {row.algorithm}: {row.why}"
        for row in sorted(first.values(), key=lambda row: row.size_B)
    ]


def _explained(request: Request, nbytes: float) -> Answered:
    """All algorithms at one size. Below are those that the library cannot run."""
    rows = _answers(request, request.question.ranks).explained(nbytes)
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
    lines = output.align(table).split("\n")
    own = sum(bool(row.own_software) for row in rows)
    lines[len(lines) - own : 0] = [f"\n{OWN}"] if own else []
    text = "\n".join([f"{_title(request)}, {format_bytes(nbytes)}\n", *lines])
    records = [row.record() for row in rows]
    return _answer(request, "explain", records, records), text, ()


def _interval(row: Advice | Explained) -> list[str]:
    """The expected time and the interval of a run."""
    return [format_seconds(row.expected_s or 0.0), span(row.low_s, row.high_s)]


def _curves(
    answers: Answers,
    request: Request,
    rows: Sequence[Advice],
    crossovers: Sequence[Crossover],
) -> Figure:
    from experiments.pictures.recommendation_curves import recommendation_drawing

    names = dict.fromkeys(name for row in rows for name in (row.algorithm, row.default))
    curves = {
        case.algorithm.name: [answers.seconds(case, row.size_B) for row in rows]
        for case in answers.cases
        if case.algorithm.name in list(names)[:SHOWN]
    }
    return recommendation_drawing(rows, curves, crossovers, _title(request))


def _map_text(request: Request, winners: Sequence[Winner], left: Sequence[Left]) -> str:
    binary = in_binary(request.sizes)
    cells = {(each.ranks, each.advice.size_B): _cell(each) for each in winners}
    table = [["size", *(f"p = {ranks}" for ranks in request.ranks)]]
    table += [
        [format_bytes(size, binary), *(cells[ranks, size] for ranks in request.ranks)]
        for size in request.sizes
    ]
    terms = ["  1.2x  the second algorithm takes 1.2 times as long"]
    if any(each.advice.rival for each in winners):
        terms.append("  ?     the second may be as fast: the difference is inside its error")
    names = dict.fromkeys(each.name for each in left)
    if names:
        terms.append(f"  not tried everywhere: {', '.join(names)} (--format json says why)")
    if not request.question.profile:
        terms.append(_without_library(request.question))
    title = f"{_title(request)}: the fastest algorithm"
    own = own_software([each.advice for each in winners])
    blocks = [[title], [output.align(table)], own, terms]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _cell(winner: Winner) -> str:
    unsure = "?" if winner.advice.rival else ""
    return f"{winner.name} {winner.margin:.2f}x{unsure}" if winner.margin else winner.name


def _cells(winners: Sequence[Winner], title: str) -> Figure:
    from experiments.pictures.winner_map import winner_map_drawing

    return winner_map_drawing(winners, f"{title}: the fastest algorithm by size and ranks")
