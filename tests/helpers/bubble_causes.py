"""What holds of the bubbles of every run."""

from math import fsum

import pytest

from simulator.analysis.bubbles import bubbles
from simulator.schedules.schedule import COMPUTE
from simulator.schedules.timeline import Timeline


def check_that_causes_add_up(timeline: Timeline, ranks: int) -> None:
    """A rank's bubbles of all causes are the time in which it does not compute, if it computes at
    all."""
    shares, schedule = bubbles(timeline), timeline.schedule
    assert (shares >= 0).all()
    for rank in range(ranks):
        mine = (schedule.kind == COMPUTE) & (schedule.lane == 0) & (schedule.rank == rank)
        idle = timeline.makespan - fsum(schedule.seconds[mine]) if mine.any() else 0.0
        assert shares.sum(axis=1)[rank] == pytest.approx(idle, abs=1e-9)
