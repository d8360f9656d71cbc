"""Memory over time: bytes resident, and how many of them needlessly."""

from memory_steps import memory, steps
from simulator.collectives import find
from simulator.kernels.cells import mix
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies import shapes

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


def test_scratch_is_held_from_its_first_use_to_its_last() -> None:
    # 0 computes 1 s, sends for 4 s into scratch of 1, which reads it after another 3 s, for 2 s.
    schedule = ScheduleBuilder(2, 4.0, scratch=2)
    pause = schedule.compute(0, 1.0)
    sent = schedule.copy(0, 1, slot=0, target=2, after=pause)
    schedule.compute(1, 2.0, reads=2, after=schedule.compute(1, 3.0, after=sent))
    usage = memory(schedule.build(), shapes.line(2, bandwidth=1.0))
    assert steps(usage) == [(0, 8, 0), (1, 12, 4), (10, 8, 0)]
    assert usage.peaks.tolist() == [4, 8]


def test_memory_of_a_run_of_no_time_is_one_step() -> None:
    usage = memory(find("ring").build(4, 4.0), shapes.ring(4, bandwidth=float("inf")))
    assert steps(usage) == [(0, 16, 12)]


def test_values_of_computations_differ_from_all_that_they_read() -> None:
    numbers = [0, 1, 2, 2**61, 2**62 - 1]
    assert len({*numbers, *map(mix, numbers)}) == 2 * len(numbers)
    assert all(0 <= mix(number) < 2**62 for number in numbers)
