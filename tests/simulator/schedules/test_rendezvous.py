"""Ready signals before every transfer: when they are posted, what they cost, and that nothing else
changes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.collectives import algorithms, find
from simulator.engines import simulate
from simulator.schedules import semantics
from simulator.schedules.rendezvous import rendezvous
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.columns import owners
from topologies.shapes import star

NAMES = tuple(
    name for name, algorithm in algorithms().items() if (algorithm.build(8, 1.0).source >= 0).all()
)
"""Algorithms without signals of their own."""
cases = st.sampled_from(NAMES), st.integers(2, 9)


def signals(schedule: Schedule) -> list[int]:
    return np.flatnonzero(schedule.remote & (schedule.source < 0)).tolist()


def released(schedule: Schedule, signal: int) -> int:
    """The transfer that waits for a signal."""
    indptr, successors = schedule.successors
    (transfer,) = successors[indptr[signal] : indptr[signal + 1]].tolist()
    return int(transfer)


@given(*cases)
def test_every_transfer_waits_for_one_signal_of_its_own_from_its_receiver(
    name: str, ranks: int
) -> None:
    plain = find(name).build(ranks, 1e6)
    ready = rendezvous(plain)
    signal_indices = signals(ready)
    transfers = [released(ready, signal) for signal in signal_indices]
    assert sorted(transfers) == np.flatnonzero(ready.remote & (ready.source >= 0)).tolist()
    assert np.array_equal(ready.rank[signal_indices], ready.peer[transfers])
    assert np.array_equal(ready.peer[signal_indices], ready.rank[transfers])


@given(*cases)
def test_nothing_else_changes(name: str, ranks: int) -> None:
    plain = find(name).build(ranks, 1e6)
    ready = rendezvous(plain)
    rest = np.setdiff1d(np.arange(len(ready)), signals(ready))
    for column in (
        *("kind", "rank", "peer", "source", "target", "count", "reduces", "nbytes", "seconds"),
        *("lane", "phase"),
    ):
        mine, theirs = getattr(ready, column), getattr(plain, column)
        assert mine.dtype == theirs.dtype
        assert np.array_equal(mine[rest], theirs)
    number = dict(enumerate(rest.tolist()))
    for operation in range(len(plain)):
        waits = set(ready.predecessors(number[operation]).tolist())
        assert {number[j] for j in plain.predecessors(operation).tolist()} == waits - set(
            signals(ready)
        )
    assert np.all(ready.indices < owners(ready.indptr))
    if not plain.switches:
        semantics.check(ready, find(name).collective)


@given(*cases, st.floats(0, 1e-2))
def test_no_message_is_faster_and_none_takes_more_than_twice_the_latency(
    name: str, ranks: int, latency: float
) -> None:
    plain = find(name).build(ranks, 1e6)
    machine = star(plain.ranks, bandwidth=float("inf"), latency=latency)
    if not plain.switches:
        times = [simulate(schedule, machine).makespan for schedule in (plain, rendezvous(plain))]
        assert times[0] * (1 - 1e-12) <= times[1] <= 2 * times[0] * (1 + 1e-12)


def test_one_message_by_hand() -> None:
    # 1 s to say ready, 1 s on the way, 8 bytes at 2 bytes/s.
    message = ScheduleBuilder(2, 8.0)
    message.copy(0, 1, slot=0)
    assert (
        simulate(rendezvous(message.build()), star(2, bandwidth=2.0, latency=0.5)).makespan
        == 1 + 1 + 4
    )


def test_a_receive_is_posted_when_what_was_received_before_has_arrived() -> None:
    """A ring of 3, 1 s a latency, no bytes to speak of: two steps of there and back each."""
    ring = rendezvous(find("ring_all_gather").build(3, 1.0))
    timeline = simulate(ring, star(3, bandwidth=float("inf"), latency=0.5))
    assert sorted(timeline.ready[signals(ring)].tolist()) == [0.0] * 3 + [2.0] * 3
    assert timeline.makespan == 4.0


def test_a_receive_waits_until_its_rank_needs_what_it_overwrites_no_more() -> None:
    program = ScheduleBuilder(2, 1.0)
    program.compute(1, 5.0, reads=0)
    program.copy(0, 1, slot=0)
    assert (
        simulate(rendezvous(program.build()), star(2, bandwidth=1.0, latency=0.5)).makespan
        == 5 + 1 + 1 + 1
    )


def test_a_receive_does_not_wait_for_an_earlier_step_that_comes_later_in_the_schedule() -> None:
    """Rank 2 receives what rank 1 has passed on, then what rank 0 could have sent at once: both are
    posted at once."""
    program = ScheduleBuilder(3, 2.0, slots=2)
    program.copy(0, 1, slot=0)
    program.copy(1, 2, slot=0)
    program.copy(0, 2, slot=1)
    ready = rendezvous(program.build())
    assert (
        simulate(ready, star(3, bandwidth=1.0, latency=0.5)).ready[signals(ready)].tolist()
        == [0.0] * 3
    )


@pytest.mark.parametrize("ranks", [1, 3])
def test_what_sends_nothing_stays_as_it_is(ranks: int) -> None:
    program = ScheduleBuilder(ranks, 1.0, scratch=1)
    assert len(rendezvous(program.build())) == 0
    program.copy(0, 0, slot=0, target=1)
    program.compute(0, 1.0)
    if ranks > 1:
        program.signal(1, 2)
    plain = program.build()
    assert len(rendezvous(plain)) == len(plain)
