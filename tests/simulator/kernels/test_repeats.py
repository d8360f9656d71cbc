"""Kernels: their list, events in order, and runs in which steps that repeat are skipped."""

from contextlib import ExitStack
from functools import partial
from heapq import heappop, heappush
from importlib import import_module
from pkgutil import iter_modules
from types import FunctionType
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simulator.kernels as kernel_package
from grouped_cases import each_case
from simulator.collectives import find
from simulator.collectives.symmetry import fold
from simulator.engines.compiled import RunPart, run_part, used
from simulator.kernels import repeats
from simulator.kernels.events import ROOM, Runs, append, earliest, follows, take
from simulator.kernels.registry import KERNELS
from simulator.kernels.repeats import Parts
from simulator.schedules.alike_steps import alike_steps
from simulator.schedules.routed import Routed, in_ticks
from topologies import _flow_kernels, _kernels
from topologies.clusters import cluster
from topologies.jit import Kernel, compiled
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


Event = tuple[float, int, int]


def pop(runs: Runs, heap: list[Event]) -> Event:
    run = earliest(runs)
    if heap and follows(runs, run, *heap[0][:2]):
        return heappop(heap)
    return take(runs, run)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=40),
    st.integers(0, 4),
)
def test_events_come_in_order_whatever_the_number_of_runs(
    steps: list[tuple[int, bool]], count: int
) -> None:
    """An event is added, and then perhaps one is taken, as in a simple heap."""
    runs, heap, simple = Runs.empty(count), list[Event](), list[Event]()
    for number, (time, takes) in enumerate(steps):
        event = (float(time), number * 7 % 41, number)
        heappush(simple, event)
        if not append(runs, *event):
            heappush(heap, event)
        if takes:
            assert pop(runs, heap) == heappop(simple)
    while simple:
        assert pop(runs, heap) == heappop(simple)
    assert (earliest(runs), heap) == (-1, [])


def test_a_run_has_room_for_so_many_events_at_a_time() -> None:
    runs = Runs.empty(1)
    assert all(append(runs, 1.0, node, node) for node in range(ROOM))
    assert not append(runs, 1.0, ROOM, ROOM)
    assert take(runs, 0)[1] == 0
    assert append(runs, 1.0, ROOM, ROOM)
    assert not append(runs, 1.0, ROOM + 1, ROOM)


def test_a_run_that_is_empty_takes_any_event() -> None:
    runs = Runs.empty(1)
    assert append(runs, 2.0, 5, 0)
    assert not append(runs, 1.0, 0, 1)
    assert take(runs, earliest(runs)) == (2.0, 5, 0)
    assert earliest(runs) == -1
    assert append(runs, 1.0, 0, 1)
    assert take(runs, earliest(runs)) == (1.0, 0, 1)


def test_all_kernels_are_listed() -> None:
    """A function that no other function of these files calls is a kernel."""
    names = (f"simulator.kernels.{module.name}" for module in iter_modules(kernel_package.__path__))
    lower = _flow_kernels, _kernels
    functions, called = set[Kernel](), set[Kernel]()
    for file in (*lower, *map(import_module, names)):
        in_file = [
            each
            for each in vars(file).values()
            if isinstance(each, FunctionType) and each.__module__ == file.__name__
        ]
        functions.update(in_file)
        called |= {
            vars(file)[name]
            for each in in_file
            for name in each.__code__.co_names
            if isinstance(vars(file).get(name), FunctionType)
        }
    assert functions - called == set(KERNELS)
    assert len(KERNELS) == len(functions - called)


@each_case("kernel", KERNELS)
def test_the_annotations_of_a_kernel_are_complete(kernel: Kernel) -> None:
    names = kernel.__code__.co_varnames[: kernel.__code__.co_argcount]
    assert set(names) == set(kernel.__annotations__) - {"return"}
