"""The dimensions of a torus, read off its links."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from topologies.topology import Topology


def dims_of(topology: Topology, ranks: int) -> tuple[int, ...]:
    """The ranks along each dimension of a torus whose ranks lie in row-major order; () if the
    machine is none.

    >>> from topologies.shapes import star, torus
    >>> dims_of(torus(24, bandwidth=1e9, dims=(2, 3, 4)), 24), dims_of(star(8, bandwidth=1e9), 8)
    ((2, 3, 4), ())
    """
    device = topology.placement[:ranks]
    if len(device) != len(topology.device_names) or (device != np.arange(ranks)).any():
        return ()
    links = {*zip(topology.source.tolist(), topology.target.tolist(), strict=True)}
    near = {target for source, target in links if source == 0}
    return next((dims for dims in _shapes(ranks, near) if _torus_links(dims) == links), ())


def _shapes(ranks: int, near: set[int], stride: int = 1) -> Iterator[tuple[int, ...]]:
    """The ways to cut `ranks` into dimensions such that rank 0 has the neighbours `near`."""
    if stride == ranks:
        yield ()
    for size in range(2, ranks // stride + 1):
        if ranks % (stride * size) == 0 and {stride, stride * (size - 1)} <= near:
            yield from ((*outer, size) for outer in _shapes(ranks, near, stride * size))


def _torus_links(dims: tuple[int, ...]) -> set[tuple[int, int]]:
    """The ends of all links, from neighbour to neighbour along each dimension."""
    rank = np.arange(int(np.prod(dims))).reshape(dims)
    ends = [(rank, np.roll(rank, way, axis)) for axis in range(len(dims)) for way in (1, -1)]
    return {
        pair for a, b in ends for pair in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
    }
