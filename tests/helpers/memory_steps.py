"""Memory of a run over time, step by step."""

import numpy as np

from simulator.analysis.memory import Memory, trace
from simulator.engines import simulate
from simulator.schedules.schedule import Schedule
from topologies.topology import Topology


def memory(schedule: Schedule, topology: Topology) -> Memory:
    return trace(schedule, simulate(schedule, topology))


def at(found: Memory, time: float) -> tuple[float, float]:
    """Bytes resident and redundant at a time."""
    step = int(np.searchsorted(found.times, time, side="right")) - 1
    return float(found.resident[step]), float(found.redundant[step])


def steps(found: Memory) -> list[tuple[float, float, float]]:
    """Time, resident and redundant of every step."""
    return list(
        zip(found.times.tolist(), found.resident.tolist(), found.redundant.tolist(), strict=True)
    )
