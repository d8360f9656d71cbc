"""A graph with whole capacities, and the least cuts between its nodes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from topologies.topology import Flags

Longs = npt.NDArray[np.int64]
MOST = 2**20
"""The most units of a capacity. So sums of many stay below the 32 bits in which the maximum flow of
scipy counts."""


def least_cut(
    capacity: Longs, sources: Iterable[int], sinks: Iterable[int], most: int
) -> tuple[int, Flags]:
    """The units that can flow from some nodes to others, at most `most`, and the nodes on the side
    of the sources, shape (nodes,).

    >>> least_cut(np.array([[0, 3, 0], [0, 0, 2], [0, 0, 0]]), [0], [2], 9)[0]
    2
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    nodes = len(capacity)
    joined = np.zeros((nodes + 2, nodes + 2), dtype=np.int32)
    joined[:nodes, :nodes] = np.minimum(capacity, most)
    joined[nodes, list(sources)] = joined[list(sinks), nodes + 1] = most
    tail, head = np.nonzero(joined)
    indptr = np.searchsorted(tail, np.arange(nodes + 3)).astype(np.int32)
    graph = csr_array((joined[tail, head], head.astype(np.int32), indptr), shape=joined.shape)
    flow = maximum_flow(graph, nodes, nodes + 1)
    inside = np.zeros(nodes + 2, dtype=np.bool_)
    if flow.flow_value < most:
        residual = csr_array(graph - flow.flow)
        residual.eliminate_zeros()
        inside[breadth_first_order(residual, nodes, return_predecessors=False)] = True
    return min(int(flow.flow_value), most), inside[:nodes]


def with_source(capacity: Longs, supply: Longs) -> Longs:
    """The capacities with one node more, which feeds each node with `supply`."""
    joined = np.zeros((len(capacity) + 1, len(capacity) + 1), dtype=np.int64)
    joined[:-1, :-1], joined[-1, :-1] = capacity, supply
    return joined
