"""Buffers with a chunk of V for each rank, and the parts that options cut chunks into."""

from __future__ import annotations

import numpy as np

from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, SlotMove, fold
from simulator.schedules.whole_numbers import Column
from topologies.errors import InputError


def chunked(
    ranks: int,
    nbytes: float,
    shifts: Shifts | None,
    parts: int = 1,
    *,
    inboxes: bool = False,
    scratch: int = 0,
    phase: str = "transfer",
) -> ScheduleBuilder:
    """A builder for chunks of so many parts; chunk c of rank r is chunk c + k of rank r + k.

    With `inboxes` there is scratch for a chunk of each rank; without, so many slots of `scratch`.
    """
    slots = ranks * parts
    moves = [SlotMove(axis=0, first=0, inner=parts, end=slots)]
    if inboxes:
        moves, scratch = [*moves, SlotMove(axis=0, first=slots, inner=parts, end=2 * slots)], slots
    folded = fold(ranks, shifts, *moves)
    return ScheduleBuilder(folded, nbytes, slots=slots, scratch=scratch, phase=phase)


def parts_of(channels: int, segments: int, ways: int) -> tuple[Column, Column, Column]:
    """The number, the channel and the way round a ring of each part of a chunk, shape (parts, 1).

    Each channel has an equal share, in `segments`. With two ways there are as many channels again,
    whose way is -1.
    """
    if ways > 2:
        raise InputError(f"ways is {ways}: a ring has 1 or 2")
    part = np.arange(channels * segments * ways)[:, None]
    channel = part // segments
    return part, channel, np.where(channel < channels, 1, -1)
