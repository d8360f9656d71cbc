"""Labels without effect: runs that asked for an algorithm and got another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from experiments.calibration.fit import Fit
from experiments.calibration.known_paths import Machine
from experiments.calibration.library import Library, fit_curve
from experiments.calibration.observations import OWN, FitCurve, forced
from experiments.calibration.prediction import PredictedPoint, predict
from experiments.measurements import Curve
from simulator.effects.labels import Ineffective
from simulator.profile import Profile
from topologies.errors import InputError

FEWEST_SIZES = 4
"""Least number of sizes by which a curve that cannot be simulated is recognised as another
algorithm."""
EXPLAINED_ERROR = 0.25
"""Another algorithm explains such a curve if the mean |log(predicted / measured)| is at most
this."""


def of_fit(fit: Fit) -> list[Ineffective]:
    """The labels of fitted curves that had no effect, and the algorithms that ran instead. A run
    whose library did not follow its published rule has the label `OWN`."""
    curves = fit.model.points.curves
    labels = {
        c: _entry(curve, fit.model.ran.get(c, curve.algorithms))
        for c, curve in enumerate(curves)
        if curve.forced or curve.rule
    }
    ignored = [
        labels[c]
        for c, curve in enumerate(curves)
        if c in labels and (c in fit.model.ran or curve.ignored)
    ]
    obeyed = [label for c, label in labels.items() if label not in ignored]
    return list(_everywhere(ignored, obeyed))


def fallen_back(
    curves: Iterable[Curve], library: Library, profile: Profile, machine: Machine
) -> list[Ineffective]:
    """The labels of curves that were not fitted and took as long as another algorithm.

    The machine cannot simulate the algorithms of these labels.
    """
    groups: dict[tuple[str, str, str], list[FitCurve]] = {}
    for curve in curves:
        if (
            forced(curve).lower() in library.unsure
            and (candidate := _chosen(curve, library)) is not None
        ):
            groups.setdefault(
                (candidate.collective, candidate.forced, candidate.library), []
            ).append(candidate)
    entries = [
        label
        for alike in groups.values()
        for label in _fallen_back(alike, library, profile, machine)
    ]
    return list(_everywhere(entries, []))


def _chosen(curve: Curve, library: Library) -> FitCurve | None:
    """A curve as if the library had chosen; None where that cannot be judged."""
    try:
        candidate = fit_curve(replace(curve, algorithm=""), library)
    except InputError:
        return None
    return (
        replace(candidate, forced=forced(curve)) if len(candidate.sizes) >= FEWEST_SIZES else None
    )


def _fallen_back(
    alike: list[FitCurve], library: Library, profile: Profile, machine: Machine
) -> list[Ineffective]:
    """An entry for each curve, if one of the library's algorithms, or its choice, explains all of
    the curves."""

    def predicted(curve: FitCurve, algorithms: tuple[str, ...]) -> list[PredictedPoint]:
        return predict(
            profile,
            library,
            replace(curve, algorithms=algorithms),
            machine(curve.ranks, curve.per_node),
        )

    chosen = alike[0].algorithms
    misfits = {
        names: float(
            np.mean(
                [abs(np.log1p(row.error)) for curve in alike for row in predicted(curve, names)]
            )
        )
        for names in dict.fromkeys((*((name,) for name in chosen), chosen))
    }
    explanation = min(misfits, key=lambda names: misfits[names])
    return (
        [_entry(curve, explanation) for curve in alike]
        if misfits[explanation] < EXPLAINED_ERROR
        else []
    )


def _entry(curve: FitCurve, algorithms: tuple[str, ...]) -> Ineffective:
    return Ineffective(
        curve.forced or OWN, curve.collective, algorithms, curve.ranks, curve.nodes, curve.library
    )


def _everywhere(ignored: list[Ineffective], obeyed: list[Ineffective]) -> Iterator[Ineffective]:
    """One entry for all numbers of ranks, if the library ignored a label on each of several numbers
    and ran the same algorithms."""
    done = set[Ineffective]()
    for label in ignored:
        anywhere = label._replace(ranks=None, nodes=None)
        alike = [entry for entry in ignored if entry._replace(ranks=None, nodes=None) == anywhere]
        exceptions = [
            entry
            for entry in (*ignored, *obeyed)
            if _same_label(entry, label) and entry not in alike
        ]
        summary = (
            anywhere if len({entry.ranks for entry in alike}) > 1 and not exceptions else label
        )
        if summary not in done:
            done.add(summary)
            yield summary


def _same_label(first: Ineffective, second: Ineffective) -> bool:
    """Whether two entries are about the same label of a collective and library."""
    return (first.label, first.collective, first.library) == (
        second.label,
        second.collective,
        second.library,
    )
