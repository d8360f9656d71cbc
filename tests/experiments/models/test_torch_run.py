"""What is made of the stamps of hooks; no torch is needed for that."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.torch_run import Trace

TWO = Trace(
    names=("first", "second"),
    forward=((1.0, 0), (3.0, 1), (6.0, 2)),
    middle=7.0,
    end=20.0,
    backward=(
        (8.0, 1),
        (10.0, "second.weight"),
        (11.0, "second.bias"),
        (12.0, 0),
        (15.0, "first.weight"),
    ),
)


def test_a_forward_lasts_until_the_next_begins() -> None:
    assert TWO.forwards == [2.0, 3.0, 2.0]


def test_a_backward_lasts_until_its_last_gradient_is_there() -> None:
    assert TWO.backwards == [9.0, 3.0, 1.0]


def test_without_parameters_a_backward_lasts_until_the_next_begins() -> None:
    trace = TWO._replace(backward=((8.0, 1), (12.0, 0), (15.0, "first.weight")))
    assert trace.backwards == [8.0, 4.0, 1.0]


def test_a_gradient_belongs_to_the_layer_in_whose_backward_it_arrives() -> None:
    late = TWO._replace(backward=((7.5, "scale"), *TWO.backward))
    assert late.owners == {"scale": 2, "second.weight": 1, "second.bias": 1, "first.weight": 0}
    assert late.backwards == [9.0, 3.5, 0.5]


def test_a_module_without_layers_is_all_other() -> None:
    trace = Trace((), (), 3.0, ((4.0, "weight"),), 5.0)
    assert trace.forwards == [3.0]
    assert trace.backwards == [2.0]
    assert trace.owners == {"weight": 0}


stamps = st.lists(st.integers(0, 100).map(float), max_size=12).map(sorted)


@given(stamps, st.lists(st.sampled_from([0, 1, 2, "a", "b"]), min_size=12, max_size=12))
def test_parts_add_up_to_the_whole(times: list[float], whats: list[int | str]) -> None:
    begun = ((3.0, 0), (5.0, 1), (8.0, 2), (90.0, 3))
    events = tuple((100.0 + time, what) for time, what in zip(times, whats, strict=False))
    trace = Trace(("x", "y", "z"), begun, 100.0, events, 200.0)
    assert sum(trace.forwards) == pytest.approx(trace.middle)
    assert sum(trace.backwards) == pytest.approx(trace.end - trace.middle)
    assert all(seconds >= 0 for seconds in trace.backwards)
