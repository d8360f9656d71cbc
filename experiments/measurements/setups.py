"""Runs of several set-ups: measurements of the same thing that no single set of parameters can
explain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.measurements.curve import Curve
from experiments.output import counted

APART = 1.2
"""By how much the times of the same sizes differ, in the median, between two set-ups: repetitions
differ by 1.1."""
SHARED = 3
"""Sizes that two curves must share to be compared."""
SHOWN = 4
"""Set-ups that a warning names."""


class Contradiction(NamedTuple):
    """Two curves of one collective and algorithm on as many ranks and nodes, the faster one first,
    and how far apart they are in the median of the sizes that they share."""

    one: Curve
    other: Curve
    factor: float


def labels(one: Curve, other: Curve) -> tuple[str, str]:
    """What tells two curves apart: the part of their files' names that differs, or all of it."""
    names = [Path(curve.source).name for curve in (one, other)]
    parts = [words(curve) for curve in (one, other)]
    if len(parts[0]) == len(parts[1]):
        apart = [
            "_".join(a for a, b in zip(mine, his, strict=True) if a != b)
            for mine, his in (parts, parts[::-1])
        ]
        if all(apart):
            return apart[0], apart[1]
    return names[0], names[1]


def contradictions(curves: Iterable[Curve], *, in_place: bool = False) -> Iterator[Contradiction]:
    """Curves that are further from the fastest one of the same thing than repetitions are."""
    groups: dict[tuple[object, ...], list[Curve]] = {}
    for curve in curves:
        about = (
            curve.collective,
            curve.kind,
            curve.algorithm,
            curve.protocol,
            curve.ranks,
            curve.nodes,
            curve.dtype,
            curve.label,
        )
        groups.setdefault(about, []).append(curve)
    for group in groups.values():
        times = [_times(curve, in_place) for curve in group]
        level = [np.median(_ratios(one, times[0]) or [0.0]) for one in times]
        fastest = int(np.argmin(level))
        for curve, one in zip(group, times, strict=True):
            ratios = _ratios(one, times[fastest])
            factor = float(np.exp(np.median(np.abs(ratios)))) if len(ratios) >= SHARED else 1.0
            if factor > APART:
                yield Contradiction(group[fastest], curve, factor)


def _times(curve: Curve, in_place: bool) -> dict[int, float]:
    """Seconds by size, of right results."""
    chosen = curve.in_place if in_place else curve.points or curve.in_place
    return {point.size: point.time_s for point in chosen if not point.wrong}


def _ratios(one: Mapping[int, float], other: Mapping[int, float]) -> list[float]:
    """Logarithms of times over those of the same sizes."""
    return [float(np.log(one[size] / other[size])) for size in one.keys() & other.keys()]


def setups(curves: Sequence[Curve], found: Sequence[Contradiction]) -> dict[str, list[Curve]]:
    """The curves by the words of their files' names that tell those apart that contradict each
    other; all under "" if there is no such word."""
    telling: set[str] = set()
    for one, other, _ in found:
        apart = labels(one, other)
        if apart[0] != Path(one.source).name:
            telling.update(*(label.split("_") for label in apart))
    parts: dict[str, list[Curve]] = {}
    for curve in curves:
        mine = [word for word in words(curve) if word in telling]
        parts.setdefault(" ".join(mine), []).append(curve)
    return parts


def of_setup(curves: Iterable[Curve], only: str) -> list[Curve]:
    """The curves whose file's name has all words of `only`, which spaces or commas part, between
    underscores."""
    wanted = {*only.replace(",", " ").split()}
    return [curve for curve in curves if wanted <= {*words(curve)}]


def words(curve: Curve) -> list[str]:
    """Those of a file's name."""
    return Path(Path(curve.source).name.partition(" ")[0]).stem.split("_")


def warnings(curves: Sequence[Curve], *, in_place: bool = False) -> Iterator[str]:
    """A line where several set-ups are in one set of runs."""
    found = list(contradictions(curves, in_place=in_place))
    if found:
        one, other, factor = found[0]
        names = " and ".join(Path(curve.source).name for curve in (one, other))
        more = f" (and {counted(len(found) - 1, 'more pair')})" if len(found) > 1 else ""
        said = f"{names} measure the same and are {factor:.3g} times apart{more}: "
        yield (
            f"{said}two set-ups are not one set of parameters, take each "
            f"alone{_advice(setups(curves, found))}"
        )


def _advice(parts: Mapping[str, Sequence[Curve]]) -> str:
    """How to take each of several set-ups, as far as names tell them."""
    told = sorted(part for part in parts if part)
    if len(told) < 2:
        return ""
    shown = ", ".join(f"--only {part.replace(' ', ',')}" for part in told[:SHOWN])
    more = f" and {len(told) - SHOWN} more" if len(told) > SHOWN else ""
    rest = f"; {counted(len(parts['']), 'run')} with none of these words" if "" in parts else ""
    return f": {shown}{more}{rest}"
