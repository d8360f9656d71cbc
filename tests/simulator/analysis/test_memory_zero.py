"""The value 0 is a value: what is computed from it is new, and no copy of it."""

from dataclasses import replace

import numpy as np

from simulator.analysis.memory import trace
from simulator.engines import simulate
from simulator.kernels import copies
from simulator.kernels.records import Operations
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
    values = np.array([0, 1, 2, 2**63, 2**64 - 1], dtype=np.uint64)
    count = len(values)
    cells, order = np.arange(count, dtype=np.int32), np.arange(count, dtype=np.int32)
    zeros, times = np.zeros(count, np.int8), np.arange(count, dtype=np.float64)
    operations = Operations(
        kind=zeros,
        rank=cells * 0,
        peer=cells * 0,
        source=cells,
        target=cells + count,
        count=np.ones(count, np.int32),
        reduces=zeros,
        nbytes=times,
        seconds=times,
        lane=np.zeros(count, np.int16),
    )
    data, owned = np.concatenate((values, values)), np.zeros(2 * count, np.int8)
    with np.errstate(over="ignore"):
        cell, value, *_ = copies.lifetimes(
            order, operations, times, times + 1, data, owned, 2 * count
        )
    assert cell.tolist() == (cells + count).tolist()
    assert len({*value.tolist(), *values.tolist()}) == 2 * count
