"""Events in order: runs, and a heap for what fits none."""

from heapq import heappop, heappush
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from simulator.kernels.events import ROOM, Runs, append, earliest, follows, take

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


def test_events_of_one_order_are_in_one_run() -> None:
    runs = Runs.empty(2)
    assert all(append(runs, 1.0, node, node) for node in range(3))
    assert append(runs, 1.0, 0, 9), "it is before the last of the first run"
    assert runs.ends.tolist() == [[0, 3], [0, 1]]
    assert not append(runs, 0.5, 0, 9), "it is before the last of each"
    assert [take(runs, earliest(runs))[2] for _ in range(4)] == [0, 9, 1, 2]


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


def test_events_at_infinity_come_last() -> None:
    runs = Runs.empty(2)
    for event in ((inf, 1, 0), (inf, 2, 1), (inf, 0, 2), (3.0, 4, 3)):
        append(runs, *event)
    assert [take(runs, earliest(runs))[2] for _ in range(3)] == [2, 0, 1]
    assert earliest(runs) == -1
