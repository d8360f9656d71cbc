"""Trees from rank 0 in pieces that follow one another: binary, split binary and k-nomial.

In a binary tree rank r has the children 2r + 1 and 2r + 2. In a k-nomial tree the parent of a rank
has its number with the lowest digit, in base k, made 0.
"""

import numpy as np

from simulator.collectives.collective import ALL_REDUCE, BROADCAST, REDUCE, declare
from simulator.cost_models import trees
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.errors import InputError
from topologies.topology import Ints

PIECES = 32


@declare("binary_tree_broadcast", BROADCAST, trees.binary_tree_broadcast)
def binary_tree_broadcast(ranks: int, nbytes: float, *, segments: int = PIECES) -> Schedule:
    """Down a binary tree from rank 0, in pieces. A rank passes each piece on to one child, then to
    the other.

    >>> binary_tree_broadcast(4, 4096.0).sent().tolist()
    [8192.0, 4096.0, 0.0, 0.0]
    """
    tree = ScheduleBuilder(ranks, nbytes, slots=segments)
    _broadcast(tree)
    return tree.build()


@declare("binary_tree_reduce", REDUCE, trees.binary_tree_reduce)
def binary_tree_reduce(ranks: int, nbytes: float, *, segments: int = PIECES) -> Schedule:
    """Up a binary tree to rank 0, in pieces. Both children of a rank add to a piece first."""
    tree = ScheduleBuilder(ranks, nbytes, slots=segments)
    _reduce(tree)
    return tree.build()


@declare(
    "binary_tree",
    ALL_REDUCE,
    trees.binary_tree_all_reduce,
    operations=lambda ranks: 2.0 * PIECES * (ranks - 1),
)
def binary_tree_all_reduce(ranks: int, nbytes: float, *, segments: int = PIECES) -> Schedule:
    """A reduce up a binary tree in pieces, then a broadcast down it. Open MPI calls this
    nonoverlapping and uses it for long messages."""
    tree = ScheduleBuilder(ranks, nbytes, slots=segments)
    _broadcast(tree, after=_reduce(tree))
    return tree.build()


def _reduce(tree: ScheduleBuilder) -> Ints:
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


@declare("split_binary_broadcast", BROADCAST, trees.split_binary_broadcast)
def split_binary_broadcast(ranks: int, nbytes: float, *, segments: int = 16) -> Schedule:
    """Halves of V down the halves of a binary tree, then exchanged. Each half is cut into
    `segments`. Odd ranks pass on pieces of the first half, even ranks pieces of the second half.
    Then ranks 2k - 1 and 2k exchange their halves. The last of an even number of ranks gets the
    second half from rank 0.

    Open MPI has the same tree (ompi/mca/coll/base/coll_base_topo.c): rank r of level k has the
    children r + 2^k and r + 2^(k+1).

    >>> split_binary_broadcast(4, 4096.0).sent().tolist()
    [6144.0, 4096.0, 2048.0, 0.0]
    """
    tree = ScheduleBuilder(ranks, nbytes, slots=2 * segments, phase="broadcast")
    piece = np.arange(segments)
    for rank in range(ranks):
        step = 1 << ((rank + 1).bit_length() - 1)
        child = np.array([peer for peer in (rank + step, rank + 2 * step) if peer < ranks])
        if child.size:
            slot = piece[:, None] + (segments * (1 - child % 2))[None, :]
            tree.copy(rank, np.tile(child, segments), slot=slot.ravel())
    tree.phase("exchange")
    first = np.arange(1, ranks, 2)
    second = (first + 1) % ranks
    tree.copy(second, first, slot=segments, count=segments)
    tree.copy(first[second > 0], second[second > 0], slot=0, count=segments)
    return tree.build()


RADIX = 4
"""Open MPI's default."""


@declare("k_nomial_broadcast", BROADCAST, trees.k_nomial_broadcast)
def k_nomial_broadcast(
    ranks: int, nbytes: float, *, radix: int = RADIX, segments: int = 1
) -> Schedule:
    """Down a tree of log_k p levels from rank 0. A rank serves the children with the largest
    subtrees first.

    >>> k_nomial_broadcast(16, 16.0).steps
    2
    """
    tree = ScheduleBuilder(ranks, nbytes, slots=segments, phase="broadcast")
    for parent, below in children(ranks, radix):
        slot = np.repeat(np.arange(segments), len(below))
        tree.copy(parent, np.tile(below, segments), slot=slot)
    return tree.build()


@declare("k_nomial_reduce", REDUCE, trees.k_nomial_reduce)
def k_nomial_reduce(
    ranks: int, nbytes: float, *, radix: int = RADIX, segments: int = 1
) -> Schedule:
    """Up a tree of log_k p levels to rank 0."""
    tree = ScheduleBuilder(ranks, nbytes, slots=segments, phase="reduce")
    for parent, below in reversed([*children(ranks, radix)]):
        slot = np.repeat(np.arange(segments), len(below))
        tree.reduce(np.tile(below[::-1], segments), parent, slot=slot)
    return tree.build()


def children(ranks: int, radix: int) -> list[tuple[int, np.ndarray]]:
    """Every rank that has children, parents first, and its children in the order of service.

    >>> [(parent, below.tolist()) for parent, below in children(6, 3)]
    [(0, [3, 1, 2]), (3, [4, 5])]
    """
    if radix < 2:
        raise InputError(f"radix is {radix}: 2 or more")
    steps = [radix**k for k in range(64) if radix**k < ranks][::-1]
    digit = np.arange(1, min(radix, ranks))
    families = []
    for rank in range(ranks):
        below = [rank + step * digit for step in steps if rank % (step * radix) == 0]
        numbers = np.concatenate(below) if below else np.zeros(0, dtype=np.int64)
        if (numbers < ranks).any():
            families.append((rank, numbers[numbers < ranks]))
    return families
