"""What `simctl run` prints of a collective."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from typing import cast

import numpy as np

from experiments import output
from experiments.profiles.interval_levels import span
from experiments.simulations.sweep_rows import SweepRow
from experiments.terms import footnote, inexact
from simulator.analysis.critical_path import CriticalPath, worth
from simulator.schedules.timeline import Timeline
from topologies.units import format_bandwidth, format_bytes, format_seconds, in_binary

BUSIEST = 8
LEAST = 0.01
"""A correction by measured runs is printed from this share on."""
PARAMETERS = {
    "latency": "α",
    "gap": "g",
    "serialisation": "1/β",
    "reduction": "γ",
    "copy": "copy",
    "compute": "compute",
}


def _bytes(nbytes: float, row: SweepRow) -> str:
    """In the units that V is written in."""
    return format_bytes(nbytes, in_binary([row.size_B]))


def busiest(timeline: Timeline) -> list[dict[str, output.Value]]:
    """The media of the machine that carried most, most used first."""
    share, nbytes = timeline.utilisation(), timeline.medium_bytes()
    names, standing = timeline.routed.machine.medium_names, timeline.routed.standing
    if len(standing):
        share, nbytes = (np.append(column, 0.0)[standing] for column in (share, nbytes))
    order = np.lexsort((np.arange(len(share)), -np.round(nbytes, 3), -np.round(share, 12)))
    return [
        {"medium": names[m], "busy": float(share[m]), "bytes_B": float(nbytes[m])}
        for m in order[:BUSIEST].tolist()
        if nbytes[m] > 0
    ]


def text(
    row: SweepRow,
    title: str,
    report: Mapping[str, object],
    path: CriticalPath,
    waiting: list[list[str]],
    level: float,
) -> str:
    """The report of a collective. `waiting` are the rows of contention, `level` is that of the
    interval."""
    media = cast(list[dict[str, output.Value]], report["busiest"])
    simulated = cast(int, report["ranks_simulated"])
    standing = (
        [f"{output.counted(simulated, 'rank')} of {row.ranks} simulated: the others do the same"]
        if simulated < row.ranks
        else []
    )
    if "grid_s" in report:
        step, error = (cast(float, report[name]) for name in ("grid_s", "grid_error_s"))
        standing.append(inexact(step, error, row.time_s))
    blocks = [
        "\n".join([title, *standing]),
        output.align(_summary(row, level)),
        "where the time goes (the critical path)\n"
        + output.align(_shares(cast(dict[str, float], report["critical_path_s"]), row.time_s)),
        *(
            [f"contention: waiting behind messages of other ranks\n{output.align(waiting)}"]
            if waiting
            else []
        ),
        *(
            [f"busiest links and ports\n{output.align([_medium(each, row) for each in media])}"]
            if media
            else []
        ),
        "what each parameter is worth (to first order)\n" + output.align(_worth(row, path)),
    ]
    chosen = cast(list[str], report["chosen"])
    if chosen:
        blocks.insert(2, "chosen for this machine\n" + "\n".join(f"  {line}" for line in chosen))
    verdict = [row.verdict.word] if row.verdict.reason else []
    terms, left_out = ["V", "busbw", "redundant", *verdict], row.bounds_left_out
    terms += ["expected"] * (row.expected_s is not None)
    terms += ["left out"] * bool(left_out) + ["not included"] * (not row.protocol)
    blocks.append(footnote(terms, {"left out": [left_out]}))
    return "\n\n".join(blocks)


def _summary(row: SweepRow, level: float) -> list[list[str]]:
    return [
        ["  time", format_seconds(row.time_s), _difference(row)],
        *(_expected(row, row.expected_s, level) if row.expected_s is not None else []),
        [
            "  best bound",
            format_seconds(row.bound_s),
            f"{row.bound}; time is {row.over_bound:.3f} of it" if row.bound_s else "none is known",
        ],
        [
            "  bandwidth",
            format_bandwidth(row.algbw_Bps),
            f"algbw; busbw {format_bandwidth(row.busbw_Bps)}",
        ],
        ["  bytes moved", _bytes(row.volume_B, row), _formula(row.volume_formula_B, row)],
        [
            "  steps",
            str(row.steps),
            "" if row.steps_formula is None else f"formula {row.steps_formula}",
        ],
        [
            "  peak memory",
            _bytes(row.peak_B, row),
            "; ".join(filter(None, ["a rank", _formula(row.peak_formula_B, row)])),
        ],
        [
            "  redundant",
            _bytes(row.redundant_B, row),
            "; ".join(filter(None, ["all ranks", _formula(row.redundant_formula_B, row)])),
        ],
        ["  verdict", str(row.verdict), ""],
        *([["  protocol", row.protocol, "the fastest of the profile's"]] if row.protocol else []),
    ]


def _expected(row: SweepRow, expected: float, level: float) -> list[list[str]]:
    """The interval, what corrects the time, and why the interval is wide."""
    about = f"{level:.0%} of runs: {span(row.low_s, row.high_s)}"
    lines = [["  expected", format_seconds(expected), about]]
    low, high = row.low_s or 0.0, row.high_s or 0.0
    if low < row.bound_s and low * high > (1 + 1e-9) * expected**2:  # no longer symmetrical
        text = f"it ends at the bound of the specified links, {format_seconds(low)}"
        lines.append(["", "", text])
    if abs(share := expected / row.time_s - 1) >= LEAST:
        slower = "longer" if share > 0 else "less"
        text = f"measured runs nearby take {abs(share):.0%} {slower} than the model says"
        lines.append(["", "", text])
    return lines + [["", "", f"unsure: {reason}"] for reason in row.unsure or ()]


def _difference(row: SweepRow) -> str:
    """How far the time is from the formula, in words."""
    if isnan(row.formula_s):
        return "no formula"
    if not row.verdict.claimed:
        return f"formula, not claimed here: {format_seconds(row.formula_s)}"
    difference = (
        "equal to the formula"
        if abs(row.difference) <= 1e-9
        else f"{row.difference:+.2%} off the formula"
    )
    return f"{difference} {format_seconds(row.formula_s)}"


def _formula(nbytes: float, row: SweepRow) -> str:
    return "" if isnan(nbytes) else f"formula {_bytes(nbytes, row)}"


def _shares(seconds: dict[str, float], total: float) -> list[list[str]]:
    present = {part: value for part, value in seconds.items() if value > 0} or seconds
    return [
        [f"  {part}", format_seconds(value), f"{value / (total or 1.0):.1%}"]
        for part, value in present.items()
    ]


def _medium(medium: dict[str, output.Value], row: SweepRow) -> list[str]:
    busy, nbytes = cast(float, medium["busy"]), cast(float, medium["bytes_B"])
    return [f"  {medium['medium']}", f"{busy:.1%} busy", _bytes(nbytes, row)]


def _worth(row: SweepRow, path: CriticalPath) -> list[list[str]]:
    """What half of each parameter saves; for β and γ that is twice the speed."""
    lines = []
    for part, seconds in worth(path).items():
        if seconds > 0:
            saved = (
                f"halving it saves {format_seconds(seconds / 2)} "
                f"({seconds / 2 / (row.time_s or 1.0):.1%})"
            )
            lines.append([f"  {PARAMETERS[part]}", format_seconds(seconds), saved])
    return lines
