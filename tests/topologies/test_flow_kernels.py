"""Least flows between nodes."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from topologies._flow_kernels import least_flow
from topologies.jit import compiled

MOST = 40


@pytest.mark.parametrize("nodes", [2, 3, 8, 24])
def test_the_least_flow_is_that_of_scipy(nodes: int) -> None:
    """Compiled or not. The cut that is told has as much room."""
    random = np.random.default_rng(nodes)
    for _ in range(6):
        capacity = random.integers(0, 9, (nodes, nodes)) * (random.random((nodes, nodes)) < 0.4)
        np.fill_diagonal(capacity, 0)
        graph = csr_array(capacity.astype(np.int32))
        flows = [maximum_flow(graph, 0, sink).flow_value for sink in range(1, nodes)]
        for search in (least_flow, compiled(least_flow)):
            sinks, inside = np.arange(1, nodes), np.zeros(nodes, dtype=np.int8)
            ends = np.array([0]), np.array([], dtype=np.int64)
            least = search(capacity, ends, sinks, (-1, MOST), inside)
            assert least == min(MOST, *flows)
            if least < MOST:
                assert inside[0]
                assert not inside[sinks[0]]
                assert capacity[np.ix_(inside == 1, inside == 0)].sum() == least


def test_a_search_ends_at_a_flow_that_is_low_enough() -> None:
    """The sink of that flow comes first from then on."""
    capacity = np.array([[0, 3, 2, 1], [0] * 4, [0] * 4, [0] * 4])
    sinks, inside = np.array([1, 2, 3]), np.zeros(4, dtype=np.int8)
    ends = np.array([0]), np.array([], dtype=np.int64)
    assert least_flow(capacity, ends, sinks, (2, MOST), inside) == 2
    assert sinks.tolist() == [2, 1, 3]
