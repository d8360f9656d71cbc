"""Abnormal points of a curve, by the curve alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from experiments.diagnosis.findings import (
    BOTH_SIDES,
    FALLS,
    ONE_SIDE,
    STANDSTILL,
    Finding,
    FindingKind,
    finding,
)
from experiments.diagnosis.shape import (
    CurveColumns,
    descents,
    drops,
    excesses,
    fallen,
    jumps,
    limit,
    losses,
    runs,
    slow_runs,
    sunken,
)
from topologies.topology import Longs
from topologies.units import format_bytes, format_seconds


def anomalies(columns: CurveColumns) -> tuple[Finding, ...]:
    """All findings, alarms first."""
    findings = [*_slow(columns), *_end(columns)]
    findings += _sunken(columns, {place for finding in findings for place in finding.places})
    places = {place for finding in findings for place in finding.places}
    findings = [
        *_wrong(columns),
        *findings,
        *_in_place(columns),
        *_falls(columns, places),
        *_still(columns),
        *_switches(columns, places),
    ]
    return tuple(sorted(findings, key=lambda finding: not finding.alarm))


def memory(columns: CurveColumns) -> Longs:
    """The largest sizes of buffers on the host, where bandwidth falls for good.

    They no longer fit into the caches, or the allocator maps them anew.
    """
    if not columns.host or len(drops(columns)):
        return np.arange(0)
    return fallen(columns)[0]


def span(columns: CurveColumns, places: Longs | tuple[int, ...]) -> str:
    """The sizes at consecutive places in words."""
    first, last = (format_bytes(columns.size[place]) for place in (places[0], places[-1]))
    return first if first == last else f"{first} to {last}"


def _listed(columns: CurveColumns, places: Longs) -> str:
    return ", ".join(format_bytes(columns.size[place]) for place in places)


def _wrong(columns: CurveColumns) -> Iterator[Finding]:
    places = np.flatnonzero(columns.wrong)
    if len(places):
        text = f"wrong results at {_listed(columns, places)}"
        yield finding(FindingKind.WRONG_RESULT, places, len(places), text)


def _slow(columns: CurveColumns) -> Iterator[Finding]:
    down, over = descents(columns), excesses(columns, limit(columns))
    for run in slow_runs(columns):
        worst = int(run[np.argmax(np.maximum(down, over)[run])])
        factor = np.exp(max(down[worst], over[worst]))
        falls = _against(columns, worst) if down[worst] > np.log(FALLS) else ""
        if run[0] == 0:
            text = f"{span(columns, run)}: {falls}, with no smaller size to compare"
            yield finding(FindingKind.SLOW_START, run, factor, text, factor > ONE_SIDE)
            continue
        size = format_bytes(columns.size[worst])
        allowed = f"{size} takes {factor:.3g} times what the sizes on both sides allow"
        reasons = [allowed] * bool(over[worst] > down[worst]) + [falls] * bool(falls)
        yield finding(
            FindingKind.BUMP, run, factor, f"{span(columns, run)}: {', and '.join(reasons)}"
        )


def _against(columns: CurveColumns, worst: int) -> str:
    faster = worst + 1 + int(np.argmin(columns.seconds[worst + 1 :]))
    slow, fast = (format_bytes(columns.size[place]) for place in (worst, faster))
    times = columns.seconds[worst] / columns.seconds[faster]
    return f"{slow} takes {times:.3g} times as long as {fast}"


def _end(columns: CurveColumns) -> Iterator[Finding]:
    """A loss of bandwidth at the largest sizes."""
    places, factor = fallen(columns)
    if not len(places):
        return
    best = format_bytes(columns.size[int(np.argmax(columns.rate))])
    text = f"{span(columns, places)}: {factor:.3g} times less bandwidth than {best}"
    if len(memory(columns)):
        text += ": buffers leave the caches, or are mapped anew"
        yield finding(FindingKind.MEMORY, places, factor, text, alarm=False)
    else:
        alarm = bool(len(drops(columns)))
        yield finding(FindingKind.PLATEAU_DROPS, places, factor, text, alarm)


def _sunken(columns: CurveColumns, places: set[int]) -> Iterator[Finding]:
    """Protocols that leave bandwidth below what smaller sizes reach, unless another finding has
    their sizes."""
    lost = losses(columns)
    for run in sunken(columns):
        if not places.intersection(run.tolist()):
            first, worst = int(run[0]), int(run[np.argmax(lost[run])])
            fastest = int(np.argmax(columns.rate[:first]))
            slow, fast = (format_bytes(columns.size[place]) for place in (worst, fastest))
            text = (
                f"{_growth(columns, first)}: {slow} has {lost[worst]:.3g} times less bandwidth "
                f"than {fast}"
            )
            yield finding(FindingKind.COSTLY_SWITCH, run, lost[worst], text)


def _growth(columns: CurveColumns, place: int) -> str:
    growth = columns.seconds[place] / columns.seconds[place - 1]
    step = columns.size[place] / columns.size[place - 1]
    sizes = f"{format_bytes(columns.size[place - 1])} to {format_bytes(columns.size[place])}"
    return f"{sizes}: time grows {growth:.3g} times, size {step:.3g}"


def _in_place(columns: CurveColumns) -> Iterator[Finding]:
    """Sizes whose times in place and out of place disagree."""
    ratio = columns.in_place / columns.seconds
    places = np.flatnonzero(np.abs(np.log(ratio)) > np.log(BOTH_SIDES) + 2 * columns.noise)
    if len(places):
        worst = int(places[np.argmax(np.abs(np.log(ratio[places])))])
        times = (format_seconds(column[worst]) for column in (columns.seconds, columns.in_place))
        text = (
            f"{_listed(columns, places)}: out of place and in place disagree, "
            f"{' and '.join(times)} at {format_bytes(columns.size[worst])}"
        )
        factor = max(ratio[worst], 1 / ratio[worst])
        yield finding(FindingKind.IN_PLACE_DIFFERS, places, factor, text)


def _falls(columns: CurveColumns, places: set[int]) -> Iterator[Finding]:
    """Sizes at which time falls as size grows, by no more than a change of algorithm explains.
    `places` are those of other findings."""
    down = descents(columns)
    for run in runs(down > np.log(FALLS)):
        worst = int(run[np.argmax(down[run])])
        if worst not in places:
            text = f"{span(columns, run)}: {_against(columns, worst)}"
            yield finding(FindingKind.TIME_FALLS, run, np.exp(down[worst]), text, alarm=False)


def _still(columns: CurveColumns) -> Iterator[Finding]:
    """The widest range of large sizes whose ends take the same time."""
    size, seconds = columns.size, columns.seconds
    step, growth = size / size[:, None], seconds / seconds[:, None]
    alike = (
        (size[:, None] >= 2.0**20) & (step >= STANDSTILL) & (growth < FALLS) & (growth > 1 / FALLS)
    )
    if alike.any():
        first, last = np.unravel_index(int(np.argmax(alike * step)), step.shape)
        places, wide = np.arange(first, last + 1), step[first, last]
        grown = f"size grows {wide:.4g} times, time {growth[first, last]:.3g} times"
        text = f"{span(columns, places)}: {grown}"
        yield finding(FindingKind.TIME_STANDS_STILL, places, wide, text, alarm=False)


def _switches(columns: CurveColumns, places: set[int]) -> Iterator[Finding]:
    for place in jumps(columns).tolist():
        if place not in places:
            factor = columns.rate[place - 1] / columns.rate[place]
            text = f"{_growth(columns, place)}: the library's choice for it is slower"
            yield finding(FindingKind.COSTLY_SWITCH, [place], factor, text, alarm=False)
