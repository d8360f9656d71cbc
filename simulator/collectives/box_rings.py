"""All-reduce by rings along each axis of a box of ranks: BlueConnect, and rings on tori.

A reduce-scatter along one axis after the other leaves a rank less and less; all-gathers take the
axes backwards."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from simulator.collectives.collective import ALL_REDUCE, Fitted, declare
from simulator.collectives.two_level import along_axes, nodes_of
from simulator.cost_models import machine_formulas, neighbors
from simulator.schedules.schedule import Schedule
from simulator.schedules.shifts import Shifts, rotations
from topologies.columns import plain_rows
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
    links = {*plain_rows(topology.source, topology.target)}
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
    return {pair for a, b in ends for pair in plain_rows(a.ravel(), b.ravel())}


Dims = tuple[int, ...]
LEVELS = 3


def _all_reduce(
    dims: Dims, nbytes: float, orders: int, ways: int, shifts: Shifts | None
) -> Schedule:
    scatters, gathers = (
        [f"{name} {turn + 1}" for turn in range(len(dims))]
        for name in ("reduce-scatter", "all-gather")
    )
    places = np.arange(prod(dims)).reshape(dims)
    return along_axes(places, nbytes, shifts, scatters, gathers, orders=orders, ways=ways)


def box(ranks: int, levels: int) -> Dims:
    """So many factors of `ranks`, as nearly equal as can be, the largest last.

    >>> box(12, 3), box(7, 2), box(64, 3)
    ((2, 2, 3), (1, 7), (4, 4, 4))
    """
    if levels == 1:
        return (ranks,)
    root = ranks ** (1 / levels) + 1e-9
    least = max(factor for factor in range(1, int(root) + 1) if ranks % factor == 0)
    return tuple(sorted((least, *box(ranks // least, levels - 1))))


def _levels_of(topology: Topology, ranks: int, levels: int) -> Dims:
    """The dimensions of a torus; else the nodes in `levels` - 1 axes, and the ranks of a node."""
    if dims := dims_of(topology, ranks):
        return dims
    node = topology.node[topology.placement[:ranks]]
    if (node < 0).any() or levels == 1:
        return box(ranks, levels)
    nodes = nodes_of(topology, ranks)
    if (nodes.ravel() != np.arange(ranks)).any():
        return box(ranks, levels)
    return (*box(len(nodes), levels - 1), nodes.shape[1])


def fit_blue_connect(
    topology: Topology,
    ranks: int,
    nbytes: float,
    shifts: Shifts | None = None,
    *,
    levels: int = LEVELS,
) -> Fitted:
    """The levels of the machine, from the ranks of a node outwards."""
    dims = _levels_of(topology, ranks, levels)
    schedule = blue_connect_all_reduce(ranks, nbytes, dims, shifts)
    return Fitted(schedule, topology, machine_formulas.blue_connect_of(dims), (_words(dims),))


def fit_torus(
    topology: Topology, ranks: int, nbytes: float, shifts: Shifts | None = None
) -> Fitted:
    """The dimensions of a torus; one ring on any other machine."""
    dims = dims_of(topology, ranks)
    schedule = torus_rings_all_reduce(ranks, nbytes, dims, shifts)
    if not dims:
        return Fitted(schedule, topology, neighbors.RING_ALL_REDUCE)
    return Fitted(schedule, topology, machine_formulas.torus_rings(dims), (_words(dims),))


def _words(dims: Dims) -> str:
    return f"rings of {', '.join(map(str, reversed(dims)))} ranks"


def _shifts_along(dims: Dims) -> Shifts:
    return Shifts(dims, (1,) * len(dims))


@declare(
    "torus_rings",
    ALL_REDUCE,
    neighbors.RING_ALL_REDUCE,
    fit=fit_torus,
    shifts=rotations,
    shifts_on=lambda topology, ranks: _shifts_along(dims_of(topology, ranks) or (ranks,)),
)
def torus_rings_all_reduce(
    ranks: int, nbytes: float, dims: Dims = (), shifts: Shifts | None = None
) -> Schedule:
    """Rings both ways along all dimensions of a torus at the same time. V has a part for each
    direction of each dimension. Without a machine it is one ring, one way."""
    if dims:
        return _all_reduce(dims, nbytes, len(dims), 2, shifts)
    return _all_reduce((ranks,), nbytes, 1, 1, shifts)


@declare(
    "blue_connect",
    ALL_REDUCE,
    machine_formulas.blue_connect,
    fit=fit_blue_connect,
    shifts=lambda ranks, levels=LEVELS: _shifts_along(box(ranks, levels)),
    shifts_on=lambda topology, ranks, levels=LEVELS: _shifts_along(
        _levels_of(topology, ranks, levels)
    ),
    operations=lambda ranks, levels=LEVELS: (
        ranks * 2.0 * sum(size - 1 for size in box(ranks, levels))
    ),
)
def blue_connect_all_reduce(
    ranks: int,
    nbytes: float,
    dims: Dims = (),
    shifts: Shifts | None = None,
    *,
    levels: int = LEVELS,
) -> Schedule:
    """Rings inside nodes, and along each axis of a box of nodes. The last axis of `dims`, which
    has the ranks of a node, comes first.

    The default is a box of so many `levels`, as nearly a cube as can be.

    >>> blue_connect_all_reduce(12, 12.0).steps
    8
    """
    return _all_reduce(dims or box(ranks, levels), nbytes, 1, 1, shifts)
