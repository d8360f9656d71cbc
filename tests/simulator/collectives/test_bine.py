"""Bine's broadcast."""

import numpy as np

from simulator.collectives import find


def test_messages_cross_a_third_less_of_a_ring_than_those_of_a_binomial_tree() -> None:
    def crossed(name: str) -> int:
        schedule = find(name).build(1024, 1.0)
        distance = np.abs(schedule.rank - schedule.peer)
        return int(np.minimum(distance, 1024 - distance).max())

    assert (crossed("tree_broadcast"), crossed("bine_broadcast")) == (512, 341)
