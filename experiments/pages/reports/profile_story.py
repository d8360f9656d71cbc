"""The reports of `simctl calibrate` and `validate --held-out`: how far to trust a profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import PurePath
from typing import Any

from experiments.output import counted
from experiments.pages.page import Block, Table
from experiments.pages.reports.report_tables import Record, listed, number, table
from experiments.pages.reports.result import Result, Story
from experiments.profiles.interval_levels import RUNS
from experiments.templates import share, written
from topologies.units import format_bandwidth, format_bytes, format_seconds

UNSEEN = {
    "unseen": "unseen",
    "points": "points",
    "model": "model",
    "with discrepancy": "discrepancy",
    "inside 80% intervals": "inside_share",
    "one α, β a curve": "baseline",
}
MEANING = """unseen: which points the fit was not allowed to see.
model: mean error of this kind of model there.
with discrepancy: the same, corrected by the errors at neighbouring points.
inside 80% intervals: the share of the points there; near 80% is right.
one α, β a curve: the error of a straight line through each curve, to compare with."""


def judged(result: Result) -> Story:
    """The errors of a profile on runs."""
    points: Sequence[Record] = result.report["points"]
    parameters = result.origin.get("parameters", {})
    profile = parameters.get("profile")
    runs = listed(PurePath(name).name for name in str(parameters.get("runs")).split(","))
    errors = [abs(number(point, "error")) for point in points]
    worst = max(points, key=lambda point: abs(number(point, "error")))
    summary = [
        f"How well does the profile {profile} predict the times measured in {runs}?",
        f"The mean error of {counted(len(points), 'point')} is {share(sum(errors) / len(errors))}. "
        f"The worst is {share(abs(number(worst, 'error')))}, at "
        f"{format_bytes(number(worst, 'size_B'))} with {worst['ranks']} ranks.",
        *_inside(points),
        _unseen(result.report["unseen"]),
    ]
    columns = {"curve": "curve", "collective": "collective", "ranks": "ranks", "sizes": "sizes"}
    columns |= {"mean error": "mean_share", "worst": "worst_share"}
    columns |= {"inside intervals": "inside_share"}
    rows = {"curve": "curve", "collective": "collective", "ranks": "ranks", "size": "size_B"}
    rows |= {"measured": "measured_s", "predicted": "predicted_s", "error": "error"}
    rows |= {**RUNS, "algorithm": "algorithm", "protocol": "protocol", "NCCL's own model": "nccl_s"}
    rows |= {"its error": "nccl_error"}
    blocks: list[Block] = [
        table("Errors by curve", list(_curves(points)), columns),
        *([_held_out(result.report["unseen"])] if result.report["unseen"] else []),
        table("All points", points, rows, note="error: predicted / measured - 1."),
    ]
    return Story(f"The profile {profile} against {runs}", summary, blocks)


def _curves(points: Sequence[Record]) -> list[Record]:
    rows = list[Record]()
    for (curve, ranks), group in groupby(points, lambda each: (each["curve"], each["ranks"])):
        members = list(group)
        errors = [abs(number(point, "error")) for point in members]
        rows.append(
            {
                "curve": curve,
                "collective": listed(point["collective"] for point in members),
                "ranks": ranks,
                "sizes": len(members),
                "mean_share": sum(errors) / len(errors),
                "worst_share": max(errors),
                "inside_share": _coverage(members),
            }
        )
    return rows


def _coverage(points: Sequence[Record]) -> float | None:
    """The share of points inside their intervals; None without intervals."""
    known = [bool(point["inside"]) for point in points if "inside" in point]
    return sum(known) / len(known) if known else None


def _inside(points: Sequence[Record]) -> list[str]:
    inside = _coverage(points)
    if inside is None:
        return []
    return [f"{share(inside)} of the points are inside the intervals that the profile gives them."]


def _unseen(errors: Mapping[str, Any]) -> str:
    known = {name: error["model"] for name, error in errors.items() if error["model"] is not None}
    if not known:
        return (
            "There are too few runs to judge this kind of model on points that a fit has not seen."
        )
    words = listed(f"{share(mean)} on unseen {name}" for name, mean in known.items())
    return f"Where a fit has not seen the points, the mean error of this kind of model is {words}."


def _held_out(errors: Mapping[str, Any]) -> Table:
    rows = [
        {"unseen": name, **error, "inside_share": error.get("inside")}
        for name, error in errors.items()
    ]
    return table("Errors on points that the fit has not seen", rows, UNSEEN, note=MEANING)


def calibrated(result: Result) -> Story:
    """The parameters of a profile, and its errors."""
    profile = result.report
    estimates: Mapping[str, Any] = profile["estimates"]
    unknown = [name for name, each in estimates.items() if each["open"]]
    identified = f"{len(estimates) - len(unknown)} of {len(estimates)} parameters are identified"
    why = f"; for {listed(unknown)} the runs say too little." if unknown else "."
    sources = counted(len(profile.get("sources", ())), "curve")
    summary = [
        f"How fast are the links and the software of {profile['machine']}, by {sources} measured "
        f"with {profile['library']}?",
        _unseen(profile["errors"]),
        f"{identified}{why}",
    ]
    rows = [
        {"parameter": name, "unit": each["unit"], **_shown(name, each), "open": each["open"]}
        for name, each in estimates.items()
    ]
    columns = {"parameter": "parameter", "value": "value", "95% from": "low", "to": "high"}
    columns |= {"not identified": "open"}
    note = "not identified: why the runs do not tell this parameter from others."
    blocks: list[Block] = [table("Parameters", rows, columns, note=note)]
    if profile["errors"]:
        blocks.append(_held_out(profile["errors"]))
    return Story(f"The profile {profile['profile']}", summary, blocks)


def _shown(name: str, estimate: Mapping[str, Any]) -> dict[str, str]:
    """The value and its interval with their unit; a 1/β as bandwidth."""
    return {
        key: _with_unit(name, estimate["unit"], estimate[key]) for key in ("value", "low", "high")
    }


def _with_unit(name: str, unit: str, value: float | None) -> str:
    if value is None:
        return "-"
    if unit == "s":
        return format_seconds(value)
    if "1/β" in name and 1e-30 < value < 1e9:
        return f"1 / {format_bandwidth(1 / value)}"
    return f"{written('', float(value))} {'' if unit == 'power' else unit}".strip()
