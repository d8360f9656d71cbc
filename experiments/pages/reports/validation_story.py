"""The report of `simctl validate`: measured curves beside their simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from experiments.output import counted
from experiments.pages.page import Block, Facts
from experiments.pages.reports.report_tables import listed, number, table
from experiments.pages.reports.result import Result, Story
from experiments.simulations.validation import POINTS, shown_points
from experiments.templates import share, written
from topologies.units import format_bandwidth, format_bytes, format_seconds


def story(result: Result) -> Story:
    """How far the simulation is from what was measured."""
    curves: Sequence[Mapping[str, Any]] = result.report
    parameters = result.origin.get("parameters", {})
    log, machine = PurePath(str(parameters.get("log"))).name, parameters.get("topology")
    names = listed(f"{curve['collective']} of {curve['ranks']} ranks" for curve in curves)
    summary = [
        f"How well does the simulation on {machine} predict the times measured in {log}: {names}?",
        _answer(curves),
        _worst(curves),
    ]
    blocks: list[Block] = []
    for curve in curves:
        title = f"{curve['title']}: {curve['algorithm']}"
        rows = shown_points(curve["points"], fit=bool(curve["fit"]))
        note = "error: predicted / measured - 1."
        if any("low_s" in row for row in rows):
            note += " interval: of a run."
        blocks.append(table(title, rows, POINTS, note="\n".join([note, *curve["notes"]])))
        if curve["fit"]:
            blocks.append(_fitted(curve["fit"]))
    return Story(f"Measured and simulated: {log}", summary, blocks)


def _answer(curves: Sequence[Mapping[str, Any]]) -> str:
    points = [point for curve in curves for point in curve["points"] if not point["wrong"]]
    fit = any(curve["fit"] for curve in curves)
    unseen = [abs(number(point, "error")) for point in points if not point["fitted"]]
    if not unseen:
        return "No point is left to judge by."
    mean = share(sum(unseen) / len(unseen))
    if fit:
        return (
            f"α and β of the links were fitted to every other size. At the {len(unseen)} sizes "
            f"that the fit has not seen, the mean error is {mean}."
        )
    return f"The mean error of {counted(len(unseen), 'size')} is {mean}."


def _worst(curves: Sequence[Mapping[str, Any]]) -> str:
    points = [point for curve in curves for point in curve["points"] if not point["wrong"]]
    if not points:
        return "All measured results were wrong."
    worst = max(points, key=lambda point: abs(number(point, "error")))
    way = "longer" if number(worst, "error") > 0 else "shorter"
    return (
        f"The worst prediction is at {format_bytes(number(worst, 'size_B'))}: "
        f"{share(abs(number(worst, 'error')))} {way} than measured."
    )


def _fitted(fit: Mapping[str, Any]) -> Facts:
    values = {"α, the latency of a link": format_seconds(number(fit, "latency"))}
    values["β, the bandwidth of a link"] = format_bandwidth(number(fit, "bandwidth"))
    for name, field in (("α", "latency_interval"), ("β", "bandwidth_interval")):
        ends = [written("_s" if name == "α" else "_Bps", end) for end in fit.get(field) or ()]
        if len(ends) == 2 and "-" not in ends:
            values[f"95% interval of {name}"] = f"{ends[0]} to {ends[1]}"
    return Facts("Fitted links", values)
