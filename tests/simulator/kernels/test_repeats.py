"""Runs in which steps that repeat are skipped."""

from contextlib import ExitStack
from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.collectives import find
from simulator.collectives.symmetry import fold
from simulator.engines.compiled import RunPart, run_part, used
from simulator.kernels import repeats
from simulator.kernels.repeats import Parts
from simulator.schedules.alike_steps import alike_steps
from simulator.schedules.routed import Routed, in_ticks
from topologies.clusters import cluster
from topologies.jit import compiled
from topologies.shapes import star
from topologies.topology import Floats, Topology

TICK = 2.0**-40


def folded(name: str, topology: Topology, ranks: int) -> tuple[Routed, Parts]:
    """A collective of 1 GB, of few ranks that stand for all, and its steps that are alike."""
    found = fold(find(name), topology, ranks, merges=True)
    assert found is not None
    routed = in_ticks(found.routed.scaled(1e9), TICK)
    with patch("simulator.schedules.alike_steps.FEWEST_STEPS", 4):
        places = used(routed)
        return routed, alike_steps(routed, places[places < routed.work.ranks.serials])


def skipping(routed: Routed, free: Floats, parts: Parts, fills: bool = True) -> tuple[RunPart, int]:
    """A part of a run, and how many operations were simulated."""
    skipped, plain = 0, repeats.skip

    def skip(*arguments: object) -> int:
        nonlocal skipped
        done = plain(*arguments)  # type: ignore[arg-type]
        skipped += done
        return done

    with ExitStack() as stack:
        # Another function than the kernel itself, so that events are in runs.
        stack.enter_context(
            patch("simulator.engines.compiled.kernel", lambda kernel, _: partial(kernel))
        )
        stack.enter_context(patch("simulator.kernels.first_come.skip", skip))
        stack.enter_context(patch("simulator.kernels.repeats.STATE_SPACING", 0))
        part = run_part(routed, np.zeros(len(routed.schedule)), free, parts, fills=fills)
    return part, len(routed.schedule) - skipped


def assert_same(part: RunPart, expected: RunPart) -> None:
    for name in ("ready", "finish", "start", "cause"):
        assert np.array_equal(getattr(part.times, name), getattr(expected.times, name)), name
    assert np.array_equal(part.waits, expected.waits)
    for column, plain in zip(part.windows, expected.windows, strict=True):
        assert np.array_equal(column, plain)


CASES = {
    "ring": ("ring", star(48, bandwidth=1e9, latency=1e-6, gap=1e-7, reduction=1e-10), 48),
    "rings": ("rings", cluster("hgx_h100", 8), 64),
    "two_level": ("two_level", cluster("hgx_h100", 16), 128),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("fills", [True, False])
def test_what_is_skipped_has_the_times_of_a_whole_run(case: str, fills: bool) -> None:
    routed, parts = folded(*CASES[case])
    free = np.zeros(routed.work.ranks.serials + len(routed.topology.medium_bandwidth))
    free[-3:] = 2.0**-13
    expected = run_part(routed, np.zeros(len(routed.schedule)), free)
    part, simulated = skipping(routed, free, parts, fills)
    assert simulated < len(routed.schedule), "some of it is skipped"
    if fills:
        assert_same(part, expected)
    for column, plain in zip(part.windows, expected.windows, strict=True):
        assert np.array_equal(column, plain)


@given(
    ranks=st.integers(24, 40),
    name=st.sampled_from(["ring", "ring_reduce_scatter", "ring_all_gather"]),
    costs=st.tuples(*[st.floats(0.0, 1e-5)] * 3),
    bandwidth=st.floats(1e6, 1e12),
    held=st.floats(0.0, 1.0),
)
def test_rings_have_the_times_of_a_whole_run(
    ranks: int, name: str, costs: tuple[float, float, float], bandwidth: float, held: float
) -> None:
    latency, gap, merging = costs
    machine = star(ranks, bandwidth=bandwidth, latency=latency, gap=gap, reduction=merging * 1e-6)
    routed, parts = folded(name, machine, ranks)
    free = np.zeros(routed.work.ranks.serials + len(routed.topology.medium_bandwidth))
    free[-2:] = np.rint(held / TICK) * TICK
    expected = run_part(routed, np.zeros(len(routed.schedule)), free)
    assert_same(skipping(routed, free, parts)[0], expected)


def test_compiled_loops_skip_as_much() -> None:
    routed, parts = folded(*CASES["rings"])
    free = np.zeros(routed.work.ranks.serials + len(routed.topology.medium_bandwidth))
    expected = run_part(routed, np.zeros(len(routed.schedule)), free)
    with patch("simulator.engines.compiled.kernel", lambda function, _: compiled(function)):
        part = run_part(routed, np.zeros(len(routed.schedule)), free, parts)
    assert_same(part, expected)


def test_nothing_is_skipped_where_durations_are_no_whole_ticks() -> None:
    routed, parts = folded(*CASES["ring"])
    routed = fold(find("ring"), CASES["ring"][1], 48).routed  # type: ignore[union-attr]
    free = np.zeros(routed.work.ranks.serials + len(routed.topology.medium_bandwidth))
    assert skipping(routed, free, parts)[1] == len(routed.schedule)
