"""Ring exchange: every block visits every rank."""

from __future__ import annotations

import numpy as np

from simulator.analysis.bounds import best_bound
from simulator.collectives import find
from simulator.engines import simulate
from topologies.shapes import ring


def test_every_rank_meets_every_block() -> None:
    schedule = find("ring_exchange").build(5, 1.0)
    holding, met = list(range(5)), [{rank} for rank in range(5)]
    for step in range(4):
        assert schedule.phases[step] == f"step {step}"
        senders = np.flatnonzero(schedule.remote & (schedule.phase == step))
        moved = {schedule.peer[i]: holding[schedule.rank[i]] for i in senders}
        holding = [moved[rank] for rank in range(5)]
        for rank in range(5):
            met[rank].add(holding[rank])
    assert met == [{*range(5)}] * 5


def test_a_one_way_ring_has_twice_the_bound_of_a_two_way_machine() -> None:
    algorithm, machine = find("ring_exchange"), ring(6, bandwidth=1.0)
    makespan = simulate(algorithm.build(6, 8.0), machine).makespan
    assert makespan == 40.0
    assert best_bound(algorithm.collective, machine, 6, 8.0).seconds == 20.0
