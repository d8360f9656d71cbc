"""Buckets as DDP cuts them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.training.buckets import DEFAULT, FIRST, Bucket, initial, rebuilt, whole
from simulator.training.model import Layer, Model, Tensor
from topologies.errors import InputError

MiB = 2.0**20


def model(*sizes: tuple[float, ...], registration: tuple[int, ...] = ()) -> Model:
    layers = [
        Layer(
            f"layer{k}",
            1.0,
            2.0,
            tensors=tuple(Tensor(f"t{n}", size) for n, size in enumerate(tensors)),
        )
        for k, tensors in enumerate(sizes)
    ]
    return Model("model", 1, tuple(layers), registration=registration)


def test_a_bucket_is_closed_by_the_tensor_that_reaches_the_cap() -> None:
    buckets = rebuilt(model((3.0,), (4.0,), (5.0,), (6.0,)), 10.0)
    assert buckets == [Bucket(11.0, (3, 2), 2), Bucket(7.0, (1, 0), 2)]


def test_a_tensor_larger_than_the_cap_overshoots() -> None:
    assert [bucket.nbytes for bucket in rebuilt(model((100.0,), (1.0,)), 10.0)] == [101.0]


def test_the_first_bucket_is_small_only_when_the_cap_is_the_default() -> None:
    layers = model(*[(MiB,)] * 60)
    assert [bucket.nbytes / MiB for bucket in rebuilt(layers, DEFAULT)] == [1, 25, 25, 9]
    assert [bucket.nbytes / MiB for bucket in rebuilt(layers, 24 * MiB)] == [24, 24, 12]
    assert MiB == FIRST


def test_without_rebuilding_the_small_bucket_is_the_first_registered_and_comes_last() -> None:
    assert [bucket.nbytes / MiB for bucket in initial(model(*[(MiB,)] * 60), DEFAULT)] == [
        9,
        25,
        25,
        1,
    ]


def test_buckets_follow_registration_only_without_rebuilding() -> None:
    turned = model((1.0,), (2.0,), (3.0,), registration=(2, 1, 0))
    assert [bucket.layers for bucket in initial(turned, 0.0)] == [(0,), (1,), (2,)]
    assert [bucket.layers for bucket in rebuilt(turned, 0.0)] == [(2,), (1,), (0,)]


def test_a_cap_of_nothing_is_a_bucket_a_parameter() -> None:
    assert [bucket.nbytes for bucket in rebuilt(model((1.0, 2.0), (3.0,)), 0.0)] == [3.0, 2.0, 1.0]


def test_rebuilt_buckets_follow_the_arrival_within_a_layer() -> None:
    layer = Layer(
        "norm",
        1.0,
        2.0,
        tensors=(Tensor("a", 1.0), Tensor("b", 2.0), Tensor("c", 4.0)),
        arrival=(0, 2, 1),
    )
    profile = Model("model", 1, (layer,))
    assert [bucket.nbytes for bucket in rebuilt(profile, 0.0)] == [1.0, 4.0, 2.0]
    assert [bucket.nbytes for bucket in initial(profile, 0.0)] == [4.0, 2.0, 1.0]


@pytest.mark.parametrize("arrival", [(0,), (1, 1), (0, 2)])
def test_an_arrival_names_each_parameter_once(arrival: tuple[int, ...]) -> None:
    layer = Layer("norm", 1.0, 2.0, tensors=(Tensor("a", 1.0), Tensor("b", 2.0)), arrival=arrival)
    with pytest.raises(InputError, match="each parameter once"):
        Model("model", 1, (layer,))


def test_a_cap_above_the_model_is_one_bucket() -> None:
    layers = model((1.0, 2.0), (3.0,))
    assert [bucket.nbytes for bucket in rebuilt(layers, 1e9)] == [6.0]
    assert whole(layers) == [Bucket(6.0, (0, 1), 3)]


@pytest.mark.parametrize("cap", [-1.0, float("nan")])
def test_a_cap_is_nothing_or_more(cap: float) -> None:
    with pytest.raises(InputError, match="bucket is"):
        rebuilt(model((1.0,)), cap)


sizes = st.lists(
    st.lists(st.integers(1, 1000).map(float), max_size=3).map(tuple), min_size=1, max_size=12
).filter(lambda layers: any(layers))


@given(sizes, st.integers(0, 3000).map(float), st.booleans())
def test_buckets_hold_every_gradient_once(
    layers: list[tuple[float, ...]], cap: float, rebuilds: bool
) -> None:
    profile = model(*layers)
    buckets = (rebuilt if rebuilds else initial)(profile, cap)
    assert sum(bucket.nbytes for bucket in buckets) == profile.gradients
    assert {k for bucket in buckets for k in bucket.layers} == {
        k for k, tensors in enumerate(layers) if tensors
    }
    whole_ones = buckets[:-1] if rebuilds else buckets[1:]
    assert all(bucket.nbytes >= cap for bucket in whole_ones)
