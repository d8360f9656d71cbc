"""Labels without effect: runs that were told to take an algorithm and took another one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from experiments.calibration.fit import Fit
from experiments.calibration.known_paths import Machine
from experiments.calibration.libraries import Library
from experiments.calibration.observations import Series, forced, series
from experiments.calibration.prediction import Predicted, predict
from experiments.measurements import Curve
from simulator.profile import Ineffective, Profile
from topologies.errors import InputError

LEAST = 4
"""Sizes from which on a curve that cannot be simulated may be recognised as another algorithm."""
EXPLAINED = 0.25
"""The mean |log(predicted / measured)| up to which such a curve is what another algorithm takes."""


def of_fit(found: Fit) -> list[Ineffective]:
    """The labels of fitted curves that had no effect, and what ran instead."""
    curves = found.model.points.curves
    labels = {
        c: _entry(one, found.model.ran.get(c, one.algorithms))
        for c, one in enumerate(curves)
        if one.forced
    }
    ignored = [
        labels[c]
        for c, one in enumerate(curves)
        if c in labels and (c in found.model.ran or one.ignored)
    ]
    kept = [label for c, label in labels.items() if label not in ignored]
    return list(_everywhere(ignored, kept))


def fallen_back(
    curves: Iterable[Curve], library: Library, profile: Profile, machine: Machine
) -> list[Ineffective]:
    """The labels of curves that were not fitted, as the machine cannot simulate what they are
    called, and that take as long as what it can."""
    told: dict[tuple[str, str, str], list[Series]] = {}
    for curve in curves:
        if forced(curve).lower() in library.unsure and (one := _chosen(curve, library)) is not None:
            told.setdefault((one.collective, one.forced, one.library), []).append(one)
    found = [
        label for alike in told.values() for label in _fallen_back(alike, library, profile, machine)
    ]
    return list(_everywhere(found, []))


def _chosen(curve: Curve, library: Library) -> Series | None:
    """A curve as if the library had chosen; None where that cannot be judged."""
    try:
        one = series(replace(curve, algorithm=""), library)
    except InputError:
        return None
    return replace(one, forced=forced(curve)) if len(one.sizes) >= LEAST else None


def _fallen_back(
    alike: list[Series], library: Library, profile: Profile, machine: Machine
) -> list[Ineffective]:
    """An entry a curve, where one of the library's algorithms or its choice explains all of
    them."""

    def predicted(one: Series, ran: tuple[str, ...]) -> list[Predicted]:
        return predict(
            profile, library, replace(one, algorithms=ran), machine(one.ranks, one.per_node)
        )

    chosen = alike[0].algorithms
    misfits = {
        ran: float(
            np.mean([abs(np.log1p(row.error)) for one in alike for row in predicted(one, ran)])
        )
        for ran in dict.fromkeys((*((name,) for name in chosen), chosen))
    }
    ran = min(misfits, key=lambda one: misfits[one])
    return [_entry(one, ran) for one in alike] if misfits[ran] < EXPLAINED else []


def _entry(curve: Series, ran: tuple[str, ...]) -> Ineffective:
    return Ineffective(curve.forced, curve.collective, ran, curve.ranks, curve.nodes, curve.library)


def _everywhere(ignored: list[Ineffective], kept: list[Ineffective]) -> Iterator[Ineffective]:
    """One entry for all numbers of ranks where a label was ignored on each of several, in favour of
    the same."""
    done = set[Ineffective]()
    for label in ignored:
        anywhere = label._replace(ranks=None, nodes=None)
        alike = [one for one in ignored if one._replace(ranks=None, nodes=None) == anywhere]
        others = [one for one in (*ignored, *kept) if _same_label(one, label) and one not in alike]
        found = anywhere if len({one.ranks for one in alike}) > 1 and not others else label
        if found not in done:
            done.add(found)
            yield found


def _same_label(first: Ineffective, second: Ineffective) -> bool:
    """Whether two entries are about the same label of a collective and library."""
    return (first.label, first.collective, first.library) == (
        second.label,
        second.collective,
        second.library,
    )
