"""How many operations a run has: estimated, and refused if they are too many, before any is
built."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from simulator.collectives import Algorithm
from simulator.collectives.rings import rings_of
from topologies.errors import InputError
from topologies.topology import Topology

MOST_OPERATIONS = 2**24
"""Of a run, which hold about 5 GB."""
PIECES = 16
"""Operations of nvls for each rank and each step round the ring of its nodes."""


class Size(NamedTuple):
    """How many operations a run has."""

    step: float
    """Operations of a step, on average."""
    once: float = 0.0
    """Operations that do not depend on the number of steps."""
    every: int = 1
    """The average holds for numbers of steps that this divides; others have no more."""


def check_size(size: Size, steps: int, repeated: int = 0) -> None:
    """Raise InputError if `steps` steps, and `repeated` attempts that a failure adds, have more
    operations than a run may. What it advises changes no time of a step."""
    total = size.once + size.step * (steps + repeated)
    if total <= MOST_OPERATIONS:
        return
    fewer = int((MOST_OPERATIONS - size.once) // size.step) - repeated
    fewer -= fewer % size.every
    if 1 <= fewer < steps:
        take = f"take {fewer} step{'s' * (fewer > 1)}"
        raise InputError(
            f"{steps} steps have {total:.3g} operations, a run at most {MOST_OPERATIONS}: {take}"
        )
    raise InputError(
        f"a step has {size.once + size.step:.3g} operations, a run at most {MOST_OPERATIONS}: "
        f"take fewer ranks; "
        "other buckets or another algorithm may have fewer operations, but their times are others"
    )


class Estimate(NamedTuple):
    """How many operations a collective has that is not built yet."""

    operations: float
    """This many or more."""
    exact: bool
    """Whether it has exactly as many."""


def estimates(algorithm: Algorithm, topology: Topology, ranks: int) -> Iterator[Estimate]:
    """Each estimate is better and slower than the last."""
    if ranks == 1:
        yield Estimate(0.0, True)
        return
    pairs, volume = ranks * (ranks - 1.0), algorithm.cost.volume(ranks, 1.0)
    known = {"ring": 2 * pairs, "gloo_ring": 8 * pairs, "ring_all_gather": pairs, "tree": volume}
    if algorithm.name == "rings":
        yield Estimate(2 * pairs, False)
        yield Estimate(2 * pairs * len(rings_of(topology, ranks).orders), True)
    else:
        yield Estimate(known.get(algorithm.name, volume), algorithm.name in known)
    if algorithm.name == "nvls" and not (topology.in_network & (topology.node < 0)).any():
        nodes = len(np.unique(topology.node[topology.placement[:ranks]]))
        yield Estimate(PIECES * ranks * (nodes - 1.0), False)
