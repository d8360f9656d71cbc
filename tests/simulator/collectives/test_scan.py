"""Scans by hand."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.collectives import find
from simulator.schedules import semantics


@pytest.mark.parametrize("name", ["chain_scan:segments=1", "doubling_scan"])
def test_an_inclusive_scan_adds_up_to_its_own_rank(name: str) -> None:
    schedule = find(name).build(5, 40.0)
    data = np.zeros((5, schedule.slots), dtype=np.uint64)
    data[:, 0] = [1, 2, 3, 4, 5]
    assert semantics.run(schedule, data)[:, 0].tolist() == [1, 3, 6, 10, 15]


def test_an_exclusive_scan_leaves_its_own_rank_out() -> None:
    schedule = find("chain_exscan:segments=1").build(5, 40.0)
    data = np.zeros((5, schedule.slots), dtype=np.uint64)
    data[:, 0] = [1, 2, 3, 4, 5]
    assert semantics.run(schedule, data)[1:, 0].tolist() == [1, 3, 6, 10]
    assert not find("chain_exscan").collective.postcondition(data, None)[0][0].any()
