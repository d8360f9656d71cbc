"""Whether the shifts that an algorithm of a user declares take its schedule to itself."""

from __future__ import annotations

import numpy as np

from simulator.collectives.collective import Algorithm
from simulator.schedules.schedule import COMPUTE, Schedule
from simulator.schedules.shifts import Longs, Numbers, Shifts, spread
from topologies.columns import distinct
from topologies.errors import InputError
from topologies.topology import Topology

COMPARED = 2**19
"""Operations that are compared: of a schedule of more, the first ranks are compared."""
COLUMNS = ("rank", "peer", "source", "target", "lane", "kind", "reduces", "nbytes", "seconds")


def check_shifts(algorithm: Algorithm, topology: Topology, folded: Schedule, room: int) -> None:
    """Compare what the ranks of a folded schedule stand for with the schedule of all ranks, or of
    the first ranks as far as they have no more than `room` operations.

    Raises InputError with the first operation that differs.

    >>> from simulator.collectives import find
    >>> from simulator.schedules.shifts import rotations
    >>> from topologies.shapes import star
    >>> ring = find("ring")
    >>> check_shifts(ring, star(8, bandwidth=1.0), ring.schedule(8, 1.0, rotations(8)), 1000)
    """
    assert folded.fold is not None
    written = algorithm.on(topology, folded.workers, 1.0, _fewer(folded, room)).schedule
    where = f"{algorithm.origin}: {algorithm.name} has wrong shifts on {folded.workers} ranks"
    elements = folded.fold.shifts.elements
    if written.fold is not None:
        elements = elements[written.fold.shifts.element(elements) == 0]
    (right, operation), (declared, standing) = _rows(written, elements[:1]), _rows(folded, elements)
    if len(operation) != len(standing):
        raise InputError(
            f"{where}: by them {len(standing)} slots are sent, without them {len(operation)}"
        )
    pairs = zip(right, declared, strict=True)
    wrong = np.flatnonzero(~np.all([np.isclose(*pair, 1e-9, 0.0) for pair in pairs], axis=0))
    if len(wrong):
        words, by_shifts = (_words([each[wrong[0]] for each in rows]) for rows in (right, declared))
        raise InputError(f"{where}: by them {by_shifts}, without them {words}")
    partner = np.zeros(len(written), dtype=np.int64)
    partner[operation] = standing
    wait = _unlike_waits(written, folded, partner)
    if wait >= 0:
        ends = f"rank {written.rank[wait]} to rank {written.peer[wait]}"
        raise InputError(f"{where}: by them the operation of {ends} waits for other operations")


def _fewer(folded: Schedule, room: int) -> Shifts | None:
    """So few shifts of a schedule that as many ranks are written as have `room`; None for none."""
    assert folded.fold is not None
    shifts, times, strides = folded.fold.shifts, room // max(1, len(folded)), []
    if shifts.order <= times:
        return None
    for extent, least in zip(shifts.shape, shifts.strides, strict=True):
        several = range(least, min(extent, least * max(1, times)) + 1, least)
        strides.append(max(stride for stride in several if extent % stride == 0))
        times //= strides[-1] // least
    return Shifts(shifts.shape, tuple(strides))


def _rows(schedule: Schedule, elements: Longs) -> tuple[list[Numbers], Longs]:
    """Columns of what operations, and those to which shifts take them, do with each slot: rank by
    rank, in their order; and the operation of each row."""
    operation, offset = spread(np.maximum(schedule.count, 1))
    columns = [getattr(schedule, name)[operation] for name in COLUMNS]
    columns[2:4] = [np.where(slot < 0, slot, slot + offset) for slot in columns[2:4]]
    if schedule.fold is not None:
        shifts, by, moves = schedule.fold.shifts, elements[:, None], schedule.fold.moves
        columns[:2] = [shifts.shifted(end, by) for end in columns[:2]]
        columns[2:4] = [shifts.slots_shifted(slot, by, moves) for slot in columns[2:4]]
        columns[4] = schedule.fold.channel(columns[4], by)
    shape = np.broadcast_shapes(*map(np.shape, columns))
    *columns, operation = (np.broadcast_to(each, shape).ravel() for each in (*columns, operation))
    rank, source = columns[0].astype(np.int64), columns[2]
    order = np.argsort((rank * len(schedule) + operation) * (schedule.slots + 1) + source + 1)
    return [column[order] for column in columns], operation[order]


def _unlike_waits(written: Schedule, folded: Schedule, partner: Longs) -> int:
    """The first operation that waits for others than its partner does, or -1."""
    owner, _ = spread(np.diff(written.indptr))
    expected = distinct(owner * len(folded) + partner[written.indices])
    owner, offset = spread(np.diff(folded.indptr)[partner])
    awaited = folded.indices[folded.indptr[partner[owner]] + offset]
    by_shifts = distinct(owner * len(folded) + awaited)
    unlike = np.setxor1d(expected, by_shifts, assume_unique=True)
    return int(unlike[0]) // len(folded) if len(unlike) else -1


def _words(row: list[float]) -> str:
    """What an operation does with a slot, by `COLUMNS`."""
    rank, peer, source, target, channel, kind, reduces, nbytes, seconds = row
    if kind == COMPUTE:
        return f"rank {rank} computes for {seconds:g} s on lane {channel}"
    verb = "adds" if reduces else "copies"
    ends = f"its slot {source} to slot {target} of rank {peer}"
    return f"rank {rank} {verb} {ends} on channel {channel}, {nbytes:g} of V"
