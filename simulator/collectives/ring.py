"""Ring: p - 1 steps in which every rank sends one chunk to the next rank; and rings along the axes
of a box of ranks."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from simulator.collectives.collective import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, declare
from simulator.collectives.layouts import chunked, parts_of
from simulator.cost_models import neighbors
from simulator.schedules.folded_routes import NotSymmetric
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, SlotMove, fold, rotations
from topologies.topology import Ints, Numbers


@declare(
    "ring",
    ALL_REDUCE,
    neighbors.ring_all_reduce,
    shifts=rotations,
    operations=lambda ranks: 2.0 * ranks * (ranks - 1),
)
def ring(
    ranks: int,
    nbytes: float,
    shifts: Shifts | None = None,
    *,
    scatters: bool = True,
    gathers: bool = True,
    channels: int = 1,
    segments: int = 1,
    ways: int = 1,
) -> Schedule:
    """Reduce-scatter, then all-gather, round a ring.

    A ring that `scatters` takes every chunk once round to its owner, and every rank adds its data.
    A ring that `gathers` takes every chunk once round from its owner. Each part of a chunk goes its
    way, and a rank passes it on as soon as it has it (:func:`parts_of` cuts the parts).

    >>> ring(4, 4096.0, gathers=False).sent().tolist()
    [3072.0, 3072.0, 3072.0, 3072.0]
    """
    part, channel, way = parts_of(channels, segments, ways)
    builder = chunked(ranks, nbytes, shifts, len(part))
    rank, step = builder.each(), np.arange(ranks - 1)[:, None, None]
    peer = (rank + way) % ranks
    if scatters:
        builder.phase("reduce-scatter")
        chunk = (rank - way * (step + 1)) % ranks
        builder.reduce(rank, peer, slot=chunk * len(part) + part, channel=channel, steps=2)
    if gathers:
        builder.phase("all-gather")
        chunk = (rank - way * step) % ranks
        builder.copy(rank, peer, slot=chunk * len(part) + part, channel=channel, steps=2)
    return builder.build()


ring_all_reduce = ring
ring_reduce_scatter = declare(
    "ring_reduce_scatter",
    REDUCE_SCATTER,
    neighbors.ring_reduce_scatter,
    "Each chunk goes round a ring and grows at every rank",
    shifts=rotations,
    operations=lambda ranks: ranks * (ranks - 1.0),
)(partial(ring, gathers=False))
ring_all_gather = declare(
    "ring_all_gather",
    ALL_GATHER,
    neighbors.ring_all_gather,
    "Each chunk goes round a ring",
    shifts=rotations,
    operations=lambda ranks: ranks * (ranks - 1.0),
)(partial(ring, scatters=False))


def along_axes(
    box: Numbers,
    nbytes: float,
    shifts: Shifts | None,
    scatters: Sequence[str],
    gathers: Sequence[str],
    *,
    orders: int = 1,
    ways: int = 1,
) -> Schedule:
    """Reduce-scatters round the rings along one axis of a box of ranks after the other, the last
    axis first, and all-gathers backwards. `scatters` and `gathers` name the phases, one for each
    axis, or are empty for none.

    V has `orders` x `ways` parts. Part k has its axes in the k-th order, and is sent round the
    other way behind them.
    """
    dims, ranks = box.shape, box.size
    in_order = (box.ravel() == np.arange(ranks)).all()
    if shifts is not None and (shifts.shape != dims or not in_order):
        raise NotSymmetric("ranks are shifted along other axes")
    size, moves = np.array(dims), list[SlotMove]()
    parts: list[tuple[list[int], list[int], int]] = []
    for part in range(orders * ways):
        axes = np.roll(np.arange(len(dims))[::-1], -(part % orders)).tolist()
        # Chunks below each place on an axis: those of a rank's place are neighbours.
        counts = (ranks // np.cumprod(size[axes])).tolist()
        parts.append((axes, counts, 1 if part < orders else -1))
        first, end = part * ranks, (part + 1) * ranks
        moves += [SlotMove(axis, first, counts[turn], end) for turn, axis in enumerate(axes)]
    builder = ScheduleBuilder(fold(ranks, shifts, *moves), nbytes, slots=ranks * len(parts))
    rank = builder.each()
    place = np.unravel_index(rank if in_order else np.argsort(box, axis=None)[rank], dims)

    def once_round(send: Callable[..., Ints], turn: int, ahead: int) -> None:
        """Every part goes once round all rings along the axis of its turn."""
        for number, (axes, counts, way) in enumerate(parts):
            axis, count = axes[turn], counts[turn]
            step = np.arange(dims[axis] - 1)[:, None]
            kept = sum(place[a] * c for a, c in zip(axes[:turn], counts, strict=False))
            chunk = (place[axis] - way * (step + ahead)) % dims[axis]
            after = (place[axis] + way) % dims[axis]
            peer = box[*place[:axis], after, *place[axis + 1 :]]
            slot = number * ranks + kept + chunk * count
            send(rank, peer, slot=slot, count=count, steps=True)

    for turn, phase in enumerate(scatters):
        builder.phase(phase)
        once_round(builder.reduce, turn, 1)
    for turn, phase in reversed([*enumerate(gathers)]):
        builder.phase(phase)
        once_round(builder.copy, turn, 0)
    return builder.build()
