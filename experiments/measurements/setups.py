"""Runs of several set-ups: measurements of the same thing that no single set of parameters can explain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.measurements.measurement import Curve
from experiments.output import counted

APART = 1.2
"""By how much the times of the same sizes differ, in the median, between two set-ups: repetitions differ by 1.1."""
SHARED = 3
"""Sizes that two curves must share to be compared."""
_PROGRAM = re.compile(r"\bosu_\w+")


class Contradiction(NamedTuple):
    """Two curves of one collective and algorithm on as many ranks and nodes, and the median factor between them."""

    one: Curve
    other: Curve
    factor: float


def labels(one: Curve, other: Curve) -> tuple[str, str]:
    """What tells two curves apart: the part of their files' names that differs, or all of it."""
    names = [Path(curve.source).name for curve in (one, other)]
    words = [_words(curve) for curve in (one, other)]
    if len(words[0]) == len(words[1]):
        apart = ["_".join(a for a, b in zip(mine, his, strict=True) if a != b) for mine, his in (words, words[::-1])]
        if all(apart):
            return apart[0], apart[1]
    return names[0], names[1]


def noted(curve: Curve) -> tuple[str, ...]:
    """What an index says of the algorithm, where its word is not known, and the OSU program: bandwidth or latency."""
    forced = (note for note in curve.notes if note.startswith("algorithm: "))
    return *forced, *sorted({word for note in curve.notes for word in _PROGRAM.findall(note)})


def contradictions(curves: Iterable[Curve]) -> Iterator[Contradiction]:
    """Curves that are further from the first one of the same thing than repetitions are."""
    groups: dict[tuple[object, ...], list[Curve]] = {}
    for curve in curves:
        about = curve.collective, curve.algorithm, curve.protocol, curve.ranks, curve.nodes, *noted(curve)
        groups.setdefault(about, []).append(curve)
    for group in groups.values():
        first, *others = group
        times = {point.size: point.time_s for point in first.points}
        for other in others:
            ratios = [point.time_s / times[point.size] for point in other.points if point.size in times]
            factor = float(np.exp(np.median(np.abs(np.log(ratios))))) if len(ratios) >= SHARED else 1.0
            if factor > APART:
                yield Contradiction(first, other, factor)


def setups(curves: Sequence[Curve], found: Sequence[Contradiction]) -> dict[str, list[Curve]]:
    """The curves by the words of their files' names that tell those apart that contradict each other; all under "" if
    there is no such word."""
    words: set[str] = set()
    for one, other, _ in found:
        apart = labels(one, other)
        if apart[0] != Path(one.source).name:
            words.update(*(label.split("_") for label in apart))
    parts: dict[str, list[Curve]] = {}
    for curve in curves:
        mine = [word for word in _words(curve) if word in words]
        parts.setdefault(" ".join(mine), []).append(curve)
    return parts


def of_setup(curves: Iterable[Curve], words: str) -> list[Curve]:
    """The curves whose file's name has all of the words, which spaces or commas part."""
    return [
        curve for curve in curves if all(word in Path(curve.source).name for word in words.replace(",", " ").split())
    ]


def _words(curve: Curve) -> list[str]:
    """Those of a file's name."""
    return Path(Path(curve.source).name.partition(" ")[0]).stem.split("_")


def warnings(curves: Sequence[Curve]) -> Iterator[str]:
    """A line where several set-ups are in one set of runs."""
    found = list(contradictions(curves))
    if found:
        one, other, factor = found[0]
        names = " and ".join(Path(curve.source).name for curve in (one, other))
        more = f" (and {counted(len(found) - 1, 'more pair')})" if len(found) > 1 else ""
        apart = [f"--only {part.replace(' ', ',')}" for part in sorted(setups(curves, found)) if part]
        alone = f": {', '.join(apart)}" if len(apart) > 1 else ""
        yield (
            f"{names} measure the same and are {factor:.3g} times apart{more}: "
            f"two set-ups are not one set of parameters, take each alone{alone}"
        )
