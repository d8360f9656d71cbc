"""A graph with whole capacities, and the least cuts between its nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from topologies._compile import kernel
from topologies._flow_kernels import least_flow
from topologies.topology import Flags

Longs = npt.NDArray[np.int64]
MOST = 2**20
"""The most units of a capacity: more than all trees of a machine together."""


def least_cut(
    capacity: Longs,
    sources: Sequence[int],
    sinks: Longs,
    most: int,
    *,
    drains: Sequence[int] = (),
    enough: int = -1,
) -> tuple[int, Flags]:
    """The least number of units that can flow from some nodes to one of the `sinks` together with
    `drains`, at most `most`, and the nodes on the side of the sources, shape (nodes,).

    Sinks are asked in order, until the flow is no more than `enough`. The one with the least flow
    moves to the front. No sink may be the only one that is a source.

    >>> least_cut(np.array([[0, 3, 0], [0, 0, 2], [0, 0, 0]]), [0], np.array([2]), 9)[0]
    2
    """
    inside = np.zeros(len(capacity), dtype=np.int8)
    ends = np.array(sources, dtype=np.int64), np.array(drains, dtype=np.int64)
    find = kernel(least_flow, len(capacity) * len(sinks))
    return find(capacity, ends, sinks, (enough, most), inside), inside.astype(np.bool_)


def with_source(capacity: Longs, supply: Longs) -> Longs:
    """The capacities with one node more, which feeds each node with `supply`."""
    joined = np.zeros((len(capacity) + 1, len(capacity) + 1), dtype=np.int64)
    joined[:-1, :-1], joined[-1, :-1] = capacity, supply
    return joined
