"""Gossip: the ranks whose data count."""

from __future__ import annotations

import numpy as np

from simulator.collectives import find
from simulator.collectives.gossip import exponential_steps, ring_steps
from simulator.schedules import semantics


def test_the_neighbors_in_a_ring_count() -> None:
    schedule = find("gossip_ring").build(5, 1.0)
    data = np.zeros((5, schedule.slots), dtype=np.uint64)
    data[:, 0] = [1, 10, 100, 1000, 10000]
    assert semantics.run(schedule, data)[:, 0].tolist() == [10011, 111, 1110, 11100, 11001]


def test_neighbors_count_once() -> None:
    assert (ring_steps(1), ring_steps(2), ring_steps(3)) == ([], [1], [1, 2])
    assert exponential_steps(1) == []
    assert find("gossip_exponential").build(8, 8.0).sent().tolist() == [24.0] * 8
