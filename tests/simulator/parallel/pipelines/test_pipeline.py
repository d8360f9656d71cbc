"""Pipelines: their checks, and the order of each."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.parallel.pipeline_times import StageTimes, peak_activations, pipeline_times
from simulator.parallel.pipelines import find, orders
from simulator.parallel.pipelines.pipeline import Pipeline, check
from simulator.parallel.pipelines.zb_auto import zb_auto
from simulator.steps.kinds import BACKWARD, FORWARD
from topologies.errors import InputError


def row_texts(pipeline: Pipeline, device: int) -> str:
    begin, end = pipeline.starts[device : device + 2]
    return " ".join(pipeline.text(row) for row in range(begin, end))


def test_the_orders_are_those_of_their_papers() -> None:
    assert row_texts(find("gpipe").build(2, 2), 1) == "1F0 1F1 1B0 1B1"
    assert row_texts(find("1f1b").build(3, 4), 0) == "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3"
    assert row_texts(find("1f1b").build(3, 4), 2) == "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3"
    assert row_texts(find("interleaved").build(2, 2), 0) == "0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1"
    assert row_texts(find("interleaved").build(2, 2), 1) == "1F0 1F1 3F0 3B0 3F1 3B1 1B0 1B1"


def test_what_an_action_needs_comes_first() -> None:
    for name in (*orders(), "interleaved:chunks=3"):
        for devices, micro_batches in ((2, 4), (4, 8), (4, 12)):
            pipeline = find(name).build(devices, micro_batches)
            place = np.empty(len(pipeline), dtype=int)
            place[pipeline.order] = np.arange(len(pipeline))
            for needs in pipeline.needs.T:
                needed = needs >= 0
                assert np.all(place[needs[needed]] < place[needed])
            free = pipeline.needs[:, 0] < 0
            assert np.all(pipeline.kind[free] == FORWARD)
            assert np.all(pipeline.stage[free] == 0)


def test_wrong_pipelines_are_refused() -> None:
    pipeline = find("1f1b").build(2, 2)
    swapped = pipeline.micro.copy()
    swapped[4:8] = swapped[4:8][::-1]
    last = np.where(pipeline.device == 1, BACKWARD - pipeline.kind, pipeline.kind)
    for wrong, message in (
        ({"micro": np.zeros_like(swapped)}, "micro-batch 0 in stage 0 .* write forward once"),
        ({"kind": np.full_like(last, FORWARD)}, "write forward once"),
        ({"kind": np.where(last == BACKWARD, 2, last)}, "write backward for weights once"),
        ({"kind": last}, "devices wait for each other: device 0 waits at 0B0"),
    ):
        with pytest.raises(InputError, match=message):
            check(replace(pipeline, **wrong))


def test_bad_sizes_and_options_are_refused() -> None:
    for name, sizes, message in (
        ("1f1b", (0, 4), "devices is 0: 1 or more"),
        ("gpipe", (4, 0), "micro_batches is 0: 1 or more"),
        ("interleaved", (4, 6), "6 micro-batches on 4 devices: take a multiple of 4"),
        ("1f1b", (4096, 10**9), "too many: at most"),
        ("dual_pipe", (3, 6), "3 devices: take an even number"),
        ("dual_pipe", (4, 6), "take an even number, 8 or more"),
        ("dual_pipe", (4, 9), "take an even number, 8 or more"),
        ("zb_auto", (2, 2, 1, -1), "forward is -1: 0 or more"),
        ("zb_auto", (2, 2, 0), "memory is 0"),
    ):
        with pytest.raises(InputError, match=message):
            find(name).build(*sizes)
    for text, message in (
        ("1f2b", "did you mean '1f1b'"),
        ("interleaved:chunk=2", "did you mean 'chunks'"),
        ("interleaved:chunks", "chunks has no value"),
        ("interleaved:chunks=0", "chunks is 0: 1 or more"),
        ("gpipe:chunks=2", "it has none"),
    ):
        with pytest.raises(InputError, match=message):
            find(text)


def test_each_order_has_a_summary() -> None:
    assert all(order.summary for order in orders().values())


@given(
    st.integers(1, 5),
    st.integers(1, 12),
    st.integers(1, 3),
    st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 8), st.integers(0, 8)),
    st.sampled_from([0, 50, 100]),
)
def test_the_search_keeps_its_limit_of_memory(
    devices: int, micro_batches: int, memory: int, times: tuple[int, int, int, int], kept: int
) -> None:
    pipeline = zb_auto(devices, micro_batches, memory, *times, kept=kept)
    size = peak_activations(pipeline, 1, kept / 100) @ [1, kept / 100]
    assert np.all(size <= memory * devices)


def test_a_search_with_the_memory_of_1f1b_is_as_good_as_zb_h1() -> None:
    """If the parts take equally long, both have a third of 1F1B's bubble, and the search with twice
    the memory has next to none."""
    for memory, bubble in ((1, 7.0), (2, 0.0)):
        pipeline = find(f"zb_auto:memory={memory}").build(8, 24)
        assert pipeline_times(pipeline, StageTimes()).idle_within.max() <= bubble
