"""Intervals of time."""

import numpy as np

from simulator.analysis.busy_time import length, union


def test_overlapping_intervals_are_merged() -> None:
    merged = union(np.array([4.0, 0.0, 1.0, 6.0]), np.array([5.0, 2.0, 3.0, 6.0]))
    assert merged.tolist() == [[0.0, 4.0, 6.0], [3.0, 5.0, 6.0]]
    assert union(np.zeros(0), np.zeros(0)).shape == (2, 0)
    assert length(merged) == 4.0
