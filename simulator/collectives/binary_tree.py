"""Binary tree: V in pieces that follow one another. Rank r has the children 2r + 1 and 2r + 2."""

import numpy as np

from simulator.collectives.collective import ALL_REDUCE, BROADCAST, REDUCE, Algorithm
from simulator.cost_models import trees
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.topology import Ints

PIECES = 32


def binary_tree_broadcast(ranks: int, nbytes: float, *, segments: int = PIECES) -> Schedule:
    """As soon as a rank has a piece, it passes the piece on to one child, then to the other.

    >>> binary_tree_broadcast(4, 4096.0).sent().tolist()
    [8192.0, 4096.0, 0.0, 0.0]
    """
    tree = ScheduleBuilder(ranks, nbytes, slots=segments)
    _broadcast(tree)
    return tree.build()


def binary_tree_reduce(ranks: int, nbytes: float, *, segments: int = PIECES) -> Schedule:
    """A rank passes each piece on to its parent when both children have added to it."""
    tree = ScheduleBuilder(ranks, nbytes, slots=segments)
    _reduce(tree)
    return tree.build()


def binary_tree_all_reduce(ranks: int, nbytes: float, *, segments: int = PIECES) -> Schedule:
    """A reduce, then a broadcast when rank 0 has everything. Open MPI calls this nonoverlapping and
    uses it for long messages."""
    tree = ScheduleBuilder(ranks, nbytes, slots=segments)
    _broadcast(tree, after=_reduce(tree))
    return tree.build()


def _reduce(tree: ScheduleBuilder) -> Ints:
    """The operations that bring rank 0 its pieces."""
    tree.phase("reduce")
    child, pieces = np.arange(1, tree.ranks)[::-1, None], np.arange(tree.slots.buffer)
    sent = tree.reduce(child, (child - 1) // 2, slot=pieces, steps=1)
    return sent.reshape(-1)[-2 * len(pieces) :]


def _broadcast(tree: ScheduleBuilder, after: Ints | tuple[()] = ()) -> None:
    tree.phase("broadcast")
    piece, parents, pairs = np.arange(tree.slots.buffer), tree.ranks // 2, (tree.ranks - 1) // 2
    for rank, children in (
        (np.arange(min(pairs, 1)), 2),
        (np.arange(1, pairs), 2),
        (np.arange(pairs, parents), 1),
    ):
        child = 2 * rank[:, None] + 1 + np.tile(np.arange(children), len(piece))
        waits = after if 0 in rank else ()
        slot = np.repeat(piece, children)
        if len(rank):
            tree.copy(rank[:, None], child, slot=slot, after=waits, steps=1)


ALGORITHMS = (
    Algorithm(
        "binary_tree",
        ALL_REDUCE,
        binary_tree_all_reduce,
        trees.binary_tree_all_reduce,
        "a reduce up a binary tree in pieces, then a broadcast down it",
        operations=lambda ranks: 2.0 * PIECES * (ranks - 1),
    ),
    Algorithm(
        "binary_tree_reduce",
        REDUCE,
        binary_tree_reduce,
        trees.binary_tree_reduce,
        "up a binary tree to rank 0, in pieces",
    ),
    Algorithm(
        "binary_tree_broadcast",
        BROADCAST,
        binary_tree_broadcast,
        trees.binary_tree_broadcast,
        "down a binary tree from rank 0, in pieces",
    ),
)
