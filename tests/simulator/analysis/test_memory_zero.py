"""The value 0 is a value: what is computed from it is new, and no copy of it."""

from dataclasses import replace

import numpy as np

from simulator.analysis.memory import trace
from simulator.engines import simulate
from simulator.kernels.cells import mix
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.shapes import star


def test_a_computation_on_zero_writes_a_new_value() -> None:
    """Rank 1 is a switch, which begins with zeros; rank 0 computes on the zero that it gets, into
    its other slot."""
    builder = ScheduleBuilder(1, 2.0, slots=2, switches=1)
    got = builder.copy(1, 0, slot=0)
    builder.compute(0, 1.0, reads=0, writes=1, after=got)
    schedule = builder.build()
    machine = star(2, bandwidth=1.0)
    machine = replace(machine, in_network=np.ones_like(machine.in_network))
    usage = trace(schedule, simulate(schedule, machine))
    assert usage.resident[-1] == 2
    assert usage.redundant[-1] == 0


def test_values_of_computations_differ_from_all_that_they_read() -> None:
    numbers = [0, 1, 2, 2**61, 2**62 - 1]
    assert len({*numbers, *map(mix, numbers)}) == 2 * len(numbers)
    assert all(0 <= mix(number) < 2**62 for number in numbers)
