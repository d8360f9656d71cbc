"""Memory of a run over time, step by step."""

import numpy as np

from simulator.analysis.memory import MemoryTrace, trace
from simulator.engines import simulate
from simulator.schedules.schedule import Schedule
from topologies.topology import Topology


def memory(schedule: Schedule, topology: Topology) -> MemoryTrace:
    return trace(schedule, simulate(schedule, topology))


def at(usage: MemoryTrace, time: float) -> tuple[float, float]:
    """Bytes resident and redundant at a time."""
    step = int(np.searchsorted(usage.times, time, side="right")) - 1
    return float(usage.resident[step]), float(usage.redundant[step])


def steps(usage: MemoryTrace) -> list[tuple[float, float, float]]:
    """Time, resident and redundant of every step."""
    return list(
        zip(usage.times.tolist(), usage.resident.tolist(), usage.redundant.tolist(), strict=True)
    )
