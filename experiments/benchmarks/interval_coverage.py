"""Intervals on unseen points: their coverage, width and score, by rules that were learnt from other
families."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from experiments.calibration.held_out import HeldOut, LeftOut
from experiments.calibration.rule_learning import examples, learn
from simulator.uncertainty.interval import LEVEL, quantile
from simulator.uncertainty.interval_rules import IntervalRules
from topologies.topology import Floats

GROUPS = 5
"""Families are judged in so many groups, each by rules from the families of the others."""
ROUNDS = 4
"""Rounds of learning from the rules of all families."""

Lefts = Mapping[str, Sequence[LeftOut]]
"""What was left out of a fit, by protocol."""


class Coverage(NamedTuple):
    """How good intervals are."""

    inside: float
    """The share of unseen points inside their 80% intervals."""
    width: float
    """The median of half an interval's width, in log time."""
    score: float
    """The mean interval score: width + 2 / (1 - level) times how far points are outside (Gneiting
    and Raftery, JASA 102, 2007)."""
    constant: float
    """The score of intervals of one width: that which holds 80% of the residuals of the fit's own
    points."""


def learnt(
    families: Mapping[str, Sequence[Lefts]],
) -> tuple[IntervalRules, dict[str, IntervalRules]]:
    """The rules by all families, and for each family the rules by others."""
    prepared = {name: [examples(group) for group in groups] for name, groups in families.items()}
    everything = learn([group for groups in prepared.values() for group in groups])
    by_family: dict[str, IntervalRules] = {}
    for names in np.array_split(sorted(prepared), min(GROUPS, len(prepared))):
        others = [
            group for name, groups in prepared.items() if name not in names for group in groups
        ]
        rules = learn(others, everything, ROUNDS) if others else everything
        by_family |= dict.fromkeys(map(str, names), rules)
    return everything, by_family


def coverage(judged: HeldOut, lefts: Sequence[LeftOut]) -> Coverage:
    """The coverage of the points that were left out."""
    known = ~np.isnan(judged.discrepancy)
    errors, half = judged.discrepancy[known], quantile(LEVEL) * judged.deviation[known]
    residuals = np.concatenate([left.residuals for left in lefts])
    constant = np.full(len(errors), np.quantile(np.abs(residuals), LEVEL))
    return Coverage(
        float((errors <= half).mean()),
        float(np.median(half)),
        float(_scores(errors, half).mean()),
        float(_scores(judged.model[known], constant).mean()),
    )


def _scores(errors: Floats, half: Floats) -> Floats:
    return np.asarray(2 * half + 2 / (1 - LEVEL) * np.maximum(0, errors - half))
