"""Which shifts of ranks a schedule may be folded by on a machine, and whether the shifts that an
algorithm of a user declares take its schedule to itself.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import NamedTuple

import numpy as np

from simulator.collectives.collective import Algorithm, Fitted
from simulator.collectives.layouts import ranks_of_a_node
from simulator.schedules.folded_routes import NotSymmetric
from simulator.schedules.routed import Routed, check_few, route
from simulator.schedules.schedule import COMPUTE, Schedule
from simulator.schedules.shifts import Shifts
from topologies.columns import distinct, entries, owners, spread
from topologies.errors import InputError
from topologies.topology import Longs, Numbers, Topology

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
    owner = owners(written.indptr).astype(np.int64)
    expected = distinct(owner * len(folded) + partner[written.indices])
    owner, entry = entries(folded.indptr, partner)
    by_shifts = distinct(owner * len(folded) + folded.indices[entry])
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


class Representatives(NamedTuple):
    """What an algorithm does on a machine, of as few ranks as stand for all."""

    fitted: Fitted
    routed: Routed


def fold(
    algorithm: Algorithm,
    topology: Topology,
    ranks: int,
    worth_trying: Callable[[Shifts], bool] = lambda shifts: True,
    *,
    merges: bool = False,
    fair: bool = False,
    compared: int = COMPARED,
) -> Representatives | None:
    """The schedule of `algorithm` for V = 1 byte on a machine, written for as few ranks as stand
    exactly for all; None if there are none among the shifts that are `worth_trying`. With `merges`
    they still do if reductions take time, with `fair` they do under fair sharing.

    Raises InputError if the shifts of an algorithm of a user do not take its schedule to itself.
    Up to so many operations are `compared`.

    >>> from simulator.collectives import find
    >>> from topologies.shapes import star
    >>> routed = fold(find("ring"), star(1024, bandwidth=1e9), 1024).routed
    >>> len(routed.schedule), routed.schedule.members
    (2046, 1024)
    """
    if not algorithm.defined(ranks):
        return None
    on, first = algorithm.shifts_on, None
    group = algorithm.shifts(ranks) if on is None else on(topology, ranks)
    known: dict[Shifts, bool] = {}
    for shifts in filter(worth_trying, candidates(group, ranks_of_a_node(topology, ranks))):
        if first is not None and not _may_suit(shifts, first, topology, known):
            continue
        try:
            fitted = algorithm.on(topology, ranks, 1.0, shifts)
            first = first or fitted.schedule
            routed = route(fitted.schedule, fitted.topology, merges=merges, fair=fair)
        except NotSymmetric:
            continue
        if algorithm.origin:
            check_shifts(algorithm, topology, fitted.schedule, compared)
        return Representatives(fitted, routed)
    return None


def _may_suit(
    shifts: Shifts, written: Schedule, topology: Topology, known: dict[Shifts, bool]
) -> bool:
    """Whether some routes of a schedule, written for a larger group of shifts, allow these, by the
    shifts along each axis. Most groups that do not suit a machine are so refused before a schedule
    is written for them."""
    for part in shifts.along_each_axis:
        if part not in known:
            try:
                check_few(written, topology, part)
                known[part] = True
            except NotSymmetric:
                known[part] = False
        if not known[part]:
            return False
    return True


def candidates(all_shifts: Shifts | None, node: int) -> list[Shifts]:
    """Groups of shifts, the largest first: all, then those by whole nodes, then by several of them;
    with the shifts within a node, and without."""
    if all_shifts is None:
        return []
    blocks = [1, *(block * node for block in _divisors(all_shifts.ranks // node))]
    strides = [_strides(all_shifts, block) for block in blocks]
    axes = zip(all_shifts.shape, all_shifts.steps, strict=True)
    in_node = np.array([extent * step <= node for extent, step in axes])
    strides += [
        tuple(np.where(in_node, all_shifts.strides, stride).tolist())
        for stride in strides
        if stride
    ]
    groups = [Shifts(all_shifts.shape, stride) for stride in dict.fromkeys(strides) if stride]
    chosen = [group for group in groups if group.order > 1]
    # Groups of shifts that are tried at most.
    return sorted(chosen, key=lambda group: -group.order)[:24]


def _divisors(number: int) -> list[int]:
    small = [k for k in range(1, isqrt(number) + 1) if number % k == 0]
    return sorted({*small, *(number // k for k in small)})


def _strides(shifts: Shifts, block: int) -> tuple[int, ...]:
    """The least strides by which blocks of ranks stay whole; none if an axis cuts them."""
    strides = []
    for extent, least, step in zip(shifts.shape, shifts.strides, shifts.steps, strict=True):
        stride = max(least, block // step)
        if stride < extent and (stride * step % block or extent % stride or stride % least):
            return ()
        strides.append(min(stride, extent))
    return tuple(strides)
