"""Memory over time: bytes resident, and how many of them needlessly."""

from dataclasses import replace

import numpy as np
import pytest

from grouped_cases import each_case
from memory_steps import at, memory, steps
from simulator.analysis.memory import trace
from simulator.collectives import find
from simulator.engines import simulate
from simulator.kernels.cells import mix
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies import shapes
from topologies.link import Link
from topologies.topology_builder import TopologyBuilder

# By hand.


def test_a_ring_all_reduce_over_time() -> None:
    # p = 4, V = 4 bytes at 1 B/s: a step a second, of four chunks of 1 byte. In every
    # reduce-scatter step there are 4 bytes in inboxes; after it, 4 more values have been merged
    # elsewhere. In the all-gather nothing changes: copies replace what is dead already.
    usage = memory(find("ring").build(4, 4.0), shapes.ring(4, bandwidth=1.0))
    assert steps(usage) == [(0, 20, 0 + 4), (1, 20, 4 + 4), (2, 20, 8 + 4), (3, 16, 12)]
    assert usage.peaks.tolist() == [5] * 4, "V + V/p"
    assert usage.peak == 5
    assert usage.peak_redundant == 12


def ring_with_pauses(ranks: int, nbytes: float) -> Schedule:
    """A ring reduce-scatter in which everyone rests for a second after each step, when no inbox is
    in use."""
    ring = ScheduleBuilder(ranks, nbytes, slots=ranks)
    rank = np.arange(ranks)
    barrier = np.zeros(0, dtype=np.int32)
    for step in range(ranks - 1):
        sent = ring.reduce(rank, (rank + 1) % ranks, slot=(rank - step - 1) % ranks, after=barrier)
        barrier = ring.compute(rank, 1.0, after=sent)
    return ring.build()


@each_case("ranks", [2, 3, 5, 8])
def test_after_k_steps_of_a_ring_reduce_scatter_k_vectors_are_redundant(ranks: int) -> None:
    nbytes = 2.0 * ranks
    usage = memory(ring_with_pauses(ranks, nbytes), shapes.ring(ranks, bandwidth=2.0))
    for step in range(1, ranks):  # Step k is on the wire from 2(k - 1) to 2k - 1; then a pause.
        assert at(usage, 2 * step - 1.5) == (ranks * nbytes + nbytes, (step - 1) * nbytes + nbytes)
        assert at(usage, 2 * step - 0.5) == (ranks * nbytes, step * nbytes)


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_after_a_reduce_scatter_and_through_the_all_gather_one_phase_is_redundant(
    ranks: int,
) -> None:
    nbytes, topology = 8.0 * ranks, shapes.ring(ranks, bandwidth=8.0)
    scattered = memory(find("ring_reduce_scatter").build(ranks, nbytes), topology)
    assert at(scattered, ranks - 1) == (ranks * nbytes, (ranks - 1) * nbytes)
    whole = memory(find("ring").build(ranks, nbytes), topology)
    for time in range(ranks - 1, 2 * ranks):
        assert at(whole, time) == (ranks * nbytes, (ranks - 1) * nbytes)


def test_an_all_gather_is_redundant_from_the_beginning() -> None:
    # What will be overwritten unread was never worth anything: only the p chunks are, V bytes in
    # all.
    usage = memory(find("ring_all_gather").build(4, 8.0), shapes.ring(4, bandwidth=2.0))
    assert steps(usage) == [(0, 32, 24)]
    assert usage.peaks.tolist() == [8] * 4


def test_naive_over_time() -> None:
    # p = 3, V = 2 at 1 B/s through a star: everyone's first inbox is in use from 0, the second from
    # 2, both until 4, when all is merged. Until then only the three originals count, after that one
    # sum.
    usage = memory(find("naive").build(3, 2.0), shapes.star(3, bandwidth=1.0))
    assert steps(usage) == [(0, 6 + 6, 6), (2, 6 + 12, 12), (4, 6, 4)]
    assert usage.peaks.tolist() == [6] * 3, "pV"


def test_a_server_apart_over_time() -> None:
    # p = 2, V = 2 at 1 B/s. The server's slot and its inbox are used from 0; the second push
    # arrives at 4, is merged at once and its inbox given up; then rank 1's value is dead, rank 0's
    # own copy is until it is overwritten at 6. The server keeps the sum until it has sent it the
    # second time, at 8.
    usage = memory(find("parameter_server_apart").build(2, 2.0), shapes.star(3, bandwidth=1.0))
    assert steps(usage) == [(0, 4 + 4, 4), (4, 4 + 2, 2), (6, 6, 4), (8, 4, 2)]
    assert usage.peaks.tolist() == [2, 2, 4]


def test_scratch_is_held_from_its_first_use_to_its_last() -> None:
    # 0 computes 1 s, sends for 4 s into scratch of 1, which reads it after another 3 s, for 2 s.
    schedule = ScheduleBuilder(2, 4.0, scratch=2)
    pause = schedule.compute(0, 1.0)
    sent = schedule.copy(0, 1, slot=0, target=2, after=pause)
    schedule.compute(1, 2.0, reads=2, after=schedule.compute(1, 3.0, after=sent))
    usage = memory(schedule.build(), shapes.line(2, bandwidth=1.0))
    assert steps(usage) == [(0, 8, 0), (1, 12, 4), (10, 8, 0)]
    assert usage.peaks.tolist() == [4, 8]


def test_what_a_switch_holds_is_in_no_memory() -> None:
    # Two ranks have two slots of 2 bytes. A switch adds up slot 0 by 4 and slot 1 by 8. Both have
    # the sum of slot 0 at 8, and rank 1 has the sum of slot 1 in its scratch at 12. The switch
    # holds no inbox, no buffer and no live value.
    builder = TopologyBuilder("reducing star")
    gpus = [builder.device(f"gpu{rank}") for rank in range(2)]
    switch = builder.device("switch", "switch", in_network=True)
    for gpu in gpus:
        builder.connect(gpu, switch, Link(0.5))
    schedule = ScheduleBuilder(2, 4.0, slots=2, scratch=1, switches=1)
    schedule.reduce([0, 0, 1, 1], 2, slot=[0, 1, 0, 1])
    schedule.copy(2, [0, 1], slot=0)
    schedule.copy(2, 1, slot=1, target=2)
    schedule.compute(1, 1.0, reads=2)
    usage = memory(schedule.build(), builder.build([*gpus, switch]))
    assert steps(usage) == [(0, 8, 0), (4, 8, 4), (8, 10, 8), (12, 10, 6), (13, 8, 6)]
    assert usage.peaks.tolist() == [4, 6, 0]


def test_what_a_computation_writes_is_a_new_value_on_every_rank() -> None:
    # Rank 1 holds a copy of rank 0's from 4 on; at 9 both have computed gradients of their own into
    # it.
    schedule = ScheduleBuilder(2, 4.0)
    schedule.copy(0, 1, slot=0)
    schedule.compute([0, 1], 5.0, writes=0)
    usage = memory(schedule.build(), shapes.line(2, bandwidth=1.0))
    assert at(usage, 4.0) == (8, 4)
    assert at(usage, 9.0) == (8, 0)


def test_memory_of_a_run_of_no_time_is_one_step() -> None:
    usage = memory(find("ring").build(4, 4.0), shapes.ring(4, bandwidth=float("inf")))
    assert steps(usage) == [(0, 16, 12)]


def test_a_computation_on_zero_writes_a_new_value() -> None:
    """Rank 1 is a switch, which begins with zeros; rank 0 computes on the zero that it gets, into
    its other slot."""
    builder = ScheduleBuilder(1, 2.0, slots=2, switches=1)
    got = builder.copy(1, 0, slot=0)
    builder.compute(0, 1.0, reads=0, writes=1, after=got)
    schedule = builder.build()
    machine = shapes.star(2, bandwidth=1.0)
    machine = replace(machine, in_network=np.ones_like(machine.in_network))
    usage = trace(schedule, simulate(schedule, machine))
    assert usage.resident[-1] == 2
    assert usage.redundant[-1] == 0


def test_values_of_computations_differ_from_all_that_they_read() -> None:
    numbers = [0, 1, 2, 2**61, 2**62 - 1]
    assert len({*numbers, *map(mix, numbers)}) == 2 * len(numbers)
    assert all(0 <= mix(number) < 2**62 for number in numbers)
