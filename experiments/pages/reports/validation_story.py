"""The answer of `simctl validate`: measured curves beside their simulation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import PurePath
from statistics import mean, median
from typing import Any

from experiments.answer_blocks import Block, Facts, Record, Remarks, Story, listed, table
from experiments.output import counted
from experiments.pages.reports.result import Result
from experiments.simulations.validation import POINTS, shown_points
from experiments.templates import Lines, share, written
from topologies.units import format_bandwidth, format_bytes, format_seconds

Curves = Sequence[Mapping[str, Any]]


def story(result: Result) -> Story:
    """How far the simulation is from what was measured."""
    curves: Curves = result.report
    log, machine = PurePath(str(result.stated("logs"))).name, result.stated("topology")
    names = listed(f"{curve['collective']} of {curve['ranks']} ranks" for curve in curves)
    points = [point for curve in curves for point in curve["points"] if not point["wrong"]]
    summary = [
        f"How well does the simulation on {machine} predict the times measured in {log}: {names}?",
        _answer(points, any(curve["fit"] for curve in curves)),
        _worst(points),
    ]
    blocks: list[Block] = []
    for curve in curves:
        title = f"{curve['title']}: {curve['algorithm']}"
        rows = shown_points(curve["points"], fit=bool(curve["fit"]))
        notes = ["error: predicted / measured - 1.", *_errors(curve, result.level)]
        notes += [note.removeprefix("note: ") for note in curve["notes"]]
        blocks.append(table(title, rows, POINTS, note="\n".join(notes)))
        if curve["fit"]:
            blocks.append(Facts("Fitted links", _fitted(curve["fit"])))
            links = result.words.get(curve["title"], "")
            again = f"simctl sweep --algo {curve['algorithm']} --topology {machine} {links}"
            blocks += [Remarks("Try", [again])] if links else []
    if standing := result.words.get("standing"):
        blocks.append(Remarks("Among the runs of measured machines", standing))
    return Story(f"Measured and simulated on {machine}: {log}", summary, blocks)


def _answer(points: Sequence[Record], fit: bool) -> str:
    unseen = [abs(point["error"]) for point in points if not point["fitted"]]
    if not unseen:
        return "No point is left to judge by."
    if fit:
        return (
            f"α and β of the links were fitted to every other size. At the {len(unseen)} sizes "
            f"that the fit has not seen, the mean error is {share(mean(unseen))}."
        )
    return f"The mean error of {counted(len(unseen), 'size')} is {share(mean(unseen))}."


def _worst(points: Sequence[Record]) -> str:
    if not points:
        return "All measured results were wrong."
    worst = max(points, key=lambda point: abs(point["error"]))
    way = "longer" if worst["error"] > 0 else "shorter"
    return (
        f"The worst prediction is at {format_bytes(worst['size_B'])}: "
        f"{share(abs(worst['error']))} {way} than measured."
    )


def _errors(curve: Mapping[str, Any], level: str) -> Iterator[str]:
    """A line on the errors of the sizes that the fit has seen, and one on those of the others; one
    on how many are inside their intervals."""
    points = [point for point in curve["points"] if not point["wrong"]]
    for role, fitted in (("fitted", True), ("unseen", False)):
        if errors := [abs(point["error"]) for point in points if point["fitted"] is fitted]:
            sizes = counted(len(errors), f"{role} size" if curve["fit"] else "size")
            middle = f"mean {mean(errors):.1%}, median {median(errors):.1%}"
            yield f"|error| of {sizes}: {middle}, worst {max(errors):.1%}"
    if inside := [point["inside"] for point in points if "inside" in point]:
        yield f"{sum(inside)} of {counted(len(inside), 'size')} inside their {level} intervals"


def _fitted(fit: Mapping[str, Any]) -> Lines:
    lines = []
    for name, field, unit in (("α", "latency", "_s"), ("β", "bandwidth", "_Bps")):
        show = format_seconds if unit == "_s" else format_bandwidth
        ends = [end for end in fit.get(f"{field}_interval") or () if end is not None]
        known = len(ends) == 2 and all(map(isfinite, ends))
        about = f"95%: {written(unit, ends[0])} to {written(unit, ends[1])}" if known else ""
        lines.append([f"{name} of a link", show(fit[field]), about])
    return lines
