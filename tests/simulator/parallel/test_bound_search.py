"""The search by bounds, against all times."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from simulator.parallel.bound_search import search

PLANS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9)), min_size=1, max_size=30)


@given(PLANS, st.integers(1, 5), st.integers(0, 8))
def test_the_first_times_are_those_of_all_plans(
    plans: list[tuple[int, int]], keep: int, least: int
) -> None:
    times = [float(bound + more) for bound, more in plans]
    result = search([bound for bound, _ in plans], times.__getitem__, keep, least)
    assert sorted(set(result.values()))[:keep] == sorted(set(times))[:keep]
    assert len(result) >= min(least, len(plans))
    assert all(times[number] == seconds for number, seconds in result.items())


def test_plans_with_long_bounds_are_not_simulated() -> None:
    assert search([1.0, 5.0, 2.0], [1.5, 0.0, 2.5].__getitem__, keep=1, least=0) == {0: 1.5}


def test_plans_of_infinite_seconds_are_left_out() -> None:
    times = [inf, 3.0, 2.0].__getitem__
    assert search([1.0, 2.0, 2.0], times, keep=1, least=1) == {2: 2.0, 1: 3.0}
