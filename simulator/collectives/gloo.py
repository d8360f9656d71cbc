"""Gloo's operations: rings of segments, and messages straight to their rank.

After allreduce.cc, reduce.cc, allgather.cc, broadcast.cc, scatter.cc, gather.cc and alltoall.cc of
gloo, and its transport/tcp/pair.cc. Data leave when the receiver has signalled that it is ready.
The root is rank 0. Gloo has no reduce-scatter: PyTorch's ProcessGroupGloo runs an all-reduce and
copies each rank's chunk out of it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simulator.collectives.collective import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    GATHER,
    REDUCE,
    SCATTER,
    SEND_RECV,
    declare,
)
from simulator.collectives.layouts import chunked
from simulator.collectives.scatter_gather import linear_gather, linear_scatter
from simulator.cost_models import gloo_formulas, log2_ceil
from simulator.schedules.rendezvous import rendezvous
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, fold, rotations
from topologies.topology import Ints


def segments(ranks: int, nbytes: float) -> int:
    """Segments of a chunk that gloo cuts V = `nbytes` into: at least two, of at most 1 MiB.

    >>> segments(4, 2.0**20), segments(4, 2.0**24)
    (2, 4)
    """
    return max(2, -int(-nbytes // (ranks * 2.0**20)))


@declare(
    "gloo_ring",
    ALL_REDUCE,
    gloo_formulas.GLOO_RING,
    shifts=rotations,
    operations=lambda ranks: 8.0 * ranks * (ranks - 1),
)
def gloo_ring_all_reduce(
    ranks: int, nbytes: float, shifts: Shifts | None = None, segments: int = 2
) -> Schedule:
    """Gloo: a ring of segments, each sent when its receiver is ready. It is a reduce-scatter, then
    an all-gather, from rank r to r - 1, of `segments` segments a chunk.

    - A rank handles its segments in order, and has two inboxes. So it posts receive and send of
      segment k when those of segment k - 2 are done.
    - Before the first segment of the all-gather it waits for the whole reduce-scatter.
    - Posting a receive sends a ready signal. Data leave when that has arrived and the send is
      posted.

    >>> gloo_ring_all_reduce(4, 4096.0).volume
    24576.0
    """
    ring = chunked(ranks, nbytes, shifts, segments, phase="reduce-scatter")
    reduced = _pass(ring, ring.reduce, -1, segments, first=1)
    ring.phase("all-gather")
    _pass(ring, ring.copy, -1, segments, first=0, before=reduced)
    return ring.build()


@declare("gloo_reduce", REDUCE, gloo_formulas.GLOO_REDUCE)
def gloo_ring_reduce(ranks: int, nbytes: float, segments: int = 2) -> Schedule:
    """Gloo: a reduce-scatter round a ring, then every chunk goes to rank 0.

    If a chunk has more than two segments, gloo sends all but the last two to a further rank,
    which does not need them. The reason is that its last loop assumes two segments a chunk.
    """
    ring = chunked(ranks, nbytes, None, segments, phase="reduce-scatter")
    reduced = _pass(ring, ring.reduce, -1, segments, first=1, further=segments - 2)
    ring.phase("gather")
    senders = np.arange(1, ranks)
    ready = ring.signal(
        0, senders, after=[sent[rank] for sent in reduced for rank in (0, 1 % ranks)]
    )
    ring.copy(senders, 0, slot=senders * segments, count=segments, after=ready[:, None])
    return ring.build()


@declare("gloo_all_gather", ALL_GATHER, gloo_formulas.GLOO_ALL_GATHER, shifts=rotations)
def gloo_ring_all_gather(ranks: int, nbytes: float, shifts: Shifts | None = None) -> Schedule:
    """Gloo: a ring of half chunks, two in flight."""
    ring = chunked(ranks, nbytes, shifts, 2, phase="reduce-scatter")
    ring.phase("all-gather")
    _pass(ring, ring.copy, 1, 2, first=0)
    return ring.build()


@declare("gloo_broadcast", BROADCAST, gloo_formulas.GLOO_BROADCAST)
def gloo_broadcast(ranks: int, nbytes: float) -> Schedule:
    """Gloo: a binomial tree that sends to all children at once. In round i rank r < 2^i sends to r
    + 2^i."""
    tree = ScheduleBuilder(ranks, nbytes, phase="broadcast")
    for level in range(log2_ceil(ranks)):
        child = np.arange(1 << level, min(2 << level, ranks))
        tree.copy(child - (1 << level), child, slot=0)
    return rendezvous(tree.build())


@declare("gloo_scatter", SCATTER, gloo_formulas.GLOO_SCATTER)
def gloo_scatter(ranks: int, nbytes: float) -> Schedule:
    """Gloo: rank 0 sends every rank its chunk."""
    return rendezvous(linear_scatter(ranks, nbytes))


@declare("gloo_gather", GATHER, gloo_formulas.GLOO_GATHER)
def gloo_gather(ranks: int, nbytes: float) -> Schedule:
    """Gloo: every rank sends its chunk to rank 0."""
    return rendezvous(linear_gather(ranks, nbytes))


@declare("gloo_all_to_all", ALL_TO_ALL, gloo_formulas.GLOO_ALL_TO_ALL, shifts=rotations)
def gloo_all_to_all(ranks: int, nbytes: float, shifts: Shifts | None = None) -> Schedule:
    """Gloo: every rank sends every other rank its block."""
    pairs = chunked(ranks, nbytes, shifts, inboxes=True, phase="exchange")
    rank, turn = pairs.each(), np.arange(1, ranks)[:, None]
    peer, origin = (rank + turn) % ranks, (rank - turn) % ranks
    ready = np.array([pairs.signal(rank, sender) for sender in origin]).reshape(origin.shape)
    after = np.take_along_axis(ready, pairs.place(peer), axis=1)
    pairs.copy(rank, peer, slot=peer, target=ranks + rank, after=after.reshape(-1, 1), steps=1)
    pairs.phase("unpack")
    pairs.copy(rank, rank, slot=ranks + origin, target=origin, steps=1)
    return pairs.build()


@declare("gloo_send_recv", SEND_RECV, gloo_formulas.GLOO_SEND_RECV, shifts=rotations)
def gloo_send_recv(ranks: int, nbytes: float, shifts: Shifts | None = None) -> Schedule:
    """Gloo: every rank sends to the next rank."""
    pairs = ScheduleBuilder(fold(ranks, shifts), nbytes, scratch=1, phase="send")
    rank = pairs.each()
    peer = (rank + 1) % ranks
    ready = pairs.signal(rank, (rank - 1) % ranks)
    pairs.copy(rank, peer, slot=0, target=1, after=ready[pairs.place(peer), None])
    pairs.phase("unpack")
    pairs.copy(rank, rank, slot=1, target=0)
    return pairs.build()


def _pass(
    ring: ScheduleBuilder,
    move: Callable[..., Ints],
    step: int,
    segments: int,
    *,
    first: int,
    further: int = 0,
    before: list[Ints] | None = None,
) -> list[Ints]:
    """Rank r passes chunk r + `first` to rank r + `step`, segment by segment, and then what it has
    received.

    It ends when it has passed on all chunks but one, and `further` segments. Returns the last two
    transfers of every rank, shape (ranks,) each. The first transfers wait for those in `before`.
    """
    rank = ring.each()
    behind, ahead = (rank + step) % ring.ranks, (rank - step) % ring.ranks
    place_behind, place_ahead = ring.place(behind), ring.place(ahead)
    done = before or []
    for segment in range((ring.ranks - 1) * segments + further):
        waits = done[-2:-1] if segment > 1 else before or []
        posted = np.array([column for sent in waits for column in (sent[place_ahead], sent)]).T
        ready = ring.signal(rank, ahead, after=posted)
        after = (
            np.column_stack((ready[place_behind], posted)) if waits else ready[place_behind, None]
        )
        chunk = (rank + first - step * (segment // segments)) % ring.ranks
        done = [*done, move(rank, behind, slot=chunk * segments + segment % segments, after=after)][
            -2:
        ]
    return done
