"""Buckets as DDP cuts them, and what they cost: copies, hooks, and a slower backward."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddp_steps import GRADIENTS, MODEL, ONE_BUCKET, planned, quiet, star, step
from refusals import refusal
from simulator.collectives import find
from simulator.training.buckets import (
    DEFAULT,
    FEWEST,
    FIRST,
    HOOK,
    HOOKS_OF_BUCKET,
    KERNEL,
    MOST,
    MOST_TAKEN,
    Bucket,
    initial,
    interference_of,
    rebuilt,
)
from simulator.training.ddp import DDP
from simulator.training.model import Layer, Model, Tensor
from topologies.catalogue import find as find_machine

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


@pytest.mark.parametrize("cap", [-1.0, float("nan")])
def test_a_cap_is_nothing_or_more(cap: float) -> None:
    assert "bucket is" in refusal(rebuilt, model((1.0,)), cap)


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


FAST = 2.0**20
GPU = replace(MODEL, memory_bandwidth=FAST, multiprocessors=100)
COPY = 4 * KERNEL + 2 * GRADIENTS / FAST
"""Seconds to copy all gradients one way."""
OFF = {"copies": 0.0, "hooks": 0.0, "interference": False}


def kinds(strategy: DDP, ranks: int, model: Model = GPU) -> set[str]:
    """The first words of the phases of a step."""
    return {
        phase.partition(" ")[0] for phase in planned(strategy, ranks, model=model).schedule.phases
    }


@pytest.mark.parametrize("bucket", [0.0, 5000.0, ONE_BUCKET])
def test_without_all_three_a_step_is_as_on_a_device_that_nothing_is_known_of(bucket: float) -> None:
    strategy = quiet(bucket=bucket, **OFF)
    assert step(strategy, 4, model=GPU) == step(strategy, 4, model=MODEL)
    assert not kinds(strategy, 4) & {"copy", "hooks"}


def test_a_single_worker_copies_nothing_and_has_no_hooks() -> None:
    assert step(quiet(), 1, model=GPU) == MODEL.compute
    assert not kinds(quiet(), 1) & {"copy", "hooks"}


@given(
    st.sampled_from(["copies", "hooks", "interference"]),
    st.sampled_from([0.0, 5000.0, ONE_BUCKET]),
    st.integers(2, 5),
    st.floats(64.0, 2.0**16),
    st.booleans(),
)
def test_each_makes_a_step_no_shorter(
    name: str, bucket: float, ranks: int, bandwidth: float, others: bool
) -> None:
    rest = {} if others else OFF
    values = {"copies": 4.0, "hooks": 0.1, "interference": True}
    on, off = (
        step(
            quiet(algo="ring", bucket=bucket, **{**rest, name: value}),
            ranks,
            model=GPU,
            topology=star(ranks, bandwidth=bandwidth),
        )
        for value in (values[name], OFF[name])
    )
    assert on >= off * (1 - 1e-12)


@pytest.mark.parametrize("bucket", [0.0, ONE_BUCKET])
def test_gradients_are_copied_before_the_all_reduce_and_back_after_it(bucket: float) -> None:
    strategy = quiet(bucket=bucket, overlap=False)
    ring = 1.5 * GRADIENTS / 1024
    last = KERNEL + 2 * 4096 / FAST if bucket == 0.0 else COPY
    assert step(strategy, 4, model=GPU) == pytest.approx(
        MODEL.compute + COPY + ring + last, rel=1e-12
    )


def test_gradients_that_are_views_of_buckets_are_divided_and_not_copied_back() -> None:
    strategy = quiet(bucket=ONE_BUCKET, gradient_as_bucket_view=True)
    ring = 1.5 * GRADIENTS / 1024
    assert step(strategy, 4, model=GPU) == pytest.approx(MODEL.compute + COPY + ring, rel=1e-12)


def test_hooks_that_the_cpu_has_done_in_time_delay_nothing() -> None:
    in_time, late = quiet(bucket=0.0, hooks=0.1), quiet(bucket=0.0, hooks=0.126)
    assert step(in_time, 4) == step(quiet(bucket=0.0, hooks=0.0), 4)
    assert "hooks" not in kinds(in_time, 4, MODEL)
    assert "hooks" in kinds(late, 4, MODEL)


def test_a_slow_cpu_launches_buckets_late() -> None:
    """The hooks of four buckets begin with the backward, and take 1 + 3 times 1 s each."""
    wide = star(4, bandwidth=1e18)
    expected = MODEL.forward + 4 * (1 + HOOKS_OF_BUCKET) + MODEL.optimizer
    assert step(quiet(bucket=0.0, hooks=1.0), 4, topology=wide) == pytest.approx(expected)


@given(st.floats(500.0, 2.0**14), st.sampled_from([0.0, 5000.0, 9000.0]), st.integers(2, 6))
def test_interference_is_the_slowdown_that_takes_its_share(
    bandwidth: float, bucket: float, ranks: int
) -> None:
    """Without latency the collectives run as long as the rule assumes, so that lengths which the
    simulation finds in rounds are those of the rule."""
    topology = star(ranks, bandwidth=bandwidth)
    model = replace(MODEL, memory_bandwidth=6 * 2.0**14, multiprocessors=8)
    share = interference_of(model, find("rings"), topology, ranks).share
    assert 0 < share < 1
    alike = {"bucket": bucket, "copies": 0.0, "hooks": 0.0}
    ruled = step(quiet(**alike), ranks, model=model, topology=topology)
    slowed = quiet(**alike, interference=False, slowdown=share / (1 - share))
    assert ruled == pytest.approx(step(slowed, ranks, model=model, topology=topology), rel=1e-6)


def test_a_slowdown_replaces_interference_and_without_overlap_there_is_none() -> None:
    for options in ({"slowdown": 0.1}, {"overlap": False}):
        with_it, without = (
            step(quiet(bucket=0.0, interference=value, **options), 4, model=GPU)
            for value in (True, False)
        )
        assert with_it == without


@pytest.mark.parametrize(
    ("machine", "ranks", "channels"),
    [("dgx1", 8, 12), ("dgx_a100", 8, MOST), ("hgx_h100", 8, MOST)],
)
def test_channels_are_those_that_nccl_takes_on_a_node(
    machine: str, ranks: int, channels: int
) -> None:
    taken = interference_of(GPU, find("rings"), find_machine(machine).build(ranks), ranks)
    assert taken.channels == channels


@pytest.mark.parametrize("algorithm", ["ring", "rings", "tree"])
def test_a_slow_network_takes_few_multiprocessors(algorithm: str) -> None:
    taken = interference_of(GPU, find(algorithm), star(4, bandwidth=1e9), 4)
    assert taken.rate == pytest.approx(1e9)
    assert taken.channels == FEWEST


def test_an_unknown_device_loses_nothing_and_any_device_keeps_something() -> None:
    assert interference_of(MODEL, find("rings"), star(4), 4).share == 0
    small = replace(GPU, memory_bandwidth=1.0, multiprocessors=1)
    assert interference_of(small, find("rings"), star(4), 4).share == MOST_TAKEN
    assert interference_of(GPU, find("rings"), star(4, bandwidth=float("inf")), 4).share == 0


def test_a_plan_says_what_each_part_takes() -> None:
    words = "\n".join(planned(quiet(bucket=0.0), 4, model=GPU).words)
    for part in (
        "copies into buckets and back",
        "96us hooks on the CPU",
        "slower while collectives run",
    ):
        assert part in words
    assert pytest.approx(96e-6) == HOOK * (4 + 4 * HOOKS_OF_BUCKET)
    words = "\n".join(planned(quiet(bucket=0.0, **OFF), 4, model=GPU).words)
    assert "beside" not in words


@pytest.mark.parametrize("copies", [-1.0, float("nan"), 1e6])
def test_copies_are_passes_over_memory(copies: float) -> None:
    assert "copies" in refusal(DDP, copies=copies)
