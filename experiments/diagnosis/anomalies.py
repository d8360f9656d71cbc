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
)
from experiments.diagnosis.shape import (
    CurveColumns,
    Places,
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
from topologies.units import format_bytes, format_seconds


def anomalies(columns: CurveColumns) -> tuple[Finding, ...]:
    """All findings, alarms first."""
    findings = [*_slow(columns), *_end(columns)]
    findings += _sunken(columns, {place for finding in findings for place in finding.places})
    places = {place for finding in findings for place in finding.places}
    more = [
        *_places(columns),
        *_falls(columns, places),
        *_still(columns),
        *_switches(columns, places),
    ]
    findings = [*_wrong(columns), *findings, *more]
    return tuple(sorted(findings, key=lambda finding: not finding.alarm))


def memory(columns: CurveColumns) -> Places:
    """The largest sizes of buffers on the host, where bandwidth falls for good.

    They no longer fit into the caches, or the allocator maps them anew.
    """
    if not columns.host or len(drops(columns)):
        return np.arange(0)
    return fallen(columns)[0]


def span(columns: CurveColumns, places: Places | tuple[int, ...]) -> str:
    """The sizes at consecutive places in words."""
    first, last = (format_bytes(columns.size[place]) for place in (places[0], places[-1]))
    return first if first == last else f"{first} to {last}"


def _wrong(columns: CurveColumns) -> Iterator[Finding]:
    places = tuple(np.flatnonzero(columns.wrong).tolist())
    if places:
        sizes = ", ".join(format_bytes(columns.size[place]) for place in places)
        yield Finding(
            FindingKind.WRONG_RESULT, places, float(len(places)), f"wrong results at {sizes}"
        )


def _slow(columns: CurveColumns) -> Iterator[Finding]:
    down, over = descents(columns), excesses(columns, limit(columns))
    for run in slow_runs(columns):
        worst = int(run[np.argmax(np.maximum(down, over)[run])])
        places, factor = tuple(run.tolist()), float(np.exp(max(down[worst], over[worst])))
        falls = _against(columns, worst) if down[worst] > np.log(FALLS) else ""
        allowed = (
            f"{format_bytes(columns.size[worst])} takes {factor:.3g} times what the sizes on "
            f"both sides allow"
        )
        if run[0] == 0:
            text = f"{span(columns, run)}: {falls}, with no smaller size to compare"
            yield Finding(FindingKind.SLOW_START, places, factor, text, factor > ONE_SIDE)
        else:
            reasons = ", and ".join(
                part for part in (allowed if over[worst] > down[worst] else "", falls) if part
            )
            yield Finding(FindingKind.BUMP, places, factor, f"{span(columns, run)}: {reasons}")


def _against(columns: CurveColumns, worst: int) -> str:
    """The worst size against the fastest larger size, in words."""
    faster = worst + 1 + int(np.argmin(columns.seconds[worst + 1 :]))
    slow, fast = (format_bytes(columns.size[place]) for place in (worst, faster))
    return (
        f"{slow} takes {columns.seconds[worst] / columns.seconds[faster]:.3g} times as long as "
        f"{fast}"
    )


def _end(columns: CurveColumns) -> Iterator[Finding]:
    """A loss of bandwidth at the largest sizes."""
    places, factor = fallen(columns)
    if not len(places):
        return
    best = int(np.argmax(columns.rate))
    text = (
        f"{span(columns, places)}: {factor:.3g} times less bandwidth than "
        f"{format_bytes(columns.size[best])}"
    )
    sizes = tuple(places.tolist())
    if len(memory(columns)):
        yield Finding(
            FindingKind.MEMORY,
            sizes,
            factor,
            f"{text}: buffers leave the caches, or are mapped anew",
            alarm=False,
        )
    else:
        yield Finding(
            FindingKind.PLATEAU_DROPS, sizes, factor, text, alarm=bool(len(drops(columns)))
        )


def _sunken(columns: CurveColumns, places: set[int]) -> Iterator[Finding]:
    """Protocols that leave bandwidth below what smaller sizes reach, unless another finding has
    their sizes."""
    lost = losses(columns)
    for run in sunken(columns):
        worst, first = int(run[np.argmax(lost[run])]), int(run[0])
        if places.intersection(run.tolist()):
            continue
        fastest = int(np.argmax(columns.rate[:first]))
        text = (
            f"{_growth(columns, first)}: {format_bytes(columns.size[worst])} has "
            f"{lost[worst]:.3g} times less "
        )
        text += f"bandwidth than {format_bytes(columns.size[fastest])}"
        yield Finding(FindingKind.COSTLY_SWITCH, tuple(run.tolist()), float(lost[worst]), text)


def _growth(columns: CurveColumns, place: int) -> str:
    """How much time and size grow from the previous size, in words."""
    growth = float(columns.seconds[place] / columns.seconds[place - 1])
    step = float(columns.size[place] / columns.size[place - 1])
    sizes = f"{format_bytes(columns.size[place - 1])} to {format_bytes(columns.size[place])}"
    return f"{sizes}: time grows {growth:.3g} times, size {step:.3g}"


def _places(columns: CurveColumns) -> Iterator[Finding]:
    """Sizes whose times in place and out of place disagree."""
    ratio = columns.in_place / columns.seconds
    allowed = np.log(BOTH_SIDES) + 2 * columns.noise
    places = np.flatnonzero(np.abs(np.log(ratio)) > allowed)
    if len(places):
        worst = int(places[np.argmax(np.abs(np.log(ratio[places])))])
        sizes = ", ".join(format_bytes(columns.size[place]) for place in places)
        pair = (
            f"{format_seconds(columns.seconds[worst])} and "
            f"{format_seconds(columns.in_place[worst])}"
        )
        text = (
            f"{sizes}: out of place and in place disagree, {pair} at "
            f"{format_bytes(columns.size[worst])}"
        )
        yield Finding(
            FindingKind.IN_PLACE_DIFFERS,
            tuple(places.tolist()),
            float(max(ratio[worst], 1 / ratio[worst])),
            text,
        )


def _falls(columns: CurveColumns, places_of_findings: set[int]) -> Iterator[Finding]:
    """Sizes at which time falls as size grows, by no more than a change of algorithm explains."""
    down = descents(columns)
    for run in runs(down > np.log(FALLS)):
        worst = int(run[np.argmax(down[run])])
        if worst not in places_of_findings:
            text = f"{span(columns, run)}: {_against(columns, worst)}"
            yield Finding(
                FindingKind.TIME_FALLS,
                tuple(run.tolist()),
                float(np.exp(down[worst])),
                text,
                alarm=False,
            )


def _still(columns: CurveColumns) -> Iterator[Finding]:
    """The widest range of large sizes whose ends take the same time."""
    size, seconds = columns.size, columns.seconds
    step, growth = size / size[:, None], seconds / seconds[:, None]
    alike = (
        (size[:, None] >= 2.0**20) & (step >= STANDSTILL) & (growth < FALLS) & (growth > 1 / FALLS)
    )
    if alike.any():
        first, last = np.unravel_index(int(np.argmax(alike * step)), step.shape)
        places = tuple(range(int(first), int(last) + 1))
        text = (
            f"{span(columns, places)}: size grows {step[first, last]:.4g} times, time "
            f"{growth[first, last]:.3g} times"
        )
        yield Finding(
            FindingKind.TIME_STANDS_STILL, places, float(step[first, last]), text, alarm=False
        )


def _switches(columns: CurveColumns, places: set[int]) -> Iterator[Finding]:
    for place in jumps(columns):
        if place in places:
            continue
        factor = float(columns.rate[place - 1] / columns.rate[place])
        text = f"{_growth(columns, int(place))}: the library's choice for it is slower"
        yield Finding(FindingKind.COSTLY_SWITCH, (int(place),), factor, text, alarm=False)
