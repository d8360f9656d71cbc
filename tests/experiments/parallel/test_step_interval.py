"""Intervals of whole steps hold kernels, launches and communication; ranks that wait for the last
make steps longer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.kernel_times.nccl_calls import laws
from experiments.parallel.factor_fit import Sureness, spreads
from experiments.parallel.plan_step import work_of
from experiments.parallel.plan_text import parse_plan
from experiments.parallel.step_interval import step_spread, usual_sureness, whole_interval
from shipped_shapes import training
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step import Step, write
from simulator.parallel.step_measures import measure
from simulator.uncertainty.interval import Interval
from topologies.catalogue import find

MODEL = "gpt2:layers=2"


@pytest.fixture(scope="module")
def step() -> Step:
    """A step of a small model on two GPUs."""
    plan = parse_plan("dp=2,micro=8,batch=16")
    groups = GroupTimes(find("dgx_a100").build(2), plan.degrees)
    return write(work_of(training(MODEL), plan, groups))


def test_nothing_is_said_without_a_profile_and_a_measured_step(step: Step) -> None:
    assert whole_interval(step, training(MODEL), 0.0, None) is None


@given(st.floats(0.01, 0.5), st.floats(0.01, 0.5), st.floats(1.0, 1.5))
def test_an_interval_holds_what_is_expected_and_that_of_communication(
    step: Step, device: float, launch: float, wide: float
) -> None:
    inner = Interval(2.0, 2.0 / wide, 2.0 * wide)
    measured = replace(training(MODEL), sureness=Sureness(device, launch))
    whole = whole_interval(step, measured, 0.8, inner)
    assert whole is not None
    assert whole.low <= inner.low <= whole.expected == inner.expected <= inner.high <= whole.high


def test_measured_steps_make_intervals_narrower(step: Step) -> None:
    inner = Interval(2.0, 1.9, 2.1)
    measured = replace(training(MODEL), sureness=Sureness(0.02, 0.1))
    wide, narrow = (whole_interval(step, each, 0.8, inner) for each in (training(MODEL), measured))
    assert wide is not None
    assert narrow is not None
    assert wide.low < narrow.low < narrow.high < wide.high


def test_a_step_that_the_device_binds_is_as_sure_as_the_device() -> None:
    bound = np.array([3.0, 0.0, 0.0])
    assert step_spread(bound, Sureness(0.04, 1.0)) == pytest.approx(np.hypot(0.04, spreads().step))
    dense, routed = (usual_sureness(training(name).shape) for name in (MODEL, "mixtral_8x7b"))
    assert dense.device < step_spread(bound, dense) < routed.device


def test_shares_of_a_step_count_by_their_seconds() -> None:
    halves = step_spread(np.array([1.0, 0.0, 1.0]), Sureness(0.1, 1.0), links=0.1)
    assert halves == pytest.approx(np.hypot(0.1 / 2**0.5, spreads().step))


def test_jitter_makes_steps_with_collectives_longer() -> None:
    """On links alone nobody is late."""

    def seconds(plan: str, device: str = "h100") -> float:
        parsed, known = parse_plan(plan), laws(device) if device else {}
        times = GroupTimes(find("hgx_h100").build(8), parsed.degrees, laws=known)
        return measure(write(work_of(training("llama3_8b:layers=2"), parsed, times))).step

    assert seconds("tp=1,jitter=no") == seconds("tp=1")
    assert seconds("tp=8,micro=8,jitter=no") < seconds("tp=8,micro=8")
    ideal = seconds("tp=8,micro=8", "")
    assert seconds("tp=8,micro=8,jitter=no", "") == ideal < seconds("tp=8,micro=8,jitter=no")
