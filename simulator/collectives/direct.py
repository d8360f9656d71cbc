"""Every rank, or rank 0, sends to all others at once or in turn, or reads their buffers."""

import numpy as np

from simulator.collectives.collective import ALL_REDUCE, ALL_TO_ALL, BROADCAST, REDUCE, declare
from simulator.collectives.layouts import by_place, chunked
from simulator.cost_models import servers
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, fold, rotations
from topologies.topology import Ints


@declare(
    "naive",
    ALL_REDUCE,
    servers.NAIVE,
    shifts=rotations,
    by_place=True,
    operations=lambda ranks: 2.0 * ranks * (ranks - 1),
)
def naive_all_reduce(
    ranks: int,
    nbytes: float,
    shifts: Shifts | None = None,
    *,
    staggered: bool = True,
    per_node: int = 1,
) -> Schedule:
    """Every rank sends all its data to every other rank at once. It adds up its p - 1 inboxes
    when all that it sent has arrived.

    If not `staggered`, every rank sends to rank 0 first. For p > 2 that takes (2p - 3)V/β instead
    of (p - 1)V/β.
    """
    ring = fold(ranks, shifts if staggered else None)
    naive = ScheduleBuilder(ring, nbytes, scratch=ranks - 1, phase="exchange")
    rank, turn = by_place(naive, per_node), np.arange(1, ranks)[:, None, None]
    peer = (rank + turn) % ranks if staggered else np.where(rank < turn, turn, turn - 1)
    naive.copy(rank, peer, slot=0, target=(rank - peer) % ranks, steps=2)
    naive.phase("merge")
    naive.reduce(rank, rank, slot=turn, target=0, steps=2)
    return naive.build()


@declare("naive_serial", ALL_REDUCE, servers.NAIVE_SERIAL)
def naive_serial_all_reduce(ranks: int, nbytes: float) -> Schedule:
    """One rank after the other collects all data and adds it up. It does so in scratch, because it
    still has to send its own."""
    naive = ScheduleBuilder(ranks, nbytes, scratch=1)
    barrier: Ints = np.zeros(0, dtype=np.int32)
    for root in range(ranks):
        naive.phase(f"root {root}")
        peers = np.delete(np.arange(ranks), root)
        root_copy = naive.copy(root, root, slot=0, target=1, after=barrier)
        barrier = naive.reduce(
            np.roll(peers, -root), root, slot=0, target=1, after=np.union1d(barrier, root_copy)
        )
    naive.phase("result")
    naive.copy(np.arange(ranks), np.arange(ranks), slot=1, target=0)
    return naive.build()


@declare("linear_broadcast", BROADCAST, servers.LINEAR_BROADCAST)
def linear_broadcast(ranks: int, nbytes: float) -> Schedule:
    """Rank 0 sends to every rank.

    >>> linear_broadcast(4, 8.0).sent().tolist()
    [24.0, 0.0, 0.0, 0.0]
    """
    flat = ScheduleBuilder(ranks, nbytes, phase="broadcast")
    flat.copy(0, np.arange(1, ranks), slot=0)
    return flat.build()


@declare("linear_reduce", REDUCE, servers.LINEAR_REDUCE)
def linear_reduce(ranks: int, nbytes: float) -> Schedule:
    """Every rank sends to rank 0."""
    flat = ScheduleBuilder(ranks, nbytes, phase="reduce")
    flat.reduce(np.arange(1, ranks), 0, slot=0)
    return flat.build()


@declare("one_shot", ALL_REDUCE, servers.ONE_SHOT, shifts=rotations)
def one_shot_all_reduce(ranks: int, nbytes: float, shifts: Shifts | None = None) -> Schedule:
    """Every rank reads all buffers and adds them up."""
    shot = ScheduleBuilder(fold(ranks, shifts), nbytes, scratch=ranks - 1)
    ready = _flags(shot)
    shot.phase("read")
    rank = shot.each()
    for turn in range(1, ranks):
        peer = (rank + turn) % ranks
        after = ready[shot.place(peer), None]
        shot.copy(rank, peer, slot=0, target=ranks - turn, after=after)
    shot.phase("merge")
    turns = np.arange(1, ranks)[:, None]
    shot.reduce(rank, rank, slot=turns, target=0, steps=True)
    return shot.build()


@declare("two_shot", ALL_REDUCE, servers.TWO_SHOT, shifts=rotations)
def two_shot_all_reduce(ranks: int, nbytes: float, shifts: Shifts | None = None) -> Schedule:
    """Every rank reads and adds up its chunk, then reads the others."""
    shot = chunked(ranks, nbytes, shifts)
    ready, rank = _flags(shot), shot.each()
    shot.phase("reduce-scatter")
    added = []
    for turn in range(1, ranks):
        peer = (rank + turn) % ranks
        after = ready[shot.place(peer), None]
        sent = shot.reduce(rank, peer, slot=peer, after=after)
        added.append(sent[shot.place((rank - turn) % ranks)])
    ready = _flags(shot, np.stack(added, axis=1) if added else None)
    shot.phase("all-gather")
    for turn in range(1, ranks):
        peer = (rank + turn) % ranks
        shot.copy(rank, peer, slot=rank, after=ready[shot.place(peer), None])
    return shot.build()


def _flags(shot: ScheduleBuilder, after: Ints | None = None) -> Ints:
    """Every rank sends all others a flag, after some operations of its own. Returns for every rank
    the operation that ends when it has all flags."""
    shot.phase("flags")
    ranks, rank, came = shot.ranks, shot.each(), []
    for turn in range(1, ranks):
        sent = shot.signal(rank, (rank + turn) % ranks, after=() if after is None else after)
        came.append(sent[shot.place((rank - turn) % ranks)])
    return shot.signal(rank, rank, after=np.stack(came, axis=1) if came else ())


@declare("pairwise_sync", ALL_TO_ALL, servers.pairwise_sync, shifts=rotations, by_place=True)
def pairwise_sync_all_to_all(
    ranks: int,
    nbytes: float,
    shifts: Shifts | None = None,
    *,
    window: int = 1,
    per_node: int = 1,
) -> Schedule:
    """Every rank exchanges blocks with one peer after the other. In step k it sends to r+k and
    receives from r-k. A step begins when the rank and its peer have sent and received all of the
    step that is `window` steps before.

    A window of 1 is MPI's blocking sendrecv. Open MPI's linear_sync has a window of several.
    """
    pairs = chunked(ranks, nbytes, shifts, inboxes=True, phase="exchange")
    rank, done = by_place(pairs, per_node), list[Ints]()
    number = np.empty(rank.size, np.int32)
    number[pairs.place(rank)] = np.arange(rank.size).reshape(rank.shape)
    for turn in range(1, ranks):
        peer, origin = (rank + turn) % ranks, (rank - turn) % ranks
        posted = done[turn - 1 - window] if turn > window else np.zeros((rank.size, 0), np.int32)
        after = np.hstack((posted, posted[number[pairs.place(peer)].ravel()]))
        sent = pairs.copy(rank, peer, slot=peer, target=ranks + rank, after=after, steps=1)
        done.append(np.stack((sent, sent[number[pairs.place(origin)].ravel()]), axis=1))
    pairs.phase("unpack")
    origin = (rank - np.arange(1, ranks)[:, None, None]) % ranks
    pairs.copy(rank, rank, slot=ranks + origin, target=origin, steps=2)
    return pairs.build()
