"""What is read off a schedule and shown of it, and that its kernels give the same as Python and as
compiled code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import replace
from importlib import import_module
from pkgutil import ModuleInfo, iter_modules
from types import CodeType, FunctionType
from typing import Any
from unittest.mock import patch

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from law_cases import PLAIN, a_sixth
from parsed_html import Parsed
from refusals import refusal
from simulator import kernels as kernel_package
from simulator.analysis.bubbles import bubbles
from simulator.analysis.contention import waited
from simulator.collectives import algorithms, find
from simulator.collectives.ring import ring_all_reduce
from simulator.collectives.symmetry import fold
from simulator.engines import simulate
from simulator.schedules import semantics
from simulator.schedules.routed import route
from simulator.schedules.schedule import TRANSFER, Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import rotations
from small_schedules import equal_messages
from topologies.jit import compiled
from topologies.shapes import star

MODULES = tuple(iter_modules(kernel_package.__path__))

COLUMNS = (
    *("kind", "rank", "peer", "source", "target", "count", "reduces", "seconds", "lane", "phase"),
    *("indptr", "indices"),
    "shares",
)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Anything that a builder takes; calls that it refuses are left out."""
    ranks, slots = draw(st.integers(2, 5)), draw(st.integers(1, 4))
    builder = ScheduleBuilder(ranks, 64.0, slots=slots, scratch=draw(st.integers(0, 2)))
    rank, slot = st.integers(0, ranks - 1), st.integers(0, slots - 1)
    for kind in draw(
        st.lists(st.sampled_from(("copy", "reduce", "signal", "compute")), max_size=15)
    ):
        after = draw(st.lists(st.integers(0, len(builder) - 1), max_size=2)) if len(builder) else []
        source, target_rank = draw(rank), draw(rank)
        if kind == "signal":
            builder.signal(
                source, target_rank, nbytes=draw(st.sampled_from((0.0, 8.0))), after=after
            )
        elif kind == "compute":
            builder.compute(source, 1.0, reads=draw(slot), after=after)
        elif source != target_rank:
            method = builder.copy if kind == "copy" else builder.reduce
            method(source, target_rank, slot=draw(slot), target=draw(slot), after=after)
    return builder.build()


def graph_of(schedule: Schedule) -> nx.DiGraph[int]:
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(schedule)))
    graph.add_edges_from(
        (int(before), i) for i in range(len(schedule)) for before in schedule.predecessors(i)
    )
    return graph


def transfers(schedule: Schedule) -> Iterator[int]:
    """The transfers between two ranks, one by one."""
    for i in range(len(schedule)):
        if schedule.kind[i] == TRANSFER and schedule.rank[i] != schedule.peer[i]:
            yield i


@given(schedules())
def test_steps_are_the_transfers_on_the_longest_chain(schedule: Schedule) -> None:
    deepest = [0] * len(schedule)
    remote = set(transfers(schedule))
    graph = graph_of(schedule)
    for i in nx.topological_sort(graph):
        deepest[i] = (i in remote) + max(
            (deepest[before] for before in graph.predecessors(i)), default=0
        )
    assert schedule.steps == max(deepest, default=0)


@given(schedules())
def test_volume_is_what_is_sent_and_local_operations_do_not_count(schedule: Schedule) -> None:
    sent = [0.0] * schedule.ranks
    for i in transfers(schedule):
        sent[schedule.rank[i]] += schedule.nbytes[i]
    assert schedule.sent().tolist() == sent
    assert schedule.sent().shape == (schedule.ranks,)
    assert schedule.volume == pytest.approx(sum(sent), rel=1e-14)
    assert np.flatnonzero(schedule.remote).tolist() == list(transfers(schedule))


@given(schedules())
def test_messages_are_counted_by_size(schedule: Schedule) -> None:
    sizes, counts = schedule.message_sizes
    sent = [float(schedule.nbytes[i]) for i in transfers(schedule)]
    assert dict(zip(sizes.tolist(), counts.tolist(), strict=True)) == Counter(sent)


@given(schedules(), st.sampled_from((0.0, 16.0, 64.0)), st.data())
def test_what_two_ranks_send_to_each_other_in_a_step_is_exchanged(
    schedule: Schedule, beyond: float, data: st.DataObject
) -> None:
    drawn = data.draw(st.lists(st.integers(0, 2), min_size=schedule.ranks, max_size=schedule.ranks))
    node = np.array(drawn, dtype=np.int32)
    before = [0] * len(schedule)
    remote, graph = set(transfers(schedule)), graph_of(schedule)
    for i in nx.topological_sort(graph):
        before[i] = max((before[j] + (j in remote) for j in graph.predecessors(i)), default=0)
    sent = {
        (before[i], schedule.rank[i], schedule.peer[i])
        for i in remote
        if schedule.nbytes[i] > beyond
    }
    longest: dict[int, float] = {}
    for i in remote:
        step, rank, peer = before[i], schedule.rank[i], schedule.peer[i]
        if schedule.nbytes[i] > beyond and node[rank] != node[peer] and (step, peer, rank) in sent:
            longest[step] = max(longest.get(step, 0.0), schedule.nbytes[i])
    assert schedule.exchanged(beyond, node).tolist() == [longest[step] for step in sorted(longest)]


def test_halving_and_doubling_exchange_and_rings_do_not() -> None:
    node = np.arange(16, dtype=np.int32)
    exchanged = {
        name: algorithms()[name].build(8, 64.0).exchanged(8.0, node).tolist()
        for name in algorithms()
    }
    assert exchanged["halving_doubling"] == [32, 16, 16, 32]
    assert exchanged["recursive_doubling"] == [64, 64, 64]
    assert exchanged["neighbor_exchange"] == [16, 16, 16]
    assert exchanged["ring"] == exchanged["tree"] == exchanged["chain_broadcast"] == []


@given(schedules())
def test_successors_are_the_predecessors_turned_round(schedule: Schedule) -> None:
    indptr, indices = schedule.successors
    graph = graph_of(schedule)
    for i in range(len(schedule)):
        assert indices[indptr[i] : indptr[i + 1]].tolist() == sorted(graph.successors(i))
    assert nx.is_directed_acyclic_graph(graph)


@pytest.mark.parametrize("name", a_sixth(algorithms(), 1))
def test_scaling_is_building_again(name: str) -> None:
    algorithm = algorithms()[name]
    for ranks in (2, 3, 6, 8):
        once = algorithm.build(ranks, 1e6)
        scaled, built = once.scaled(12345.0), algorithm.build(ranks, 12345.0)
        assert scaled.nbytes_total == built.nbytes_total == 12345.0
        np.testing.assert_allclose(scaled.nbytes, built.nbytes, rtol=1e-14)
        assert scaled.volume == pytest.approx(once.volume * 12345.0 / 1e6, rel=1e-12)
        assert scaled.steps == once.steps
        for column in COLUMNS:
            assert getattr(scaled, column) is getattr(once, column)
            assert np.array_equal(getattr(scaled, column), getattr(built, column))


def test_scaling_leaves_the_original_alone() -> None:
    once = ring_all_reduce(4, 1e6)
    before = once.nbytes.copy()
    once.scaled(1.0)
    assert np.array_equal(once.nbytes, before)
    assert once.nbytes_total == 1e6


def test_messages_without_slots_keep_their_size() -> None:
    builder = ScheduleBuilder(2, 100.0, slots=4)
    builder.copy(0, 1, slot=1)
    builder.signal(0, 1, nbytes=8.0)
    builder.compute(0, 3.0, reads=1)
    schedule = builder.build().scaled(1000.0)
    assert schedule.nbytes.tolist() == [250.0, 8.0, 0.0]
    assert schedule.seconds.tolist() == [0.0, 0.0, 3.0]
    assert schedule.volume == 258.0


@each_case("nbytes", [0.0, -1.0, float("nan"), float("inf")])
def test_scaling_to_no_bytes_is_refused_as_building_is(nbytes: float) -> None:
    schedule = ring_all_reduce(3, 1e6)
    assert "nbytes is" in refusal(schedule.scaled, nbytes)


def test_a_ring_in_numbers() -> None:
    ring = ring_all_reduce(4, 4096.0)
    assert len(ring) == 24
    assert (ring.steps, ring.volume) == (6, 24576.0)
    assert ring.sent().tolist() == [6144.0] * 4
    assert ring.phases[ring.phase[0]] == "reduce-scatter"
    assert ring.phases[ring.phase[-1]] == "all-gather"
    assert [ring.predecessors(i).tolist() for i in range(4)] == [[]] * 4


# Every kernel, both ways.

Kernel = Callable[..., Any]


def both_ways(function: Kernel, operations: int = 0) -> Kernel:
    """A kernel that runs as Python and compiled, on copies of its arguments, and fails where they
    differ."""

    def run(*args: Any) -> Any:
        first, second = deepcopy(args), deepcopy(args)
        with np.errstate(over="ignore"):
            plain, fast = function(*first), compiled(function)(*second)
        _assert_same(function.__name__, plain, fast)
        _assert_same(function.__name__, first, second)
        _write(first, args)
        _USED.add(function.__name__)
        return fast

    return run


def _write(source: Any, target: Any) -> None:
    if isinstance(source, tuple):
        for part, target_part in zip(source, target, strict=True):
            _write(part, target_part)
    elif isinstance(source, np.ndarray):
        target[...] = source


_USED: set[str] = set()


def _assert_same(name: str, plain: Any, fast: Any) -> None:
    if isinstance(plain, tuple):
        assert len(plain) == len(fast)
        for plain_part, fast_part in zip(plain, fast, strict=True):
            _assert_same(name, plain_part, fast_part)
    elif isinstance(plain, np.ndarray):
        assert plain.dtype == fast.dtype, name
        assert plain.tobytes() == fast.tobytes(), name
    else:
        assert plain == fast, name


def checking_kernels() -> ExitStack:
    stack = ExitStack()
    for module in ("slots", "schedule", "semantics", "folded_routes"):
        stack.enter_context(patch(f"simulator.schedules.{module}.kernel", both_ways))
    stack.enter_context(patch("simulator.analysis.bubbles.kernel", both_ways))
    stack.enter_context(patch("simulator.engines.compiled.compiled", both_ways))
    return stack


def use_everything(schedule: Schedule) -> None:
    topology = star(schedule.ranks, bandwidth=1e9, latency=1e-6, gap=1e-7, reduction=1e-10)
    timeline = simulate(schedule, topology, "compiled")
    bubbles(timeline)
    waited(timeline)
    if schedule.fold is None:
        semantics.run(schedule, semantics.inputs(schedule))
    assert schedule.steps >= 0


@pytest.mark.parametrize("name", a_sixth(PLAIN, 2))
def test_kernels_give_the_same_compiled_or_not(name: str) -> None:
    for ranks in (2, 3, 7):
        with checking_kernels():
            schedule = algorithms()[name].build(ranks, 840.0)
            use_everything(schedule)
            semantics.check(schedule, algorithms()[name].collective)


@given(st.data())
def test_kernels_give_the_same_on_schedules_of_any_kind(data: st.DataObject) -> None:
    with checking_kernels():
        use_everything(data.draw(schedules()))


def test_every_kernel_was_compared() -> None:
    with checking_kernels():
        use_everything(ring_all_reduce(3, 3.0))
        use_everything(ring_all_reduce(3, 3.0, rotations(3)))
    # Tests of their own compare these.
    flows = {"fair_sharing", "flow_levels", "flows"}
    exceptions = flows | {"path", "cells", "copies", "events"}
    called = {
        name
        for module in MODULES
        if module.name not in exceptions
        for name, function in functions_of(module.name).items()
        if name not in calls_of(module.name)
    }
    assert called == _USED


def functions_of(file: str) -> dict[str, FunctionType]:
    """The functions of a file of kernels."""
    module = import_module(f"simulator.kernels.{file}")
    functions = {
        name: each for name, each in vars(module).items() if isinstance(each, FunctionType)
    }
    return {name: each for name, each in functions.items() if each.__module__ == module.__name__}


def calls_of(file: str) -> set[str]:
    """What the functions of a file of kernels call."""
    return {name for each in functions_of(file).values() for name in each.__code__.co_names}


@each_case("module", MODULES)
def test_kernels_have_no_inner_functions(module: ModuleInfo) -> None:
    """Where there are some, comprehensions too, Numba leaves out what it takes for dead code, such
    as `times.finish[0] = 1`."""
    for function in functions_of(module.name).values():
        assert not any(isinstance(each, CodeType) for each in function.__code__.co_consts)


def test_pairs_are_numbered_alike_with_and_without_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = ring_all_reduce(5, 1e6)
    dense = route(schedule, star(5, bandwidth=1e9))
    monkeypatch.setattr("simulator.schedules.routed.TABLE_PAIRS", 2)
    sparse = route(schedule, star(5, bandwidth=1e9))
    for name in ("route", "route_indptr", "route_links", "node_indptr"):
        assert np.array_equal(getattr(dense, name), getattr(sparse, name)), name


def test_a_schedule_shows_its_bytes_and_first_transfers() -> None:
    rows = Parsed(find("ring").build(4, 2.0**20)._repr_html_()).rows
    assert ["V", "1MiB"] in rows
    assert ["steps", "6"] in rows
    assert ["transfers", "24"] in rows
    assert ["bytes sent by all ranks", "6MiB"] in rows
    assert ["0", "0", "1", "256KiB", "adds", "reduce-scatter"] in rows
    assert len(rows) == 6 + 1 + 8


def test_a_short_schedule_shows_all_its_transfers() -> None:
    assert "more" not in equal_messages(2, 8.0)._repr_html_()


def test_a_folded_schedule_counts_all_transfers() -> None:
    folded = fold(find("ring"), star(8, bandwidth=1e9), 8)
    assert folded is not None
    html = folded.routed.schedule._repr_html_()
    assert ["transfers", "112"] in Parsed(html).rows
    assert "8 transfers" in html


def test_the_names_of_phases_are_escaped() -> None:
    schedule = replace(equal_messages(1, 8.0), phases=("<script>",))
    assert "script" not in Parsed(schedule._repr_html_()).tags
