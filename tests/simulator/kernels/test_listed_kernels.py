"""Kernels: their list, and events in order."""

from heapq import heappop, heappush
from importlib import import_module
from pkgutil import iter_modules
from types import FunctionType

from hypothesis import given
from hypothesis import strategies as st

import simulator.kernels as kernel_package
from grouped_cases import each_case
from simulator.kernels.__main__ import KERNELS
from simulator.kernels.events import ROOM, Runs, append, earliest, follows, take
from topologies import _flow_kernels, _kernels
from topologies.jit import Kernel

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
