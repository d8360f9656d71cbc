"""A reason says what is outside the measured runs, and nothing else does."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator.uncertainty.measured_places import MeasuredPlaces, beyond, place, reasons
from simulator.uncertainty.message_sizes import no_messages

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
