"""Map-reduce: a reduce waits for the last map."""

from __future__ import annotations

import numpy as np

from simulator.collectives import find
from simulator.engines import simulate
from simulator.schedules.schedule import COMPUTE
from topologies.shapes import star


def test_a_reduce_waits_for_the_last_map() -> None:
    schedule = find("map_reduce:map_us=500,reduce_us=200").build(4, 4.0)
    assert schedule.phases == ("map", "shuffle", "reduce")
    slow = np.flatnonzero((schedule.kind == COMPUTE) & (schedule.phase == 0))[2]
    schedule.seconds[slow] = 3e-3
    timeline = simulate(schedule, star(4, bandwidth=1e9))
    reducing = schedule.phase == schedule.phases.index("reduce")
    last = timeline.finish[slow]
    assert last == 3e-3
    assert (timeline.start[reducing] >= last).all()
    assert timeline.makespan > last + 200e-6


def test_maps_and_reduces_are_part_of_the_formula() -> None:
    algorithm = find("map_reduce:map_us=500,reduce_us=200")
    assert algorithm.build(4, 4.0).seconds.max() == 500e-6
    assert "t_m = 500 us, t_r = 200 us" in algorithm.cost.assumes
