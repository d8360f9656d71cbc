"""Numbers of ranks to try, edges and counts of wires of the plain shapes, and ways round a ring."""

from math import isqrt, prod
from typing import Any

import numpy as np

from topologies.shapes import SHAPES
from topologies.topology import Topology

RANKS = [*range(2, 10), 16, 33]
COLUMNS = (
    *("placement", "source", "target", "latency", "link_indptr", "link_media", "medium_bandwidth"),
    *("medium_gap", "reduction", "copy"),
)


def same(topology: Topology, reference: Topology) -> bool:
    """The same machine, whatever its name."""
    names = (topology.device_names, topology.device_kinds, topology.medium_names) == (
        reference.device_names,
        reference.device_kinds,
        reference.medium_names,
    )
    return names and all(
        np.array_equal(getattr(topology, column), getattr(reference, column)) for column in COLUMNS
    )


def gpu_edges(graph: Any) -> set[tuple[str, str]]:
    """The edges of a networkx graph of numbers, in both directions, as names of GPUs."""
    return {
        (f"gpu{source}", f"gpu{target}")
        for source, target in graph.to_directed().edges
        if source != target
    }


def full_bandwidth(shape: str, ranks: int) -> Topology:
    return SHAPES[shape](ranks, bandwidth=3e9, latency=5e-6, gap=2e-6, reduction=7e-12)


def square(p: int) -> tuple[int, int]:
    """The factors nearest to each other, the smaller one first."""
    low = max(width for width in range(1, isqrt(p) + 1) if p % width == 0)
    return low, p // low


def grid_wires(dims: tuple[int, ...]) -> int:
    """In a dimension of w, w - 1 wires for each of the rows."""
    return sum(prod(dims) // width * (width - 1) for width in dims)


def torus_wires(dims: tuple[int, ...]) -> int:
    """As many as there are ranks in every dimension, half as many in one of 2, none in one of 1."""
    return sum(prod(dims) // (2 if width == 2 else 1) for width in dims if width > 1)


def apart(pairs: set[tuple[int, int]], devices: int) -> bool:
    """Whether the shortest ways of all pairs round a ring are equally long and share no link.

    >>> apart({(0, 2), (3, 1)}, 5), apart({(0, 2), (1, 3)}, 5), apart({(0, 1), (0, 2)}, 5)
    (True, False, False)
    """
    links, lengths = list[tuple[int, int]](), set[int]()
    for a, b in pairs:
        ahead = (b - a) % devices
        way = 1 if 2 * ahead <= devices else -1
        length = ahead if way == 1 else devices - ahead
        lengths.add(length)
        links += [((a + way * step) % devices, way) for step in range(length)]
    return len(lengths) <= 1 and len(set(links)) == len(links)
