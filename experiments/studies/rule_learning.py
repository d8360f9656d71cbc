"""The rules of intervals, learnt from points that fits have not seen, and their coverage.

What points share is as these errors are most likely. Widths are those whose intervals have the
least score on these points: a narrow interval is good, and a point outside costs the more the
farther it is outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import yaml
from scipy.optimize import minimize

from experiments.calibration.held_out import HeldOut, LeftOut
from simulator.uncertainty.interval import LEVEL, quantile
from simulator.uncertainty.measured_places import Apart, Beyond, apart, beyond, own_likeness
from simulator.uncertainty.residuals import (
    FREEDOM,
    IntervalRules,
    alone,
    conditional,
    covariance,
    distance,
    likeness,
    still_open,
)
from topologies.topology import Floats, Ints

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
PULL, WIDTH_PULL = 0.001, 0.002
"""The cost of a rule that is a factor of e from its start: in log likelihood of a point, and for
widths in the loss of a point."""
SHARED = ("machine", "collective", "algorithm", "allocation", "curve", "noise", "message")
"""What points share, and noise: widths multiply them by one factor."""
WIDTHS = (
    *("parameters", "more_ranks", "more_bytes", "network", "other_algorithm", "other_collective"),
    *("own_scale", "usual_scale", "job"),
)
"""The other rules that say how wide intervals are."""
ROUNDS, WIDTH_ROUNDS = 24, 1000
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
    "few": 1.5,
    "lopsided": 0.5,
    "network": 0.5,
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
    """The most likely rules, each group of runs counting alike."""
    known = [example for family in families for example in family]
    if not known:
        return start
    total = sum(example.weight * len(example.off) for example in known)

    def surprise(inner: Floats) -> float:
        rules = IntervalRules(*np.exp(inner).tolist())
        return sum(example.weight * _surprise(rules, example) for example in known) / total

    end = _least(surprise, IntervalRules._fields, START, start, PULL, rounds)
    rules = IntervalRules(*np.exp(end).tolist())
    return rules._replace(size=max(1.0, rules.size), ranks=max(1.0, rules.ranks))


def _least(
    loss: Callable[[Floats], float],
    names: Sequence[str],
    usual: Sequence[float],
    start: Sequence[float],
    pull: float,
    rounds: int,
) -> Floats:
    """The rules of some names with the least loss, in log. A factor of e from `usual` costs
    `pull`."""
    prior = np.log(usual)

    def cost(inner: Floats) -> float:
        return loss(inner) + pull * float(((inner - prior) ** 2).sum())

    ends = [
        (value - RULE_RANGE, min(value + RULE_RANGE, GREATEST_RULES.get(name, np.inf)))
        for name, value in zip(names, prior, strict=True)
    ]
    least = minimize(
        cost, np.log(start), method="L-BFGS-B", bounds=ends, options={"maxiter": rounds}
    )
    return np.asarray(least.x)


def _surprise(rules: IntervalRules, example: Example) -> float:
    """Minus the log likelihood of the errors of an example, by Student's t, up to a constant."""
    # errors of parameters would else count as noise near measured points, which then correct less
    judged = _judged(rules, example)._replace(opened=example.parameters)
    variance = judged.total(rules)
    squares = judged.off**2 / variance
    return float((0.5 * np.log(variance) + 0.5 * (FREEDOM + 1) * np.log1p(squares / FREEDOM)).sum())


def sharpest(rules: IntervalRules, families: Sequence[Sequence[Example]]) -> IntervalRules:
    """The rules with widths whose 80% intervals have the least score. What points share stays as
    likely as it is, but for one factor. Likely widths hold fewer points, as a few families are far
    off."""
    judged = [_judged(rules, example) for family in families for example in family]
    if not judged:
        return rules
    outside, *columns = zip(*judged, strict=True)
    points = Judged(
        Beyond(*map(np.concatenate, zip(*outside, strict=True))), *map(np.concatenate, columns)
    )

    def changed(inner: Floats) -> tuple[IntervalRules, float]:
        factor, *widths = np.exp(inner).tolist()
        return rules._replace(**dict(zip(WIDTHS, widths, strict=True))), factor

    def loss(inner: Floats) -> float:
        half = quantile(LEVEL) * np.sqrt(points.total(*changed(inner)))
        lost = (1 - LEVEL) * half + np.maximum(0, np.abs(points.off) - half)
        return float(np.average(lost, weights=points.weight))

    usual = [1.0, *(getattr(START, name) for name in WIDTHS)]
    end = _least(loss, ("factor", *WIDTHS), usual, usual, WIDTH_PULL, WIDTH_ROUNDS)
    wider, factor = changed(end)
    return wider._replace(**{name: factor * getattr(rules, name) for name in SHARED})


class Judged(NamedTuple):
    """The errors of points, and what makes up their variances, shape (points,) each."""

    outside: Beyond
    off: Floats
    variance: Floats
    """What no measured point says of what points share, and noise."""
    opened: Floats
    """The variance that uncertain parameters give."""
    squares: Floats
    """The squares of the residuals that are known, in units of their covariance."""
    known: Floats
    """The number of these residuals."""
    weight: Floats

    def total(self, rules: IntervalRules, factor: float = 1.0) -> Floats:
        """The variances by some rules, if what points share has a `factor` on its deviation."""
        ratio = (rules.usual_scale + self.squares / factor**2) / (rules.usual_scale + self.known)
        spread = factor**2 * self.variance + distance(rules, self.outside)
        return np.asarray(spread * ratio**rules.own_scale + rules.parameters**2 * self.opened)


def _judged(rules: IntervalRules, example: Example) -> Judged:
    """The errors of an example by some rules."""
    covered = covariance(rules, likeness(rules, example.among), example.residuals)
    like = likeness(rules, example.between)
    whole = alone(rules, example.messages)
    inverse = np.asarray(np.linalg.inv(covered))
    mean, variance = conditional(inverse, like, example.residuals, whole)
    opened = still_open(example.outside.job, variance, whole) * example.parameters
    squares = example.residuals @ inverse @ example.residuals
    constants = (squares, len(example.residuals), example.weight)
    return Judged(
        example.outside,
        example.off - mean,
        variance + rules.noise**2,
        opened,
        *(np.full(len(example.off), float(each)) for each in constants),
    )


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
    judged: int
    """The number of unseen points."""
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
        likely = learn(others, everything, rounds=4) if others else everything
        by_family |= dict.fromkeys(map(str, names), sharpest(likely, others))
    return sharpest(everything, known), by_family


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
        len(errors),
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
