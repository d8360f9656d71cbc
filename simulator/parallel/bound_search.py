"""The fastest of many plans: those whose lower bound is too long are not simulated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

KEEP = 10
"""Times that are wanted, if there are as many. Plans that are alike have the same time."""
SAME = 1e-9
"""Relative difference of times that are the same."""
LEAST = 50
"""Plans that are simulated at least, if there are as many."""


def search(
    bounds: Sequence[float],
    simulate: Callable[[int], float],
    keep: int = KEEP,
    least: int = LEAST,
    progress: Callable[[int, int], object] | None = None,
) -> dict[int, float]:
    """The seconds of all plans that are simulated, the fastest first, by their place in `bounds`.

    Plans are simulated from the lowest bound on, until the next bound is longer than the time in
    place `keep`: no other plan can have one of the first `keep` times. A plan without end, of
    infinite seconds, is left out.

    >>> search([3, 1, 2], simulate=[3.5, 2.5, 2.0].__getitem__, keep=1, least=0)
    {2: 2.0, 1: 2.5}
    """
    order = sorted(range(len(bounds)), key=bounds.__getitem__)
    times: dict[int, float] = {}
    worst = inf
    for number in order:
        if len(times) >= least and bounds[number] > worst:
            break
        if progress:
            progress(len(times), max(len(times) + 1, min(least, len(order))))
        seconds = simulate(number)
        if seconds < inf:
            times[number] = seconds
        different = distinct(times)
        if len(different) >= keep:
            worst = times[different[keep - 1]]
    return dict(sorted(times.items(), key=lambda item: item[1]))


def distinct(times: Mapping[int, float]) -> list[int]:
    """A plan for each time, the fastest first, by its place.

    >>> distinct({4: 1.0, 2: 1.0, 3: 2.0})
    [4, 3]
    """
    places: list[int] = []
    for place, seconds in sorted(times.items(), key=lambda item: item[1]):
        if not places or seconds > times[places[-1]] * (1 + SAME):
            places.append(place)
    return places
