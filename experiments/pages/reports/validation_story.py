"""The answers of `simctl validate` and `simctl calibrate`: measured curves beside their simulation,
and how far to trust a profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from math import isfinite
from pathlib import PurePath
from statistics import mean, median
from typing import Any

from experiments.answer_blocks import Block, Facts, Record, Remarks, Story, listed, table
from experiments.output import counted
from experiments.pages.reports.result import Result
from experiments.profiles.interval_levels import RUNS
from experiments.simulations.validation import POINTS, shown_points
from experiments.templates import Lines, fill, headed, share, written
from topologies.units import format_bandwidth, format_bytes, format_seconds

Curves = Sequence[Mapping[str, Any]]


def validated(result: Result) -> Story:
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


UNSEEN = {
    "unseen": "unseen",
    "points": "points",
    "model": "model",
    "with discrepancy": "discrepancy",
    "inside 80%": "{inside:.0%}",
    "one α, β a curve": "baseline",
}
MEANING = """unseen: which points the fit was not allowed to see.
model: mean error of this kind of model there.
with discrepancy: the same, corrected by the errors at neighbouring points.
inside 80%: the share of the points inside their 80% intervals there; near 80% is right.
one α, β a curve: the error of a straight line through each curve, to compare with."""
CURVES = {
    **headed("curve", "collective", "algorithm", "ranks", "sizes"),
    "mean": "{mean:.1%}",
    "median": "{median:.1%}",
    "worst": "{worst:.1%}",
    "inside": "{inside:.0%}",
    "NCCL's own model": "{nccl:.1%}",
}
JUDGED_POINTS = {
    **headed("curve", "collective", "ranks", "size_B", "measured_s", "predicted_s"),
    "error": "{error:+.1%}",
    **RUNS,
    **headed("algorithm", "protocol"),
    "NCCL's own model": "nccl_s",
    "its error": "nccl_error",
}
WORST = 5


def judged(result: Result) -> Story:
    """The errors of a profile on runs."""
    points = result.report["points"]
    assert result.profile is not None
    unseen, profile = result.report["unseen"], result.profile.name
    runs = listed(PurePath(name).name for name in str(result.stated("logs")).split(","))
    order = sorted(points, key=lambda point: -abs(point["error"]))
    every = _profile_errors(points)
    summary = [
        f"How well does the profile {profile} predict the times measured in {runs}?",
        f"The mean error of {counted(len(points), 'point')} is {share(every['mean'])}. "
        f"The worst is {share(every['worst'])}, at "
        + fill("{size_B} with {ranks} ranks.", order[0]),
        ""
        if every["inside"] is None
        else f"{share(every['inside'])} of the points are inside the intervals of the profile.",
        _unseen(unseen),
    ]
    about = f"mean {every['mean']:.1%}, median {every['median']:.1%}"
    about += "" if every["nccl"] is None else f"; NCCL's own model: mean {every['nccl']:.1%}"
    if every["inside"] is not None:
        about += f"; {every['inside']:.0%} are inside their {result.level} intervals"
    note = f"|predicted / measured - 1| of {len(points)} points: {about}"
    curves = [
        {
            **_profile_errors(group),
            "curve": PurePath(name).stem,
            "ranks": ranks,
            "sizes": len(group),
        }
        | {"algorithm": listed(point["algorithm"] for point in group)}
        | {"collective": listed(point["collective"] for point in group)}
        for (name, ranks), members in groupby(points, lambda each: (each["curve"], each["ranks"]))
        for group in [list(members)]
    ]
    blocks: list[Block] = [
        table(f"{profile} as it is", curves, CURVES, note=note),
        table("Worst points", order[:WORST], JUDGED_POINTS, rare=["its error", "NCCL's own model"]),
        *([_held_out(unseen)] if unseen else []),
        table("All points", points, JUDGED_POINTS, page_only=True),
    ]
    return Story(f"The profile {profile} against {runs}", summary, blocks)


def _profile_errors(points: Sequence[Record]) -> dict[str, Any]:
    """Errors of points, and the share inside their intervals; None without intervals."""
    errors = [abs(point["error"]) for point in points]
    inside = [bool(point["inside"]) for point in points if "inside" in point]
    nccl = [abs(point["nccl_error"]) for point in points if point.get("nccl_error") is not None]
    return {
        "mean": mean(errors),
        "median": median(errors),
        "worst": max(errors),
        "inside": mean(inside) if inside else None,
        "nccl": mean(nccl) if nccl else None,
    }


def _unseen(errors: Mapping[str, Any]) -> str:
    known = {name: error["model"] for name, error in errors.items() if error["model"] is not None}
    if not known:
        return (
            "There are too few runs to judge this kind of model on points that a fit has not seen."
        )
    words = listed(f"{share(error)} on unseen {name}" for name, error in known.items())
    return f"Where a fit has not seen the points, the mean error of this kind of model is {words}."


def _held_out(errors: Mapping[str, Any]) -> Block:
    rows = [{"unseen": name, **error} for name, error in errors.items()]
    return table("Errors on points that the fit has not seen", rows, UNSEEN, note=MEANING)


def calibrated(result: Result) -> Story:
    """The parameters of a profile, and its errors."""
    profile = result.report
    estimates = profile["estimates"]
    unknown = [name for name, each in estimates.items() if each["open"]]
    identified = f"{len(estimates) - len(unknown)} of {len(estimates)} parameters are identified"
    why = f"; for {listed(unknown)} the runs say too little." if unknown else "."
    sources = counted(len(profile["sources"]), "curve")
    summary = [
        f"How fast are the links and the software of {profile['machine']}, by {sources} measured "
        f"with {profile['library']}?",
        _unseen(profile["errors"]),
        f"{identified}{why}",
    ]
    columns = {"parameter": "parameter", "value": "value", "95% from": "low", "to": "high"}
    columns |= {"not identified": "open"}
    note = "not identified: why the runs do not tell this parameter from others."
    rows = [_parameter(name, each) for name, each in estimates.items()]
    blocks: list[Block] = [table("Parameters", rows, columns, note=note)]
    if profile["errors"]:
        blocks.append(_held_out(profile["errors"]))
    title = f"The profile {profile['profile']}: {profile['library']} on {profile['machine']}, "
    return Story(f"{title}{sources}", summary, blocks)


def _parameter(name: str, estimate: Mapping[str, Any]) -> Record:
    """The value and its interval with their unit; a 1/β as bandwidth."""
    unit, inverse = estimate["unit"], "β" in name and estimate["unit"] not in ("power", "s")
    ends = [estimate["high"], estimate["low"]] if inverse else [estimate["low"], estimate["high"]]
    value, low, high = (
        None if each is None else _with_unit(name, unit, each)
        for each in (estimate["value"], *ends)
    )
    shown = name.replace("1/β", "β") if inverse else name
    return {"parameter": shown, "value": value, "low": low, "high": high, "open": estimate["open"]}


def _with_unit(name: str, unit: str, value: float) -> str:
    if unit == "power":
        return f"{value:+.3f}"
    if unit == "s":
        return format_seconds(value)
    if "β" not in name:
        return f"{value * 1e9:.3g} ns/B" if value < 1 else "-"
    return format_bandwidth(1 / value) if 1e-30 < value < 1e9 else "-"
