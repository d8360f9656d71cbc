"""`simctl recommend` with several numbers of ranks: which algorithm wins where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from experiments import output
from experiments.simulations.candidates import Left
from experiments.simulations.recommendation import Answers, Question
from experiments.simulations.tuner_choices import check_tuner, tuner_lines
from experiments.simulations.tuner_file import Line, written
from experiments.simulations.winners import Winner, winner
from experiments.terms import footnote
from topologies.catalogue import Blueprint
from topologies.units import format_bytes, in_binary


@dataclass(frozen=True)
class Request:
    """What to recommend for, and which files to write."""

    question: Question
    """Of any number of ranks."""
    ranks: Sequence[int]
    sizes: Sequence[float]
    """In bytes, from the least."""
    machine: Blueprint
    plot: Path | None = None
    tuner: Path | None = None
    report: Path | None = None


def run(request: Request, how: str) -> int:
    """Print the best algorithm of each number of ranks and size; 0."""
    output.check_writable(request.plot, output.PICTURES)
    output.check_writable(request.tuner, (".csv", ".conf"))
    output.check_writable(request.report, output.REPORTS)
    if request.tuner:
        check_tuner(request.question.collective, request.sizes[0])
    winners, lines, left = _winners(request)
    if request.plot:
        output.write(request.plot, _picture(winners, _title(request), request.plot.suffix[1:]))
    if request.tuner:
        comments = [f"simctl recommend: {_title(request)}", "set NCCL_TUNER_CONFIG_FILE"]
        output.write(request.tuner, written(lines, comments))
    report: dict[str, object] = {
        "collective": request.question.collective,
        "machine": request.machine.text,
        "winners": [winner.record() for winner in winners],
        "not_tried": [each._asdict() for each in left],
    }
    if request.report:
        _write_report(request, request.report, report, winners)
    if how == "json":
        output.say(output.to_json(report))
    elif how == "csv":
        output.say(output.to_csv([winner.record() for winner in winners]).rstrip("\n"))
    else:
        output.say(_text(request, winners, left))
    return 0


def _winners(request: Request) -> tuple[list[Winner], list[Line], list[Left]]:
    """The winners, the lines of a tuner file if there is one, and the algorithms not tried."""
    winners, lines, left = list[Winner](), list[Line](), dict[Left, None]()
    progress = output.Progress("points")
    total = len(request.ranks) * len(request.sizes)
    for ranks in request.ranks:
        answers = Answers(replace(request.question, ranks=ranks))
        left.update(dict.fromkeys(answers.left))
        for size in request.sizes:
            progress(len(winners), total)
            winners.append(winner(answers, size))
        lines += tuner_lines(answers, request.sizes) if request.tuner else []
    progress(total, total)
    return winners, lines, list(left)


def _title(request: Request) -> str:
    return f"{request.question.collective} on {request.machine.text}"


def _picture(winners: Sequence[Winner], title: str, kind: str) -> bytes:
    from experiments.pictures.figure_file import to_bytes
    from experiments.pictures.winner_map import winner_map_drawing

    drawing = winner_map_drawing(winners, f"{title}: the fastest algorithm by size and ranks")
    return to_bytes(drawing, kind.lower())


def _write_report(request: Request, path: Path, report: object, winners: Sequence[Winner]) -> None:
    from experiments.pages.reports.assumptions import assumptions
    from experiments.pages.reports.report_file import write
    from experiments.pages.reports.result import Picture, Result, origin

    profile = request.question.profile
    parameters: dict[str, output.Value] = {
        "collective": request.question.collective,
        "p": ",".join(map(str, request.ranks)),
        "topology": request.machine.text,
        "profile": profile.name if profile else None,
    }
    pictures = [Picture("Who wins where", partial(_picture, winners, _title(request), "svg"))]
    missing = assumptions(request.machine, profile=profile)
    write(path, Result("winners", report, origin(parameters), pictures, left_out=missing))


def _text(request: Request, winners: Sequence[Winner], left: Sequence[Left]) -> str:
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
        terms.append(footnote(["not included"]))
    title = f"{_title(request)}: the fastest algorithm"
    return "\n\n".join([title, output.align(table), "\n".join(terms)])


def _cell(winner: Winner) -> str:
    unsure = "?" if winner.advice.rival else ""
    return f"{winner.name} {winner.margin:.2f}x{unsure}" if winner.margin else winner.name
