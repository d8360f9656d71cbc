"""The rules of intervals, learnt from points that fits have not seen, and their coverage.

The rules are those under which the errors of these points are most likely, times a factor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import exp, log
from typing import NamedTuple

import numpy as np
import yaml
from scipy.optimize import brentq, minimize

from experiments.calibration.held_out import HeldOut, LeftOut
from simulator.uncertainty.interval import LEVEL, quantile
from simulator.uncertainty.interval_rules import FREEDOM, IntervalRules
from simulator.uncertainty.measured_places import Apart, Beyond, apart, beyond
from simulator.uncertainty.message_sizes import own_likeness
from simulator.uncertainty.residuals import (
    alone,
    conditional,
    covariance,
    distance,
    likeness,
    scale,
)
from topologies.topology import Flags, Floats, Ints

START = IntervalRules(
    machine=0.05,
    collective=0.1,
    algorithm=0.1,
    allocation=0.05,
    curve=0.1,
    noise=0.03,
    size=8.0,
    ranks=8.0,
    parameters=1.0,
    more_ranks=0.1,
    more_bytes=0.05,
    network=0.3,
    other_algorithm=0.2,
    other_collective=0.2,
    own_scale=0.3,
    usual_scale=30.0,
    message=0.05,
    job=0.05,
)
"""Where learning starts."""
RULE_RANGE = 3.0
"""Rules are at most this far from their start, in factors of e."""
GREATEST_RULES = {"own_scale": 0.0}
"""The greatest values of rules that have one, in log."""
PULL = 0.001
"""The cost of a rule that is a factor of e from its start, in log likelihood of a point."""
MOST_WIDER = 3.0
"""Intervals become wider or narrower by this factor at most."""
MOST_OF_JOB = 10.0
"""What another job adds grows by this factor at most."""
ROUNDS = 24
FOLDS, SEEN = 4, 120
"""So many folds of a protocol, and points that were seen, are enough to learn from."""
WEIGHTS = {
    "sizes": 1.0,
    "ranks": 1.0,
    "between": 1.0,
    "farther": 0.5,
    "farthest": 0.3,
    "plateau": 0.5,
    "collectives": 0.3,
    "few": 0.5,
    "lopsided": 0.5,
}
"""How much each protocol counts."""


Lefts = Mapping[str, Sequence[LeftOut]]
"""The points left out of a fit, by protocol."""


class Example(NamedTuple):
    """Points that were left out, prepared for learning."""

    among: Apart
    """How far apart the seen points are."""
    between: Apart
    """How far the points left out are from them."""
    outside: Beyond
    residuals: Floats
    off: Floats
    parameters: Floats
    messages: Floats
    """How far the messages of the points left out are like themselves."""
    weight: float
    """How much each point counts."""


def examples(lefts: Lefts) -> list[Example]:
    """The examples of a family: the points left out by each protocol."""
    prepared = []
    for protocol, folds in lefts.items():
        known = [left for left in folds if len(left.seen) > 1]
        chosen = [known[k] for k in _spread(len(known), FOLDS)]
        count = sum(len(left.off) for left in chosen)
        for left in chosen:
            some = _spread(len(left.seen), SEEN)
            seen = left.seen.take(some)
            prepared.append(
                Example(
                    apart(seen, seen),
                    apart(left.where, seen),
                    beyond(left.where, left.seen),
                    left.residuals[some],
                    left.off,
                    left.parameters,
                    own_likeness(left.where.messages),
                    WEIGHTS[protocol] / count,
                )
            )
    return prepared


def _spread(count: int, most: int) -> Ints:
    """At most `most` of `count` places, evenly apart."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def learn(
    families: Sequence[Sequence[Example]], start: IntervalRules = START, rounds: int = ROUNDS
) -> IntervalRules:
    """The most likely rules, each family counting alike."""
    known = [family for family in families if family]
    if not known:
        return start
    total = sum(example.weight * len(example.off) for family in known for example in family)
    first, prior = np.log(start), np.log(START)

    def cost(inner: Floats) -> float:
        rules = IntervalRules(*np.exp(inner).tolist())
        each = (
            example.weight * _surprise(rules, example) for family in known for example in family
        )
        return sum(each) / total + PULL * float(((inner - prior) ** 2).sum())

    end = minimize(
        cost,
        first,
        method="L-BFGS-B",
        bounds=[
            (value - RULE_RANGE, min(value + RULE_RANGE, GREATEST_RULES.get(name, np.inf)))
            for name, value in zip(IntervalRules._fields, prior, strict=True)
        ],
        options={"maxiter": rounds},
    )
    rules = IntervalRules(*np.exp(end.x).tolist())
    return rules._replace(size=max(1.0, rules.size), ranks=max(1.0, rules.ranks))


def _surprise(rules: IntervalRules, example: Example) -> float:
    """Minus the log likelihood of the errors of an example, by Student's t, up to a constant."""
    off, variance = _judged(rules, example)
    squares = off**2 / variance
    return float((0.5 * np.log(variance) + 0.5 * (FREEDOM + 1) * np.log1p(squares / FREEDOM)).sum())


def widened(rules: IntervalRules, families: Sequence[Sequence[Example]]) -> IntervalRules:
    """The rules with all deviations times a factor, so that LEVEL of the points left out are inside
    intervals of that level, with the weights of the likelihood. Likely rules hold fewer, as a few
    families are far off.

    Then `job` grows until as many are inside on numbers of ranks between measured ones: nothing
    else separates these points from others, and few families have any.
    """
    every = [example for family in families for example in family]
    rules = _holding(rules, every, _times, (1 / MOST_WIDER, MOST_WIDER), _everywhere)
    return _holding(rules, every, _other_job, (1.0, MOST_OF_JOB), _between_ranks)


def _holding(
    rules: IntervalRules,
    examples: Sequence[Example],
    changed: Callable[[IntervalRules, float], IntervalRules],
    ends: tuple[float, float],
    chosen: Callable[[Example], Flags],
) -> IntervalRules:
    """The rules `changed` by the factor between two ends under which LEVEL of the chosen points are
    inside; the rules as they are if no factor does that."""
    masks = [chosen(example) for example in examples]
    weighted = list(zip(examples, masks, strict=True))
    total = sum(example.weight * int(mask.sum()) for example, mask in weighted)

    def missing(inner: float) -> float:
        wider, inside = changed(rules, exp(inner)), 0.0
        for example, mask in weighted:
            off, variance = _judged(wider, example)
            within = off**2 <= quantile(LEVEL) ** 2 * variance
            inside += example.weight * float((within & mask).sum())
        return LEVEL - inside / total

    least, most = map(log, ends)
    if not total or missing(least) < 0 or missing(most) > 0:
        return rules
    return changed(rules, exp(float(brentq(missing, least, most, xtol=0.01))))


def _everywhere(example: Example) -> Flags:
    return np.ones(len(example.off), dtype=np.bool_)


def _between_ranks(example: Example) -> Flags:
    """Points on ranks and nodes on which no job was measured, though on fewer and on more."""
    return np.asarray((example.outside.job > 0) & (example.outside.more_ranks == 0))


def _other_job(rules: IntervalRules, factor: float) -> IntervalRules:
    return rules._replace(job=rules.job * factor)


def _times(rules: IntervalRules, factor: float) -> IntervalRules:
    kept = ("size", "ranks", "own_scale", "usual_scale")
    return IntervalRules(
        *(value if name in kept else value * factor for name, value in rules._asdict().items())
    )


def _judged(rules: IntervalRules, example: Example) -> tuple[Floats, Floats]:
    """The errors of an example, and their variances."""
    known = covariance(rules, likeness(rules, example.among), example.residuals)
    like = likeness(rules, example.between)
    whole = alone(rules, example.messages)
    inverse = np.asarray(np.linalg.inv(known))
    mean, variance = conditional(rules, inverse, like, example.residuals, whole)
    variance = (variance + distance(rules, example.outside)) * scale(
        rules, inverse, example.residuals
    )
    return example.off - mean, variance + rules.parameters**2 * example.parameters


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
    lines: float | None
    """The score of intervals about a line a curve, of the one width that holds 80% of these points.
    None without lines."""
    curves: float | None
    """The same of the nearest points that were fitted."""


def learnt(
    families: Mapping[str, Sequence[Lefts]],
) -> tuple[IntervalRules, dict[str, IntervalRules]]:
    """The rules by all families, and for each family the rules by others: families are judged in
    five groups, each by rules from the families of the other groups."""
    prepared = {name: [examples(group) for group in groups] for name, groups in families.items()}
    known = [group for groups in prepared.values() for group in groups]
    everything = learn(known)
    by_family: dict[str, IntervalRules] = {}
    for names in np.array_split(sorted(prepared), min(5, len(prepared))):
        others = [
            group for name, groups in prepared.items() if name not in names for group in groups
        ]
        rules = learn(others, everything, rounds=4) if others else everything
        by_family |= dict.fromkeys(map(str, names), widened(rules, others))
    return widened(everything, known), by_family


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
        *(
            _of_one_width(np.abs(np.concatenate(column)))
            for column in zip(*((left.line, left.curve) for left in lefts), strict=True)
        ),
    )


def _of_one_width(errors: Floats) -> float | None:
    errors = errors[~np.isnan(errors)]
    if not len(errors):
        return None
    return float(_scores(errors, np.full(len(errors), np.quantile(errors, LEVEL))).mean())


def _scores(errors: Floats, half: Floats) -> Floats:
    return np.asarray(2 * half + 2 / (1 - LEVEL) * np.maximum(0, errors - half))


def rules_file(rules: IntervalRules, families: Sequence[str]) -> str:
    """Rules as the text of a file, with how they were made."""
    made = f"learnt from {', '.join(families) if families else 'all families'} of measured curves"
    values = {name: float(f"{value:.4g}") for name, value in rules._asdict().items()}
    return yaml.safe_dump({"made": made, "rules": values}, sort_keys=False)
