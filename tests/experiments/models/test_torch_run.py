"""What is made of the stamps of hooks."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

if "torch" not in os.environ.get("SIMCTL_REQUIRE", "").split(","):
    pytest.importorskip("torch", reason="torch is not installed")

from experiments.models.torch_run import attributed

FORWARD = (1.0, 0), (3.0, 1), (6.0, 2)
BACKWARD = (
    (8.0, 1),
    (10.0, "second.weight"),
    (11.0, "second.bias"),
    (12.0, 0),
    (15.0, "first.weight"),
)


def test_a_forward_lasts_until_the_next_begins() -> None:
    assert attributed(FORWARD, 2, 0.0, 7.0) == ([2.0, 3.0, 2.0], {})


def test_a_backward_lasts_until_its_last_gradient_is_there() -> None:
    assert attributed(BACKWARD, 2, 7.0, 20.0)[0] == [9.0, 3.0, 1.0]


def test_without_parameters_a_backward_lasts_until_the_next_begins() -> None:
    events = (8.0, 1), (12.0, 0), (15.0, "first.weight")
    assert attributed(events, 2, 7.0, 20.0)[0] == [8.0, 4.0, 1.0]


def test_a_gradient_belongs_to_the_layer_in_whose_backward_it_arrives() -> None:
    seconds, owners = attributed(((7.5, "scale"), *BACKWARD), 2, 7.0, 20.0)
    assert owners == {"scale": 2, "second.weight": 1, "second.bias": 1, "first.weight": 0}
    assert seconds == [9.0, 3.5, 0.5]


def test_a_module_without_layers_is_all_other() -> None:
    assert attributed((), 0, 0.0, 3.0) == ([3.0], {})
    assert attributed(((4.0, "weight"),), 0, 3.0, 5.0) == ([2.0], {"weight": 0})


stamps = st.lists(st.integers(0, 100).map(float), max_size=12).map(sorted)


@given(stamps, st.lists(st.sampled_from([0, 1, 2, "a", "b"]), min_size=12, max_size=12))
def test_parts_add_up_to_the_whole(times: list[float], whats: list[int | str]) -> None:
    events = [(100.0 + time, what) for time, what in zip(times, whats, strict=False)]
    seconds, _ = attributed(events, 3, 100.0, 200.0)
    assert sum(seconds) == pytest.approx(100.0)
    assert all(part >= 0 for part in seconds)
