"""Abnormal points of a curve, by the curve alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from experiments.diagnosis.findings import BOTH_SIDES, FALLS, ONE_SIDE, STILL, Finding, Kind
from experiments.diagnosis.samples import Places, Samples
from experiments.diagnosis.shape import (
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


def anomalies(samples: Samples) -> tuple[Finding, ...]:
    """All findings, alarms first."""
    findings = [*_slow(samples), *_end(samples)]
    findings += _sunken(samples, {place for finding in findings for place in finding.places})
    places = {place for finding in findings for place in finding.places}
    more = [
        *_places(samples),
        *_falls(samples, places),
        *_still(samples),
        *_switches(samples, places),
    ]
    findings = [*_wrong(samples), *findings, *more]
    return tuple(sorted(findings, key=lambda finding: not finding.alarm))


def memory(samples: Samples) -> Places:
    """The largest sizes of buffers on the host, where bandwidth falls for good.

    They no longer fit into the caches, or the allocator maps them anew.
    """
    if not samples.host or len(drops(samples)):
        return np.arange(0)
    return fallen(samples)[0]


def span(samples: Samples, places: Places | tuple[int, ...]) -> str:
    """The sizes at consecutive places in words."""
    first, last = (format_bytes(samples.size[place]) for place in (places[0], places[-1]))
    return first if first == last else f"{first} to {last}"


def _wrong(samples: Samples) -> Iterator[Finding]:
    places = tuple(np.flatnonzero(samples.wrong).tolist())
    if places:
        sizes = ", ".join(format_bytes(samples.size[place]) for place in places)
        yield Finding(Kind.WRONG_RESULT, places, float(len(places)), f"wrong results at {sizes}")


def _slow(samples: Samples) -> Iterator[Finding]:
    down, over = descents(samples), excesses(samples, limit(samples))
    for run in slow_runs(samples):
        worst = int(run[np.argmax(np.maximum(down, over)[run])])
        places, factor = tuple(run.tolist()), float(np.exp(max(down[worst], over[worst])))
        falls = _against(samples, worst) if down[worst] > np.log(FALLS) else ""
        allowed = (
            f"{format_bytes(samples.size[worst])} takes {factor:.3g} times what the sizes on "
            f"both sides allow"
        )
        if run[0] == 0:
            text = f"{span(samples, run)}: {falls}, with no smaller size to compare"
            yield Finding(Kind.SLOW_START, places, factor, text, factor > ONE_SIDE)
        else:
            reasons = ", and ".join(
                part for part in (allowed if over[worst] > down[worst] else "", falls) if part
            )
            yield Finding(Kind.BUMP, places, factor, f"{span(samples, run)}: {reasons}")


def _against(samples: Samples, worst: int) -> str:
    """The worst size against the fastest larger size, in words."""
    faster = worst + 1 + int(np.argmin(samples.seconds[worst + 1 :]))
    slow, fast = (format_bytes(samples.size[place]) for place in (worst, faster))
    return (
        f"{slow} takes {samples.seconds[worst] / samples.seconds[faster]:.3g} times as long as "
        f"{fast}"
    )


def _end(samples: Samples) -> Iterator[Finding]:
    """A loss of bandwidth at the largest sizes."""
    places, factor = fallen(samples)
    if not len(places):
        return
    best = int(np.argmax(samples.rate))
    text = (
        f"{span(samples, places)}: {factor:.3g} times less bandwidth than "
        f"{format_bytes(samples.size[best])}"
    )
    sizes = tuple(places.tolist())
    if len(memory(samples)):
        yield Finding(
            Kind.MEMORY,
            sizes,
            factor,
            f"{text}: buffers leave the caches, or are mapped anew",
            alarm=False,
        )
    else:
        yield Finding(Kind.PLATEAU_DROPS, sizes, factor, text, alarm=bool(len(drops(samples))))


def _sunken(samples: Samples, places: set[int]) -> Iterator[Finding]:
    """Protocols that leave bandwidth below what smaller sizes reach, unless another finding has
    their sizes."""
    lost = losses(samples)
    for run in sunken(samples):
        worst, first = int(run[np.argmax(lost[run])]), int(run[0])
        if places.intersection(run.tolist()):
            continue
        fastest = int(np.argmax(samples.rate[:first]))
        text = (
            f"{_growth(samples, first)}: {format_bytes(samples.size[worst])} has "
            f"{lost[worst]:.3g} times less "
        )
        text += f"bandwidth than {format_bytes(samples.size[fastest])}"
        yield Finding(Kind.COSTLY_SWITCH, tuple(run.tolist()), float(lost[worst]), text)


def _growth(samples: Samples, place: int) -> str:
    """How much time and size grow from the previous size, in words."""
    growth = float(samples.seconds[place] / samples.seconds[place - 1])
    step = float(samples.size[place] / samples.size[place - 1])
    sizes = f"{format_bytes(samples.size[place - 1])} to {format_bytes(samples.size[place])}"
    return f"{sizes}: time grows {growth:.3g} times, size {step:.3g}"


def _places(samples: Samples) -> Iterator[Finding]:
    """Sizes whose times in place and out of place disagree."""
    ratio = samples.in_place / samples.seconds
    allowed = np.log(BOTH_SIDES) + 2 * samples.noise
    places = np.flatnonzero(np.abs(np.log(ratio)) > allowed)
    if len(places):
        worst = int(places[np.argmax(np.abs(np.log(ratio[places])))])
        sizes = ", ".join(format_bytes(samples.size[place]) for place in places)
        pair = (
            f"{format_seconds(samples.seconds[worst])} and "
            f"{format_seconds(samples.in_place[worst])}"
        )
        text = (
            f"{sizes}: out of place and in place disagree, {pair} at "
            f"{format_bytes(samples.size[worst])}"
        )
        yield Finding(
            Kind.IN_PLACE_DIFFERS,
            tuple(places.tolist()),
            float(max(ratio[worst], 1 / ratio[worst])),
            text,
        )


def _falls(samples: Samples, places_of_findings: set[int]) -> Iterator[Finding]:
    """Sizes at which time falls as size grows, by no more than a change of algorithm explains."""
    down = descents(samples)
    for run in runs(down > np.log(FALLS)):
        worst = int(run[np.argmax(down[run])])
        if worst not in places_of_findings:
            text = f"{span(samples, run)}: {_against(samples, worst)}"
            yield Finding(
                Kind.TIME_FALLS, tuple(run.tolist()), float(np.exp(down[worst])), text, alarm=False
            )


def _still(samples: Samples) -> Iterator[Finding]:
    """The widest range of large sizes whose ends take the same time."""
    size, seconds = samples.size, samples.seconds
    step, growth = size / size[:, None], seconds / seconds[:, None]
    alike = (size[:, None] >= 2.0**20) & (step >= STILL) & (growth < FALLS) & (growth > 1 / FALLS)
    if alike.any():
        first, last = np.unravel_index(int(np.argmax(alike * step)), step.shape)
        places = tuple(range(int(first), int(last) + 1))
        text = (
            f"{span(samples, places)}: size grows {step[first, last]:.4g} times, time "
            f"{growth[first, last]:.3g} times"
        )
        yield Finding(Kind.TIME_STANDS_STILL, places, float(step[first, last]), text, alarm=False)


def _switches(samples: Samples, places: set[int]) -> Iterator[Finding]:
    for place in jumps(samples):
        if place in places:
            continue
        factor = float(samples.rate[place - 1] / samples.rate[place])
        text = f"{_growth(samples, int(place))}: the library's choice for it is slower"
        yield Finding(Kind.COSTLY_SWITCH, (int(place),), factor, text, alarm=False)
