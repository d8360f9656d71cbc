"""The answers of `simctl calibrate` and `validate --held-out`: how far to trust a profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import PurePath
from statistics import mean, median
from typing import Any

from experiments.answer_blocks import Block, Record, Story, listed, table
from experiments.output import counted
from experiments.pages.reports.result import Result
from experiments.profiles.interval_levels import RUNS
from experiments.templates import fill, share
from topologies.units import format_bandwidth, format_seconds

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
    "curve": "curve",
    "collective": "collective",
    "algorithm": "algorithm",
    "ranks": "ranks",
    "sizes": "sizes",
    "mean": "{mean:.1%}",
    "median": "{median:.1%}",
    "worst": "{worst:.1%}",
    "inside": "{inside:.0%}",
    "NCCL's own model": "{nccl:.1%}",
}
POINTS = {
    "curve": "curve",
    "collective": "collective",
    "ranks": "ranks",
    "size": "size_B",
    "measured": "measured_s",
    "predicted": "predicted_s",
    "error": "{error:+.1%}",
    **RUNS,
    "algorithm": "algorithm",
    "protocol": "protocol",
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
    every = _errors(points)
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
        {**_errors(group), "curve": PurePath(name).stem, "ranks": ranks, "sizes": len(group)}
        | {"algorithm": listed(point["algorithm"] for point in group)}
        | {"collective": listed(point["collective"] for point in group)}
        for (name, ranks), members in groupby(points, lambda each: (each["curve"], each["ranks"]))
        for group in [list(members)]
    ]
    blocks: list[Block] = [
        table(f"{profile} as it is", curves, CURVES, note=note),
        table("Worst points", order[:WORST], POINTS, rare=["its error", "NCCL's own model"]),
        *([_held_out(unseen)] if unseen else []),
        table("All points", points, POINTS, page_only=True),
    ]
    return Story(f"The profile {profile} against {runs}", summary, blocks)


def _errors(points: Sequence[Record]) -> dict[str, Any]:
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
