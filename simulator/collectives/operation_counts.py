"""How many operations the schedule of an algorithm has, before it is built."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import log2, prod
from typing import NamedTuple

from simulator.collectives import algorithms
from simulator.collectives.collective import Algorithm
from simulator.collectives.rings import rings_of
from simulator.collectives.two_level import equal_nodes, nodes_of
from topologies.columns import distinct
from topologies.errors import InputError
from topologies.topology import Topology

SMALL, LARGE = 16, 32
NEAR = 0.1
"""How far from a whole number a power may be."""
PIECES = 16
"""Operations of nvls for each rank and each step round the ring of its nodes."""
MULTIPLIERS = ("segments", "channels")
"""The options that multiply the operations."""


class Bound(NamedTuple):
    """The least number of operations of a schedule."""

    operations: float
    """This many or more."""
    exact: bool
    """Whether it has exactly as many."""


def estimate(algorithm: Algorithm, ranks: int) -> float:
    """About how many operations `algorithm` has: exact where a formula is known, else counted at
    few ranks p, and extended as a power of p or as p log p.

    The estimate is within some 10% where p is a power of two. Elsewhere it may be up to 60% too
    high.

    >>> from simulator.collectives import find
    >>> estimate(find("ring"), 32), estimate(find("tree_reduce"), 32)
    (1984.0, 31.0)
    """
    if algorithm.listed_name != algorithm.name:
        return _multiple(algorithm) * estimate(algorithms()[algorithm.listed_name], ranks)
    if (exact := _exact(algorithm, ranks)) is not None:
        return exact
    if algorithm.origin:
        return _built(algorithm, ranks)
    (small_ranks, small), (large_ranks, large) = _counted(algorithm)
    power = log2(large / small) / log2(large_ranks / small_ranks)
    if abs(power - round(power)) < NEAR:
        return float(large * (ranks / large_ranks) ** round(power))
    return large * ranks * log2(ranks) / (large_ranks * log2(large_ranks))


def bounds(algorithm: Algorithm, topology: Topology, ranks: int) -> Iterator[Bound]:
    """Each bound is better and slower than the last."""
    if ranks == 1:
        yield Bound(0.0, True)
        return
    if algorithm.name == "rings":
        pairs = ranks * (ranks - 1.0)
        yield Bound(2 * pairs, False)
        yield Bound(2 * pairs * len(rings_of(topology, ranks).orders), True)
    elif algorithm.name == "two_level":
        per_node = nodes_of(topology, ranks).shape[1]
        yield Bound(ranks * 2.0 * (per_node + ranks // per_node - 2), True)
    elif (exact := _exact(algorithm, ranks)) is not None:
        yield Bound(exact, True)
    elif not algorithm.cost.known:
        yield Bound(_built(algorithm, ranks), True)
    else:
        yield Bound(algorithm.cost.volume(ranks, 1.0), False)
    if algorithm.name == "nvls" and not (topology.in_network & (topology.node < 0)).any():
        nodes = len(distinct(topology.node[topology.placement[:ranks]]))
        yield Bound(PIECES * ranks * (nodes - 1.0), False)


def _multiple(algorithm: Algorithm) -> float:
    """How many times the operations of the algorithm without options there are."""
    defaults = algorithms()[algorithm.listed_name].options
    return prod(algorithm.options[key] / defaults[key] for key in defaults if key in MULTIPLIERS)


def _exact(algorithm: Algorithm, ranks: int) -> float | None:
    """The number of operations, or None where no formula is known."""
    if algorithm.operations is not None:
        return algorithm.operations(ranks)
    peers = ranks - 1.0
    pairs = ranks * peers
    known = {
        "ring": 2 * pairs,
        "gloo_ring": 8 * pairs,
        "ring_all_gather": pairs,
        "tree": 2 * peers,
        "two_level": ranks * 2.0 * (sum(equal_nodes(ranks).shape) - 2),
    }
    return known.get(algorithm.name)


def _built(algorithm: Algorithm, ranks: int) -> float:
    """The operations of a user's schedule; 1 where it cannot be built, which its point says."""
    try:
        return float(max(1, len(algorithm.build(ranks, 1.0))))
    except InputError:
        return 1.0


@cache
def _counted(algorithm: Algorithm) -> list[tuple[int, int]]:
    """Ranks and operations of a small and of a large schedule."""
    ranks = [next(filter(algorithm.defined, range(most, 0, -1))) for most in (SMALL, LARGE)]
    return [(p, max(1, len(algorithm.build(p, 1.0)))) for p in ranks]
