"""How large the schedule of an algorithm is, before it is built."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import log2, prod
from typing import NamedTuple

import numpy as np

from simulator.collectives.collective import Algorithm
from simulator.schedules.schedule import Schedule
from topologies.columns import distinct
from topologies.errors import InputError
from topologies.topology import Topology


class Counts(NamedTuple):
    """What the time and the memory of a schedule depend on."""

    operations: float
    waits: float
    """Predecessors of all operations."""
    touches: float
    """Slots that all operations read or write."""
    pairs: float
    """Ranks and peers that are different on a channel: each pair has a route."""


def counts(algorithm: Algorithm, ranks: int) -> Counts:
    """About how large the schedule is: counted at few ranks, and extended as :func:`estimate` is.

    >>> from simulator.collectives import find
    >>> counts(find("naive"), 64)
    Counts(operations=8064.0, waits=253952.0, touches=7936.0, pairs=4096.0)
    """
    if algorithm.origin:
        operations = estimate(algorithm, ranks)
        return Counts(operations, 2 * operations, operations, operations)
    if isinstance(base := _base(algorithm), Algorithm):
        return counts(base, ranks)
    if algorithm.plain:
        times = estimate(algorithm, ranks) / estimate(algorithm.plain, ranks)
        return Counts(*(times * count for count in counts(algorithm.plain, ranks)))
    extended = Counts(*(_extended(column, ranks) for column in _counted(algorithm)))
    return extended._replace(operations=estimate(algorithm, ranks))


def estimate(algorithm: Algorithm, ranks: int) -> float:
    """About how many operations `algorithm` has: what it declares, else counted at few ranks p, and
    extended as a power of p or as p log p.

    What is extended is within some 10% where p is a power of two. Elsewhere it may be up to twice
    too high.

    >>> from simulator.collectives import find
    >>> estimate(find("ring"), 32), estimate(find("tree_reduce"), 32)
    (1984.0, 31.0)
    """
    if isinstance(base := _base(algorithm), Algorithm):
        return estimate(base, ranks)
    if algorithm.origin:
        return _built(algorithm, ranks)
    defaults = (algorithm.plain or algorithm).options
    multipliers = defaults.keys() & {"segments", "channels", "ways"}
    multiple = prod(algorithm.options[key] / defaults[key] for key in multipliers)
    if algorithm.operations is not None:
        return multiple * algorithm.operations(ranks)
    return multiple * _extended(_counted(algorithm.plain or algorithm)[0], ranks)


def bounds(algorithm: Algorithm, topology: Topology, ranks: int) -> Iterator[float]:
    """The least number of operations of a schedule. Each bound is better and slower than the
    last."""
    if ranks == 1:
        yield 0.0
        return
    if algorithm.listed_name.startswith("rings"):
        from simulator.collectives.rings import rings_of

        single = estimate(algorithm, ranks)
        yield single
        yield single * len(rings_of(topology, ranks).orders)
    elif algorithm.name == "two_level":
        from simulator.collectives.two_level import nodes_of

        per_node = nodes_of(topology, ranks).shape[1]
        yield ranks * 2.0 * (per_node + ranks // per_node - 2)
    elif algorithm.operations is not None and algorithm.fit is None:
        yield estimate(algorithm, ranks)
    elif not algorithm.cost.known:
        yield _built(algorithm, ranks)
    else:
        yield algorithm.cost.volume(ranks)
    if algorithm.name == "nvls" and not (topology.in_network & (topology.node < 0)).any():
        nodes = len(distinct(topology.node[topology.placement[:ranks]]))
        # Each of 8 pieces of a rank takes a reduction and a copy for each step round the nodes.
        yield 16 * ranks * (nodes - 1.0)


def _base(algorithm: Algorithm) -> object:
    """The algorithm of which another root, or other sizes, make this one, if any."""
    return algorithm.recipe[1][0] if algorithm.recipe else None


def _built(algorithm: Algorithm, ranks: int) -> float:
    """The operations of a user's schedule; 1 where it cannot be built, which its point says."""
    try:
        return float(max(1, len(algorithm.build(ranks, 1.0))))
    except InputError:
        return 1.0


def _extended(counted: list[tuple[int, float]], ranks: int) -> float:
    (few, less), (more, number) = counted
    power = log2(number / less) / log2(more / few)
    # How far from a whole number a power may be.
    if abs(power - round(power)) < 0.1:
        return float(number * (ranks / more) ** round(power))
    return number * ranks * log2(ranks) / (more * log2(more))


@cache
def _counted(algorithm: Algorithm) -> list[list[tuple[int, float]]]:
    """For each count the numbers of ranks of a small and of a large schedule, and the counts."""
    ranks = [next(filter(algorithm.defined, range(p, 0, -1))) for p in (16, 32)]
    sizes = [_sizes(algorithm.build(p, 1.0)) for p in ranks]
    return [
        [(p, max(1.0, count)) for p, count in zip(ranks, column, strict=True)]
        for column in zip(*sizes, strict=True)
    ]


def _sizes(schedule: Schedule) -> Counts:
    channel = schedule.lane.astype(np.int64)
    pair = (channel * schedule.ranks + schedule.rank) * schedule.ranks + schedule.peer
    operations, waits = len(schedule), len(schedule.indices)
    return Counts(operations, waits, int(schedule.count.sum()), len(distinct(pair)))
