"""What is made of the stamps of hooks; no torch is needed for that."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.hooks import Trace, backward_seconds, forward_seconds, owners

TWO = Trace(
    names=("first", "second"),
    starts=(1.0, 3.0),
    last=6.0,
    forward=7.0,
    backward=20.0,
    events=(
        (8.0, 1),
        (10.0, "second.weight"),
        (11.0, "second.bias"),
        (12.0, 0),
        (15.0, "first.weight"),
    ),
)


def test_a_forward_lasts_until_the_next_begins() -> None:
    assert forward_seconds(TWO) == [2.0, 3.0, 2.0]


def test_a_backward_lasts_until_its_last_gradient_is_there() -> None:
    assert backward_seconds(TWO) == [9.0, 3.0, 1.0]


def test_without_parameters_a_backward_lasts_until_the_next_begins() -> None:
    trace = TWO._replace(events=((8.0, 1), (12.0, 0), (15.0, "first.weight")))
    assert backward_seconds(trace) == [8.0, 4.0, 1.0]


def test_a_gradient_belongs_to_the_layer_in_whose_backward_it_arrives() -> None:
    late = TWO._replace(events=((7.5, "scale"), *TWO.events))
    assert owners(late) == {"scale": 2, "second.weight": 1, "second.bias": 1, "first.weight": 0}
    assert backward_seconds(late) == [9.0, 3.5, 0.5]


def test_a_module_without_layers_is_all_other() -> None:
    trace = Trace((), (), 0.0, 3.0, 5.0, ((4.0, "weight"),))
    assert forward_seconds(trace) == [3.0]
    assert backward_seconds(trace) == [2.0]
    assert owners(trace) == {"weight": 0}


stamps = st.lists(st.integers(0, 100).map(float), max_size=12).map(sorted)


@given(stamps, st.lists(st.sampled_from([0, 1, 2, "a", "b"]), min_size=12, max_size=12))
def test_parts_add_up_to_the_whole(times: list[float], whats: list[int | str]) -> None:
    events = tuple((100.0 + time, what) for time, what in zip(times, whats, strict=False))
    trace = Trace(("x", "y", "z"), (3.0, 5.0, 8.0), 90.0, 100.0, 200.0, events)
    assert sum(forward_seconds(trace)) == pytest.approx(trace.forward)
    assert sum(backward_seconds(trace)) == pytest.approx(trace.backward - trace.forward)
    assert all(seconds >= 0 for seconds in backward_seconds(trace))
