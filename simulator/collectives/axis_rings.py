"""Reduce-scatters and all-gathers round the rings along each axis of a box of ranks."""

from collections.abc import Callable, Sequence

import numpy as np

from simulator.schedules.folded_routes import NotSymmetric
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, SlotMove, fold
from topologies.topology import Ints, Numbers


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
