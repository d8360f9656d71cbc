"""Labels without effect: runs that asked for an algorithm and got another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from experiments.calibration.fit import Fit
from experiments.calibration.known_paths import Machine
from experiments.calibration.library import Library, fit_curve
from experiments.calibration.observations import OWN, FitCurve, forced
from experiments.calibration.prediction import predict
from experiments.measurements import Curve
from simulator.effects.labels import Ineffective
from simulator.profile import Profile
from topologies.errors import InputError


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
        if (label := forced(curve)).lower() not in library.unsure:
            continue
        try:
            chosen = fit_curve(replace(curve, algorithm=""), library)
        except InputError:
            continue
        # fewer sizes do not say which other algorithm ran
        if len(chosen.sizes) >= 4:
            key = chosen.collective, label, chosen.library
            groups.setdefault(key, []).append(replace(chosen, forced=label))
    entries = [
        _entry(curve, explanation)
        for alike in groups.values()
        if (explanation := _explanation(alike, library, profile, machine))
        for curve in alike
    ]
    return list(_everywhere(entries, []))


def _explanation(
    alike: list[FitCurve], library: Library, profile: Profile, machine: Machine
) -> tuple[str, ...]:
    """One of the library's algorithms, or its choice, if that explains all of the curves."""
    chosen, misfits = alike[0].algorithms, dict[tuple[str, ...], float]()
    for names in (*((name,) for name in chosen), chosen):
        rows = [
            row
            for curve in alike
            for row in predict(
                profile,
                library,
                replace(curve, algorithms=names),
                machine(curve.ranks, curve.per_node),
            )
        ]
        misfits[names] = float(np.mean([abs(np.log1p(row.error)) for row in rows]))
    best = min(misfits, key=lambda names: misfits[names])
    # another algorithm explains curves if the mean |log(predicted / measured)| is below this
    return best if misfits[best] < 0.25 else ()


def _entry(curve: FitCurve, algorithms: tuple[str, ...]) -> Ineffective:
    return Ineffective(
        curve.forced or OWN, curve.collective, algorithms, curve.ranks, curve.nodes, curve.library
    )


def _everywhere(ignored: list[Ineffective], obeyed: list[Ineffective]) -> Iterator[Ineffective]:
    """One entry for all numbers of ranks, if the library ignored a label on each of several numbers
    and ran the same algorithms."""
    done = dict[Ineffective, None]()
    for label in ignored:
        anywhere = label._replace(ranks=None, nodes=None)
        same_label = [
            entry
            for entry in (*ignored, *obeyed)
            if entry._replace(ranks=None, nodes=None, ran=label.ran) == anywhere
        ]
        alike = [entry for entry in same_label if entry.ran == label.ran and entry in ignored]
        several = len({entry.ranks for entry in alike}) > 1
        done[anywhere if several and set(alike) == set(same_label) else label] = None
    return iter(done)
