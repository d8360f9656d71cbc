"""Rules are learnt that made the residuals, and their intervals hold what they say."""

import numpy as np
import pytest
import yaml

from experiments.calibration.held_out import LeftOut, judged
from experiments.studies.rule_learning import SHARED, START, examples, learn, rules_file, sharpest
from simulator.uncertainty.interval import quantile
from simulator.uncertainty.measured_places import MeasuredPlaces, apart, beyond, shares
from simulator.uncertainty.residuals import IntervalRules, Residuals, distance, likeness

TRUE = START._replace(collective=0.3, noise=0.1, size=64.0, more_ranks=0.4)
RANKS = (8, 16, 32, 64)


def family(seed: int, rules: IntervalRules = TRUE) -> dict[str, list[LeftOut]]:
    """The residuals of a machine by `rules`: a size and the most ranks are left out."""
    random = np.random.default_rng(seed)
    sizes = np.tile(np.geomspace(1024.0, 2.0**28, 7), len(RANKS))
    ranks = np.repeat(RANKS, 7).astype(np.float64)
    names = np.full(len(sizes), "ring")
    where = MeasuredPlaces(names, names, ranks, ranks, sizes, messages(sizes))
    like = likeness(rules, apart(where, where)) + rules.noise**2 * np.eye(len(sizes))
    values = random.multivariate_normal(np.zeros(len(sizes)), like)
    return {
        "sizes": [left(where, values, sizes == size) for size in sizes[2:5]],
        "ranks": [left(where, values + farther(where, rules, random), ranks == max(RANKS))],
    }


def messages(sizes: np.ndarray) -> np.ndarray:
    """Half of the time is a message of V bytes."""
    one, latency, crossed = np.ones(1), 0.5, 0.0
    return np.stack([shares(one * size, one, latency, crossed) for size in sizes])


def farther(where: MeasuredPlaces, rules: IntervalRules, random: np.random.Generator) -> np.ndarray:
    """What the distance from fewer ranks adds, to all sizes alike."""
    outside = beyond(where, where.take(where.ranks < max(RANKS)))
    return np.asarray(np.sqrt(distance(rules, outside)) * random.normal())


def left(where: MeasuredPlaces, values: np.ndarray, fold: np.ndarray) -> LeftOut:
    zeros = np.zeros(np.count_nonzero(fold))
    return LeftOut(
        fold, where.take(fold), values[fold], zeros, zeros, zeros, where.take(~fold), values[~fold]
    )


@pytest.fixture(scope="module")
def learnt() -> IntervalRules:
    return learn([examples(family(seed)) for seed in range(10)], rounds=8)


def test_the_rules_that_made_the_residuals_are_found(learnt: IntervalRules) -> None:
    by_learnt = Residuals(learnt, *no_points())
    by_true = Residuals(TRUE, *no_points())
    places = family(0)["sizes"][0].where
    assert np.sqrt(by_learnt.at(places)[1]) == pytest.approx(
        np.sqrt(by_true.at(places)[1]), rel=0.35
    )
    assert learnt.more_ranks == pytest.approx(TRUE.more_ranks, rel=0.5)


def test_machines_of_different_scales_are_recognised() -> None:
    """Half of the families are ten times as noisy as the others."""
    loud = TRUE._replace(collective=1.0, noise=1.0, machine=0.5, algorithm=1.0, curve=1.0)
    quiet = IntervalRules(*(value / 10 if k < 6 else value for k, value in enumerate(loud)))
    families = [examples(family(seed, (loud, quiet)[seed % 2])) for seed in range(6)]
    assert learn(families, rounds=8).own_scale > START.own_scale


def no_points() -> tuple[MeasuredPlaces, np.ndarray]:
    where = family(0)["sizes"][0].where
    return where.take(np.zeros(0, dtype=np.int64)), np.zeros(0)


@pytest.mark.parametrize("sharp", [False, True])
def test_intervals_of_other_families_hold_their_level(learnt: IntervalRules, sharp: bool) -> None:
    rules = sharpest(learnt, [examples(family(seed)) for seed in range(10)]) if sharp else learnt
    shares = []
    for seed in range(100, 130):
        for protocol, lefts in family(seed).items():
            held_out = judged(protocol, 7 * len(RANKS), lefts, rules)
            known = ~np.isnan(held_out.discrepancy)
            half = quantile(0.8) * held_out.deviation[known]
            shares.append((held_out.discrepancy[known] <= half).mean())
    assert 0.7 < np.mean(shares) < 0.95


def test_a_family_that_is_far_off_widens_all_intervals(learnt: IntervalRules) -> None:
    """The score counts how far its points are outside."""
    usual = [examples(family(seed)) for seed in range(6)]
    far = family(6)
    wild = {name: [each._replace(off=10 * each.off) for each in far[name]] for name in far}
    narrow, wide = (sharpest(learnt, [*usual, examples(last)]) for last in (far, wild))
    place = far["ranks"][0].where
    assert (width(wide, place) > width(narrow, place)).all()


def test_what_points_share_becomes_as_wide_as_the_score_says(learnt: IntervalRules) -> None:
    """Rules that are half as wide as they should be, and twice as wide."""
    families = [examples(family(seed)) for seed in range(10)]
    right = sharpest(learnt, families)
    for factor in (0.5, 2.0):
        wrong = learnt._replace(**{name: factor * getattr(learnt, name) for name in SHARED})
        sharpened = sharpest(wrong, families)
        assert [getattr(sharpened, name) for name in SHARED] == pytest.approx(
            [getattr(right, name) for name in SHARED], rel=0.15
        )


def width(rules: IntervalRules, where: MeasuredPlaces) -> np.ndarray:
    return np.asarray(Residuals(rules, *no_points()).at(where)[1])


def test_nothing_to_learn_from_leaves_the_start() -> None:
    assert learn([[]]) == START


def test_rules_are_written_as_a_profile_reads_them(learnt: IntervalRules) -> None:
    content = yaml.safe_load(rules_file(learnt, ["X01", "X02"]))
    assert "X01, X02" in content["made"]
    assert IntervalRules(**content["rules"]) == pytest.approx(learnt, rel=1e-3)
