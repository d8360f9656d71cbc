"""Idle time and memory of pipelines, against closed forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_formulas import FORMULAS, PipelineSizes
from refusals import refusal
from simulator.parallel.pipeline_times import StageTimes, peak_activations, pipeline_times
from simulator.parallel.pipelines import Pipeline, find, orders

SECONDS = st.integers(1, 64).map(lambda number: number / 16)
"""Multiples of a power of two, so that sums are exact."""


@st.composite
def known_pipelines(draw: st.DrawFn) -> tuple[Pipeline, str, PipelineSizes]:
    """A pipeline, the name of its formula, and its sizes."""
    name = draw(st.sampled_from(sorted(FORMULAS)))
    devices = draw(st.integers(1, 6))
    devices += devices % 2 if name == "dual_pipe" else 0
    chunks = {"zb_v": 2}.get(name, 1)
    text = name
    micro_batches = FORMULAS[name].least(devices) + draw(st.integers(0, 6))
    if name == "interleaved":
        chunks = draw(st.integers(1, 4))
        text = f"{name}:chunks={chunks}"
        micro_batches += -micro_batches % devices
    elif name == "dual_pipe":
        micro_batches += micro_batches % 2
    sizes = PipelineSizes(devices, micro_batches, chunks)
    return find(text).build(devices, micro_batches), name, sizes


@given(known_pipelines(), SECONDS, SECONDS, SECONDS)
def test_idle_time_is_that_of_the_formula(
    known: tuple[Pipeline, str, PipelineSizes], forward: float, inputs: float, weights: float
) -> None:
    pipeline, name, sizes = known
    formula = FORMULAS[name]
    if not formula.holds(forward, inputs, weights):
        inputs = weights = forward
    times = pipeline_times(pipeline, StageTimes(forward, inputs, weights))
    idle = times.idle_within if formula.within else times.idle
    assert idle.max() == formula.bubble(sizes, forward, inputs, weights)
    work = sizes.micro_batches * sizes.chunks * (forward + inputs + weights)
    assert np.all(times.computing == work)
    if not formula.within:
        assert np.all(times.idle == idle[0])


@given(known_pipelines(), st.sampled_from([0.0, 0.5, 1.0]))
def test_activations_are_those_of_the_formula(
    known: tuple[Pipeline, str, PipelineSizes], kept_for_weights: float
) -> None:
    pipeline, name, sizes = known
    expected = [FORMULAS[name].kept(sizes, device) for device in range(sizes.devices)]
    activations = peak_activations(pipeline, 1.0, kept_for_weights)
    size = np.array([1.0, kept_for_weights])
    assert np.array_equal(activations @ size, np.array(expected) @ size)


@given(
    st.sampled_from(sorted(orders())),
    st.integers(1, 4),
    st.integers(1, 3),
    st.tuples(SECONDS, SECONDS, SECONDS, SECONDS, st.booleans()),
)
def test_engines_agree_and_needs_are_kept(
    name: str, devices: int, rounds: int, seconds: tuple[float, float, float, float, bool]
) -> None:
    pipeline = find(name).build(2 * devices, 4 * devices * rounds)
    times = StageTimes(*seconds)
    run, again = (pipeline_times(pipeline, times, name) for name in ("reference", "compiled"))
    assert np.array_equal(run.finish, again.finish)
    for column, need in enumerate(pipeline.needs.T):
        rows = np.flatnonzero(need >= 0)
        sent = (column == 0) & (pipeline.device[need[rows]] != pipeline.device[rows])
        assert np.all(run.start[rows] >= run.finish[need[rows]] + sent * times.transfer)
    same = pipeline.device[1:] == pipeline.device[:-1]
    assert np.all((run.start[1:] >= run.finish[:-1])[same])


def test_the_last_device_is_never_idle_in_zb_v_only_if_parts_are_equal() -> None:
    pipeline = find("zb_v").build(4, 8)
    assert np.all(pipeline_times(pipeline, StageTimes(1, 1, 1)).idle_within == 0)
    assert pipeline_times(pipeline, StageTimes(1, 2, 1)).idle_within.max() > 0


def test_a_micro_batch_alone_crosses_each_link_twice() -> None:
    """p (T_F + T_B) + 2 (p - 1) T_comm, and T_W at the end (Qi et al., 2023, appendix B)."""
    for blocking in (False, True):
        times = StageTimes(2, 3, 1, transfer=0.5, blocking=blocking)
        assert pipeline_times(find("zb_h1").build(5, 1), times).step == 5 * 5 + 8 * 0.5 + 1


def test_a_device_computes_nothing_while_a_transfer_blocks_it() -> None:
    pipeline = find("gpipe").build(2, 2)
    free = pipeline_times(pipeline, StageTimes(1, 1, 0, transfer=1))
    blocked = pipeline_times(pipeline, StageTimes(1, 1, 0, transfer=1, blocking=True))
    assert free.start.tolist() == [0, 1, 6, 7, 2, 3, 4, 5]
    assert blocked.start.tolist() == [0, 2, 7, 9, 2, 4, 5, 7]


def test_stages_may_differ() -> None:
    forward = np.array([1.0, 2.0])
    times = pipeline_times(find("1f1b").build(2, 2), StageTimes(forward, 1, forward))
    assert times.computing.tolist() == [6, 10]
    assert times.step == 1 + 10 + 2


def test_wrong_times_are_refused() -> None:
    pipeline = find("1f1b").build(2, 2)
    for times, wrong in (
        (StageTimes(forward=-1), "the time forward is not 0 or more"),
        (StageTimes(inputs=np.ones(3)), "not one for each of 2 stages"),
        (StageTimes(weights=np.nan), "the time weights is not 0 or more"),
        (StageTimes(transfer=np.inf), "a transfer takes inf s: 0 or more"),
    ):
        assert wrong in refusal(pipeline_times, pipeline, times)


@pytest.mark.parametrize("text", ["1f1b", "zb_v"])
def test_a_lone_device_has_no_bubble(text: str) -> None:
    assert pipeline_times(find(text).build(1, 3), StageTimes(transfer=1)).idle.max() == 0
