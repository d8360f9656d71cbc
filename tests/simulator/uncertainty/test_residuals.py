"""What neighbours share is carried over, what they do not is not, and far from them the spread is
that of the rules."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from simulator.uncertainty.measured_places import (
    GROWTH,
    MeasuredPlaces,
    apart,
    beyond,
    no_messages,
    place,
)
from simulator.uncertainty.residuals import (
    IntervalRules,
    Residuals,
    distance,
    likeness,
    scale,
    shared,
)

RULES = IntervalRules(
    machine=0.05,
    collective=0.1,
    algorithm=0.06,
    allocation=0.02,
    curve=0.05,
    noise=0.02,
    size=16,
    ranks=16,
    parameters=0.8,
    more_ranks=0.14,
    more_bytes=0.02,
    network=0.3,
    other_algorithm=0.3,
    other_collective=0.3,
)
SIZES = np.geomspace(2.0**8, 2.0**26, 10)


def places(*ranks: int, algorithm: str = "ring", collective: str = "all_reduce") -> MeasuredPlaces:
    count = len(ranks) * len(SIZES)
    column = np.repeat(ranks, len(SIZES)).astype(np.float64)
    return MeasuredPlaces(
        np.full(count, collective),
        np.full(count, algorithm),
        column,
        np.ceil(column / 4),
        np.tile(SIZES, len(ranks)),
        no_messages(count),
    )


def test_without_residuals_nothing_is_corrected() -> None:
    seen = places(4, 8)
    mean, variance = Residuals(RULES, seen, np.zeros(len(seen))).at(places(4, 8, 64))
    assert (mean == 0).all()
    assert (variance >= RULES.noise**2).all()


def test_without_measurements_the_spread_is_that_of_the_rules() -> None:
    nothing = places(4).take(np.array([], dtype=np.int64))
    mean, variance = Residuals(RULES, nothing, np.array([])).at(places(8))
    assert (mean == 0).all()
    assert variance == pytest.approx(np.full(len(SIZES), shared(RULES) + RULES.noise**2))


def test_a_smooth_residual_is_interpolated() -> None:
    seen = places(4, 8)
    residuals = 0.3 * np.sin(np.log(seen.nbytes) / 6)
    kept = np.arange(len(seen)) % 3 != 1
    mean, _ = Residuals(RULES, seen.take(kept), residuals[kept]).at(seen.take(~kept))
    assert np.abs(mean - residuals[~kept]).mean() < 0.4 * np.abs(residuals[~kept]).mean()


def test_other_rank_counts_of_an_algorithm_share() -> None:
    seen = places(4, 8)
    mean, _ = Residuals(RULES, seen, np.full(len(seen), 0.3)).at(places(16))
    assert (mean > 0.1).all()
    assert (mean <= 0.3).all()


def test_an_outlier_is_not_carried_over() -> None:
    seen = places(4, 8)
    residuals = 0.02 * np.cos(np.log(seen.nbytes))
    residuals[4] = 2.0
    kept = np.arange(len(seen)) != 5
    mean, _ = Residuals(RULES, seen.take(kept), residuals[kept]).at(seen)
    assert abs(mean[5]) < 0.3


@given(st.integers(2, 12), st.integers(1, 12))
def test_the_spread_grows_with_the_distance(near: int, farther: int) -> None:
    """In ranks, beyond those that were seen."""
    seen = places(4)
    residuals = Residuals(RULES, seen, np.full(len(seen), 0.1))
    ranks = 4 * 2**near, 4 * 2 ** (near + farther)
    (_, close), (_, far) = (residuals.at(places(count)) for count in ranks)
    assert (far >= close).all()


@given(st.floats(1, 1e9), st.integers(2, 4096), st.sampled_from(["ring", "tree"]))
def test_a_point_that_was_seen_is_surer_than_one_that_was_not(
    nbytes: float, ranks: int, algorithm: str
) -> None:
    seen = places(4, 8)
    residuals = Residuals(RULES, seen, np.zeros(len(seen)))
    _, here = residuals.at(seen.take(np.array([3])))
    _, there = residuals.at(place("all_reduce", algorithm, ranks, ranks, nbytes))
    assert here[0] <= there[0] + 1e-12


@given(
    st.lists(
        st.tuples(st.sampled_from(["ring", "tree"]), st.integers(1, 64), st.floats(1, 1e9)),
        min_size=1,
        max_size=12,
    )
)
def test_a_likeness_is_a_covariance(rows: list[tuple[str, int, float]]) -> None:
    """No combination of residuals has a negative variance."""
    names, ranks, sizes = (np.array(column) for column in zip(*rows, strict=True))
    names_of = np.full(len(rows), "all_reduce"), names
    here = MeasuredPlaces(*names_of, ranks.astype(float), ranks, sizes, no_messages(len(rows)))
    like = likeness(RULES, apart(here, here))
    assert like == pytest.approx(like.T)
    assert np.linalg.eigvalsh(like).min() > -1e-9
    assert np.diag(like) == pytest.approx(np.full(len(rows), shared(RULES)))


def test_what_was_not_seen_is_named() -> None:
    seen = places(4).take(np.arange(5))
    here = place("all_gather", "ring_all_gather", 16, 4, SIZES[5] * 2)
    outside = beyond(here, seen)
    assert outside.more_ranks == pytest.approx([2**GROWTH])
    assert outside.more_bytes == pytest.approx([np.log2(SIZES[5] / SIZES[4]) + 1])
    assert [column[0] for column in (outside.job, *outside[3:])] == [1, 1, 1, 1]
    assert distance(RULES, beyond(seen, seen)) == pytest.approx(np.zeros(5))


@each_case(
    ("ranks", "nodes", "doublings", "network"),
    [
        (2, 1, 1, 0),  # half of the one node's ranks
        (8, 2, 1, 0),  # half of the 16 ranks on several nodes
        (16, 8, 1, 0),  # twice the nodes
        (128, 32, 3, 0),
        (4, 1, 0, 0),
    ],
)
def test_runs_are_compared_with_those_on_the_same_links(
    ranks: int, nodes: int, doublings: float, network: float
) -> None:
    """One node of 4 ranks and 4 nodes of 16 were measured."""
    outside = beyond(place("all_reduce", "ring", ranks, nodes, SIZES[0]), places(4, 16))
    assert outside.more_ranks == pytest.approx([doublings**GROWTH])
    assert outside.network[0] == network


def test_one_node_is_as_unknown_as_a_network() -> None:
    """Runs on one node say nothing of several, and the reverse."""
    one, several = places(4), places(16)
    assert beyond(one, several).network == pytest.approx(np.ones(len(SIZES)))
    assert beyond(several, one).network == pytest.approx(np.ones(len(SIZES)))
    assert beyond(one, places(4, 16)).network == pytest.approx(np.zeros(len(SIZES)))


def test_parameters_count_as_far_as_points_leave_them_open() -> None:
    """On ranks that were not measured, wholly; at measured points hardly, and between them more."""
    kept = np.arange(len(SIZES)) % 2 == 0
    residuals = Residuals(RULES, places(4).take(kept), np.zeros(kept.sum()))
    shares = []
    for where in (places(4).take(kept), places(4).take(~kept), places(8)):
        alone, whole = (residuals.at(where, parameters)[1] for parameters in (0.0, 0.3**2))
        shares.append((whole - alone) / (RULES.parameters * 0.3) ** 2)
    measured, between, elsewhere = shares
    assert measured.max() < 0.1
    assert measured.max() < between.min()
    assert between.max() < 1
    assert elsewhere == pytest.approx(np.ones(len(SIZES)))


@given(
    st.sampled_from(["ring", "tree", "double_tree"]),
    st.sampled_from([4, 8, 64]),
    st.sampled_from(SIZES.tolist()),
)
def test_a_difference_is_no_surer_than_its_parts_allow(
    algorithm: str, ranks: int, nbytes: float
) -> None:
    """It changes its sign with the order, and its deviation is at most the sum of both."""
    seen = places(4, 8)
    residuals = Residuals(RULES, seen, 0.1 * np.cos(np.arange(len(seen))))
    one = place("all_reduce", "ring", 8, 2, SIZES[3])
    other = place("all_reduce", algorithm, ranks, ranks / 4, nbytes)
    mean, variance = residuals.difference(one, other)
    reverse, same = residuals.difference(other, one)
    (first, left), (second, right) = (residuals.at(each) for each in (one, other))
    assert mean == pytest.approx(second[0] - first[0])
    assert reverse == pytest.approx(-mean)
    assert same == pytest.approx(variance)
    assert variance <= (left[0] ** 0.5 + right[0] ** 0.5) ** 2 + 1e-12
    assert variance >= 2 * RULES.noise**2


def test_two_runs_of_one_point_differ_by_noise() -> None:
    seen = places(4, 8)
    residuals = Residuals(RULES, seen, np.full(len(seen), 0.1))
    far = place("all_gather", "ring_all_gather", 4096, 1024, 2.0**40)
    mean, variance = residuals.difference(far, far)
    assert mean == pytest.approx(0)
    assert variance == pytest.approx(2 * RULES.noise**2)


@given(st.floats(0, 5), st.floats(0, 5))
def test_algorithms_share_the_error_of_their_machine(machine: float, collective: float) -> None:
    """However large it is, it does not blur which of them is faster."""
    rules = RULES._replace(machine=machine, collective=collective)
    nothing = places(4).take(np.array([], dtype=np.int64))
    ring, tree = (place("all_reduce", name, 8, 2, SIZES[3]) for name in ("ring", "tree"))
    _, variance = Residuals(rules, nothing, np.array([])).difference(ring, tree)
    own = rules.algorithm**2 + rules.curve**2 + rules.noise**2
    assert variance == pytest.approx(2 * own, rel=1e-6)


@given(st.floats(0.1, 10), st.floats(1.1, 10))
def test_larger_residuals_widen_all_intervals(size: float, factor: float) -> None:
    """The mean follows them, and the spread follows their scale."""
    rules = RULES._replace(own_scale=1.0, usual_scale=5.0)
    seen, new = places(4, 8), places(8, 64)
    values = 0.1 * size * np.cos(np.arange(len(seen)))
    small, large = (Residuals(rules, seen, each).at(new)[1] for each in (values, factor * values))
    assert (large > small).all()


def test_residuals_as_usual_leave_intervals_as_they_are() -> None:
    """As large as the rules say: squares, in units of their covariance, are as many as points."""
    rules = RULES._replace(own_scale=1.0, usual_scale=5.0)
    seen = places(4, 8)
    known = likeness(rules, apart(seen, seen)) + rules.noise**2 * np.eye(len(seen))
    values = np.asarray(
        np.linalg.cholesky(known) @ np.where(np.arange(len(seen)) % 2, 1.0, -1.0), np.float64
    )
    inverse = np.asarray(np.linalg.inv(known), np.float64)
    assert scale(rules, inverse, values) == pytest.approx(1)
    assert scale(rules, inverse, 3 * values) == pytest.approx((5 + 9 * len(seen)) / (5 + len(seen)))
    assert scale(rules._replace(own_scale=0.5), inverse, 3 * values) == pytest.approx(
        scale(rules, inverse, 3 * values) ** 0.5
    )


def test_rules_of_earlier_versions_have_one_scale() -> None:
    seen = places(4, 8)
    values = np.cos(np.arange(len(seen)))
    usual, wild = (
        Residuals(RULES, seen, each).at(places(64))[1] for each in (0.01 * values, values)
    )
    assert usual == pytest.approx(wild, rel=0.2)


def test_the_scale_is_of_differences_too() -> None:
    seen = places(4, 8)
    values = np.cos(np.arange(len(seen)))
    one, other = (place("all_reduce", name, 8, 2, 1e6) for name in ("ring", "tree"))
    usual, scaled = (
        Residuals(rules, seen, values) for rules in (RULES, RULES._replace(own_scale=1.0))
    )
    assert scaled.difference(one, other)[1] > 2 * usual.difference(one, other)[1]


def test_a_new_run_is_another_job() -> None:
    """Where runs were measured, too: the variance has that of a job, and the mean does not."""
    seen = places(4).take(np.arange(5))
    values = np.linspace(-0.1, 0.1, 5)
    mean, variance = Residuals(RULES._replace(job=0.0), seen, values).at(seen)
    with_job = Residuals(RULES._replace(job=0.2), seen, values)
    assert with_job.at(seen)[0] == pytest.approx(mean)
    assert with_job.at(seen)[1] == pytest.approx(variance + 0.2**2 * with_job._scale)
    one, other = seen.take(np.array([0])), seen.take(np.array([1]))
    assert with_job.difference(one, other) == Residuals(
        RULES._replace(job=0.0), seen, values
    ).difference(one, other)
