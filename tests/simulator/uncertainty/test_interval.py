"""Intervals, errors that messages share, and what is outside the measured runs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from grouped_cases import each_case
from simulator.uncertainty.interval import interval, quantile
from simulator.uncertainty.measured_places import (
    OCTAVES,
    MeasuredPlaces,
    apart,
    beyond,
    message_likeness,
    no_messages,
    own_likeness,
    place,
    reasons,
    shares,
)
from simulator.uncertainty.residuals import FREEDOM, IntervalRules, Residuals, likeness
from topologies.errors import InputError
from topologies.topology import Floats


@given(st.floats(1e-9, 1e3), st.floats(-2, 2), st.floats(0, 2), st.floats(0.01, 0.98))
def test_the_expected_time_is_inside_and_a_higher_level_is_wider(
    seconds: float, mean: float, variance: float, level: float
) -> None:
    narrow, wide = (interval(seconds, mean, variance, share) for share in (level, level + 0.01))
    assert wide.low <= narrow.low <= narrow.expected <= narrow.high <= wide.high
    assert narrow.expected == pytest.approx(seconds * np.exp(mean))


@given(st.floats(0, 1e12), st.sampled_from([0.8, 1 - 1e-16]))
def test_the_widest_interval_is_finite(variance: float, level: float) -> None:
    expected, low, high, *_ = interval(1e-3, 0.0, variance, level)
    assert 0 < low <= expected <= high < np.inf


@given(st.floats(0.001, 0.999))
def test_the_quantile_is_that_of_students_t(level: float) -> None:
    assert quantile(level) == pytest.approx(t.ppf((1 + level) / 2, FREEDOM), rel=1e-6)


def test_an_interval_has_its_share_of_runs() -> None:
    runs = 0.3 * np.random.default_rng(0).standard_t(FREEDOM, 20_000)
    low, high = (np.log(end) for end in interval(1.0, 0.0, 0.3**2)[1:3])
    assert np.mean((runs > low) & (runs < high)) == pytest.approx(0.8, abs=0.01)


@each_case("level", [0.0, 1.0, -0.5, 80.0, float("nan")])
def test_a_level_is_a_share(level: float) -> None:
    with pytest.raises(
        InputError, match=r"^--level .*: expected a share between 0 and 1, like 0.8 for 80%$"
    ):
        quantile(level)


SEEN = MeasuredPlaces(
    np.array(["all_reduce", "all_reduce"]),
    np.array(["ring", "tree"]),
    np.array([4.0, 8.0]),
    np.array([1.0, 1.0]),
    np.array([2.0**10, 2.0**20]),
    no_messages(2),
)


def test_nothing_outside_is_no_reason() -> None:
    assert reasons(place("all_reduce", "ring", 6, 1, 2.0**15), SEEN) == ()


def test_each_direction_has_its_words() -> None:
    assert reasons(place("all_reduce", "nvls", 2, 2, 2.0**21), SEEN) == (
        "2 ranks: measured runs have at least 4",
        "2MiB: measured runs have at most 1MiB",
        "no run over several nodes was measured",
        "algorithm nvls was not measured",
    )


def test_the_reason_is_of_runs_on_the_same_links() -> None:
    """Jobs on one node do not say what fewer ranks over several nodes take."""
    seen = SEEN.and_also(place("all_reduce", "ring", 16, 4, 2.0**15))
    assert reasons(place("all_reduce", "ring", 8, 2, 2.0**15), seen) == (
        "8 ranks: measured runs over several nodes have at least 16",
    )
    assert reasons(place("all_reduce", "ring", 16, 16, 2.0**15), seen) == (
        "16 nodes: measured runs over several nodes have at most 4",
    )
    several = seen.take(np.array([2]))
    assert reasons(place("all_reduce", "ring", 16, 1, 2.0**15), several) == (
        "no run on one node was measured",
    )


def test_a_collective_stands_for_its_algorithms() -> None:
    where = place("all_gather", "ring_all_gather", 8, 1, 2.0**10)
    assert reasons(where, SEEN) == ("all_gather was not measured",)


def test_without_measurements_that_is_the_reason() -> None:
    nothing = SEEN.take(np.array([], dtype=np.int64))
    assert reasons(SEEN.take(np.array([0])), nothing) == ("no run was measured",)


@given(
    st.sampled_from(["all_reduce", "broadcast"]),
    st.integers(2, 64),
    st.integers(1, 4),
    st.floats(1, 1e9),
)
def test_there_is_a_reason_exactly_where_distance_counts(
    collective: str, ranks: int, nodes: int, nbytes: float
) -> None:
    where = place(collective, "ring", ranks, nodes, nbytes)
    outside = any(column[0] > 0 for column in beyond(where, SEEN))
    assert bool(reasons(where, SEEN)) is outside


MESSAGES = IntervalRules(0, 0, 0, 0, 0, 0.01, 8, 8, 0, 0, 0, 0, 0, 0, message=0.1)
"""Only messages are alike."""
SIZES = np.geomspace(2.0**8, 2.0**24, 9)
Messages = list[tuple[float, int]]
messages_of_a_run = st.lists(
    # Messages of fewer bytes than any float can divide have no share.
    st.tuples(st.just(0.0) | st.floats(1e-300, 1e15), st.integers(1, 1000)),
    min_size=1,
    max_size=6,
)
share = st.floats(0, 0.5)


def row(messages: Messages, latency: float, crossed: float) -> Floats:
    sizes, counts = (np.array(column, dtype=np.float64) for column in zip(*messages, strict=True))
    return shares(sizes, counts, latency, crossed)


def runs(sizes: Floats, of_v: float, collective: str = "all_reduce") -> MeasuredPlaces:
    """A run of V for each of `sizes`, whose messages take 80% of the time and are `of_v` of V."""
    count = len(sizes)
    return MeasuredPlaces(
        np.full(count, collective),
        np.full(count, f"of {of_v}"),
        np.full(count, 1 / of_v),
        np.full(count, 1 / of_v),
        sizes,
        np.stack([row([(size * of_v, 1)], 0.3, 0.5) for size in sizes]),
    )


@given(messages_of_a_run, share, share)
def test_messages_have_the_time_on_links(
    messages: Messages, latency: float, crossed: float
) -> None:
    """Unless they have no bytes."""
    moved = crossed if any(size for size, _ in messages) else 0.0
    times = row(messages, latency, crossed)
    assert times.sum() == pytest.approx(latency + moved)
    assert times.min() >= 0


@given(st.floats(1, 2.0**40), st.integers(1, 9), share, share)
def test_messages_that_are_alike_may_be_counted_together(
    size: float, count: int, latency: float, crossed: float
) -> None:
    apiece = row([(size, 1)] * count, latency, crossed)
    assert apiece == pytest.approx(row([(size, count)], latency, crossed))


def test_without_messages_nothing_is_shared() -> None:
    nothing = np.zeros(0)
    assert (shares(nothing, nothing, 0.2, 0.2) == np.zeros(OCTAVES)).all()
    assert message_likeness(no_messages(2), no_messages(3)) == pytest.approx(np.zeros((2, 3)))


@given(st.lists(st.tuples(messages_of_a_run, share, share), min_size=1, max_size=8))
def test_a_likeness_is_a_covariance(found: list[tuple[Messages, float, float]]) -> None:
    rows = np.stack([row(*each) for each in found])
    like = message_likeness(rows, rows)
    assert like == pytest.approx(like.T)
    assert np.linalg.eigvalsh(like).min() > -1e-9
    assert np.diag(like) == pytest.approx(own_likeness(rows))
    assert like.max() <= 1 + 1e-9


@given(st.integers(0, 40), st.integers(0, 40))
def test_the_likeness_falls_with_the_distance(one: int, other: int) -> None:
    ends = [row([(2.0**power, 1)], 1.0, 0.0) for power in (0, one, one + other)]
    near, far = (float(message_likeness(ends[0][None], end[None])[0, 0]) for end in ends[1:])
    assert far <= near + 1e-12


def test_an_error_of_messages_is_carried_to_other_sizes_of_v_with_them() -> None:
    """Messages of 4 KiB to 64 KiB take 30% longer than the model says, in a ring of 4 ranks. In a
    ring of 16, other V have the same messages."""
    seen = runs(SIZES, of_v=1 / 4)
    slow = (seen.nbytes / 4 >= 2**12) & (seen.nbytes / 4 <= 2**16)
    residuals = Residuals(MESSAGES, seen, np.where(slow, 0.3, 0.0))
    mean, _ = residuals.at(runs(4 * SIZES, of_v=1 / 16))
    assert np.abs(mean[slow] - 0.3).max() < 0.05
    assert np.abs(mean[~slow]).max() < 0.05
    other, _ = residuals.at(runs(4 * SIZES, of_v=1 / 16, collective="all_gather"))
    assert other == pytest.approx(np.zeros(len(SIZES)))


def test_measured_messages_make_a_run_surer() -> None:
    seen = runs(SIZES, of_v=1 / 4)
    residuals = Residuals(MESSAGES, seen, np.zeros(len(seen)))
    (_, near), (_, far) = (residuals.at(runs(SIZES * by, of_v=1 / 4)) for by in (1, 2.0**20))
    alone = MESSAGES.message**2 * own_likeness(seen.messages) + MESSAGES.noise**2
    assert (near < 0.5 * alone).all()
    assert far[-1] == pytest.approx(alone[-1], rel=0.01)


def test_a_rule_of_nothing_ignores_messages() -> None:
    seen = runs(SIZES, of_v=1 / 4)
    like = likeness(MESSAGES._replace(message=0.0), apart(seen, seen))
    assert like == pytest.approx(np.zeros((len(SIZES), len(SIZES))))
