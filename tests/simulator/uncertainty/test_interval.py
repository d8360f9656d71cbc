"""Intervals hold their level, and are wider at a higher level."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from grouped_cases import each_case
from simulator.uncertainty.interval import interval, quantile
from simulator.uncertainty.interval_rules import FREEDOM
from topologies.errors import InputError


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
