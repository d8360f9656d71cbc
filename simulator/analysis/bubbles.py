"""Idle time of computing ranks, and its cause: seconds, and as columns when each rank was idle."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.analysis.contention import history, queued_media, sections
from simulator.kernels import queues
from simulator.kernels.path import latest
from simulator.kernels.queues import Gaps
from simulator.schedules.schedule import COMPUTE
from simulator.schedules.timeline import Timeline
from topologies.columns import plain_rows, sums
from topologies.jit import kernel
from topologies.topology import Flags, Floats, Ints

CAUSES = ("transfer", "contention", "slower peer", "drain")
TRANSFER, CONTENTION, SLOWER_PEER, DRAIN = range(4)
BUBBLE_CAUSES = (*CAUSES, "fill", "launch")
"""All causes of bubbles. Only a step of a plan has the last two (see
:func:`simulator.parallel.step_measures.step_bubbles`)."""
FILL, LAUNCH = len(CAUSES), len(CAUSES) + 1
ROUNDING = 1e-12
"""A share of the makespan: shorter bubbles are rounding errors."""


def bubbles(timeline: Timeline, lane: int = 0, end: float = np.inf) -> Floats:
    """Attribute each gap of `lane` of every rank to its cause, up to `end` seconds.

    Returns the idle seconds of each rank, shape (ranks, 4), by cause in the order of `CAUSES`:

    - transfer: a message was on the wire, was copied or merged, or waited behind messages of its
      own sender.
    - contention: a message was ready, but its link, port or merging lane served messages of other
      senders.
    - slower peer: another computation was running or about to, of another rank or of another lane.
    - drain: nothing left to compute, to send or to receive.

    A rank that never computes has no bubble: its row is zero.

    From the start of the computation that ends a gap, the walk goes back from predecessor to
    predecessor. It takes the predecessor that finished last, until one was ready when the gap
    began. After a rank's last computation the walk starts at the last operation in which the rank
    takes part, and the drain begins where that ends.

    On the way of a transfer, the queues count before the hops that its last bytes noticed. Under
    fair sharing, and in a collective that is timed as a whole, the part that other ranks cause
    comes first.
    """
    timeline = timeline.causes
    computing, gaps, free = _all_gaps(timeline, lane)
    rows, causes = _by_cause(timeline, gaps, end), len(CAUSES) - 1
    places = gaps.rank[rows.gap] * causes + rows.cause
    by_cause = sums(places, rows.end - rows.start, timeline.schedule.ranks * causes)
    left = np.maximum(min(timeline.makespan, end) - free, 0.0)
    return np.column_stack((by_cause.reshape(-1, causes), np.where(computing, left, 0.0)))


def _all_gaps(timeline: Timeline, lane: int) -> tuple[Flags, Gaps, Floats]:
    """Whether each rank computes on a lane, the gaps of these ranks up to the last operation in
    which each takes part, and when each has nothing left to do."""
    schedule = timeline.schedule
    computing = np.zeros(schedule.ranks, dtype=np.bool_)
    computing[schedule.rank[(schedule.kind == COMPUTE) & (schedule.lane == lane)]] = True
    last = np.where(computing, last_operations(timeline), np.int32(-1))
    main = np.flatnonzero((schedule.kind == COMPUTE) & (schedule.lane == lane))
    main = main[np.argsort(timeline.start[main], kind="stable")].astype(np.int32)
    rank = schedule.rank[main]
    order = np.argsort(rank, kind="stable")
    until, same = timeline.finish[main[order]], rank[order][1:] == rank[order][:-1]
    while (shorter := np.flatnonzero(same & (until[1:] < until[:-1]))).size:
        until[shorter + 1] = until[shorter]
    begin = np.zeros(len(main))
    begin[order] = np.where(np.append(False, same), np.roll(until, 1), 0.0) if len(main) else 0.0
    free = np.zeros(schedule.ranks)
    np.maximum.at(free, rank, timeline.finish[main])
    idle = timeline.ready[main] > begin
    takes_part = np.flatnonzero(last >= 0).astype(np.int32)
    ends = takes_part[timeline.finish[last[takes_part]] > free[takes_part]]
    gaps = Gaps(
        np.concatenate((main[idle], last[ends])),
        np.repeat(np.array([0, 1], dtype=np.int8), [idle.sum(), len(ends)]),
        np.concatenate((rank[idle], ends)),
        np.concatenate((begin[idle], free[ends])),
    )
    free[ends] = timeline.finish[last[ends]]
    return computing, gaps, free


def last_operations(timeline: Timeline) -> Ints:
    """The operation that finishes last of those that each rank runs, sends or receives, shape
    (ranks,)."""
    schedule, order = timeline.schedule, np.argsort(timeline.finish, kind="stable").astype(np.int32)
    last = np.full(schedule.ranks, -1, dtype=np.int32)
    taking_part = np.stack((schedule.rank[order], timeline.routed.peer[order]), axis=1)
    last[taking_part.ravel()] = np.repeat(order, 2)
    return last


class BubbleSpans(NamedTuple):
    """Idle time of a lane of every rank, a row for each stretch with one cause.

    Rows are in the order of rank and time, and no two rows of a rank overlap. A gap between two
    computations has several rows if it has several causes.
    """

    rank: Ints
    """The idle rank."""
    lane: Ints
    """Its idle lane."""
    start: Floats
    """When the stretch begins, in seconds."""
    end: Floats
    """When it ends, in seconds."""
    cause: Ints
    """The cause, a place in `BUBBLE_CAUSES`."""
    awaited: Ints
    """The operation whose finish ends the whole gap; -1 in a drain."""
    operation: Ints
    """What the rank waits for at the end of this stretch: a transfer on its way or in a queue, a
    collective that is timed as a whole, or a computation; -1 in a drain."""
    medium: Ints
    """The medium for which `operation` queues, a place in the `medium_names` of the topology; -1 if
    the cause is no contention, if `operation` queues for the merging of its receiver, or if it is a
    collective that is timed as a whole."""

    def take(self, chosen: npt.NDArray[Any]) -> BubbleSpans:
        """Some of the rows."""
        return BubbleSpans._make(column[chosen] for column in self)

    @classmethod
    def joined(cls, *parts: BubbleSpans) -> BubbleSpans:
        """All rows, by rank and time."""
        rows = cls._make(np.concatenate(column) for column in zip(*parts, strict=True))
        return rows.take(np.lexsort((rows.start, rows.rank)))


def bubble_spans(timeline: Timeline, lane: int = 0, end: float = np.inf) -> BubbleSpans:
    """When a lane of every rank was idle, and why, up to `end` seconds.

    For each rank and cause, the rows add up to what :func:`bubbles` says, but for rounding. A rank
    that never computes on the lane has no rows. Under fair sharing nothing queues, and `medium` is
    that medium of a route which carries most.

    >>> import numpy as np
    >>> from simulator.engines import simulate
    >>> from simulator.schedules.schedule_builder import ScheduleBuilder
    >>> from topologies.shapes import star
    >>> both = ScheduleBuilder(2, 1.0)
    >>> _ = both.compute([0, 1], np.array([1.0, 3.0]), writes=0)
    >>> _ = both.copy(1, 0, slot=0)
    >>> _ = both.compute(0, 1.0, reads=0)
    >>> spans = bubble_spans(simulate(both.build(), star(2, bandwidth=1.0)))
    >>> [BUBBLE_CAUSES[cause] for cause in spans.cause]
    ['slower peer', 'transfer', 'transfer', 'drain']
    >>> spans.rank.tolist(), spans.start.tolist(), spans.end.tolist()
    ([0, 0, 1, 1], [1.0, 3.0, 3.0, 4.0], [3.0, 4.0, 4.0, 5.0])
    """
    timeline = timeline.causes
    computing, gaps, free = _all_gaps(timeline, lane)
    rows = _by_cause(timeline, gaps, end)
    stretches = BubbleSpans(
        rank=gaps.rank[rows.gap],
        lane=np.full_like(rows.gap, lane),
        start=rows.start,
        end=rows.end,
        cause=rows.cause,
        awaited=_awaited(timeline, gaps)[rows.gap],
        operation=rows.operation,
        medium=_media(timeline, rows),
    )
    drains = _drains(computing, free, min(timeline.makespan, end), lane)
    spans = BubbleSpans.joined(_merged(stretches, rows.gap), drains)
    return spans.take(spans.end - spans.start > ROUNDING * timeline.makespan)


class _Rows(NamedTuple):
    gap: Ints
    operation: Ints
    node: Ints
    """The node that waits in a queue, or -1."""
    cause: Ints
    start: Floats
    end: Floats

    def take(self, chosen: npt.NDArray[Any]) -> _Rows:
        return _Rows._make(column[chosen] for column in self)


def _by_cause(timeline: Timeline, gaps: queues.Gaps, end: float) -> _Rows:
    """The parts of gaps by gap and time. A queue is cut where the sender in front changes:
    contention if it is another one."""
    parts = kernel(queues.idle, len(timeline.schedule))(history(timeline), gaps, float(end))
    rows = _Rows(*np.ascontiguousarray(parts.places.T), *np.ascontiguousarray(parts.times.T))
    queued = rows.cause == queues.QUEUES
    waits, rows = rows.take(queued), rows.take(~queued)
    cut = sections(timeline, waits.node, waits.start, waits.end)
    cause = np.where(cut.others, CONTENTION, TRANSFER).astype(np.int32)
    waits = waits.take(cut.row)._replace(cause=cause, start=cut.start, end=cut.end)
    rows = rows._replace(node=np.full_like(rows.node, -1))
    if len(timeline.calls):
        rows, waits = _of_calls(rows, timeline.calls[rows.operation])
    columns: Iterable[tuple[Any, Any]] = zip(rows, waits, strict=True)
    rows = _Rows._make(np.concatenate(pair) for pair in columns)
    return rows.take(np.lexsort((rows.start, rows.gap)))


def _of_calls(rows: _Rows, behind: Floats) -> tuple[_Rows, _Rows]:
    """Rows, and those of contention, where operations stand for collectives: what these wait
    `behind` others, as a share of their time, comes first."""
    rows.cause[behind >= 0] = TRANSFER
    middle = rows.start + (rows.end - rows.start) * np.maximum(behind, 0.0)
    others = rows._replace(cause=np.full_like(rows.cause, CONTENTION), end=middle)
    return rows._replace(start=middle), others.take(middle > rows.start)


def _media(timeline: Timeline, rows: _Rows) -> Ints:
    """Where there is contention, the medium for which a node queues; of a flow, the busiest."""
    medium, lost = np.full_like(rows.node, -1), rows.cause == CONTENTION
    queued = lost & (rows.node >= 0)
    flows = lost & ~queued & (timeline.sharing == "fair")
    medium[queued] = queued_media(timeline, rows.node[queued])
    medium[flows] = _busiest(timeline, rows.operation[flows])
    return medium


def _busiest(timeline: Timeline, operation: Ints) -> Ints:
    """The medium of the route of each transfer that carries most of what it could."""
    if not len(operation):
        return operation
    uses, carried = timeline.occupancy, timeline.utilisation()
    order = np.lexsort((carried[uses.medium], uses.operation))
    last = np.searchsorted(uses.operation[order], operation, side="right") - 1
    return uses.medium[order][last]


def _awaited(timeline: Timeline, gaps: queues.Gaps) -> Ints:
    """The operation whose finish ends each gap."""
    predecessors, nodes = timeline.routed.work.predecessors, timeline.routed.node_indptr
    return np.array(
        [
            operation if itself else latest(predecessors, timeline.finish, nodes, operation)
            for operation, itself in plain_rows(gaps.operation, gaps.itself)
        ],
        dtype=np.int32,
    )


def _merged(spans: BubbleSpans, gap: Ints) -> BubbleSpans:
    """Neighbours of one gap, cause and medium as one row."""
    same = np.ones(max(len(gap) - 1, 0), dtype=np.bool_)
    for column in (gap, spans.cause, spans.medium):
        same &= column[1:] == column[:-1]
    first = np.flatnonzero(np.append(True, ~same)[: len(gap)])
    last = np.append(first[1:], len(gap))[: len(first)] - 1
    return spans.take(last)._replace(start=spans.start[first])


def _drains(computing: Flags, free: Floats, end: float, lane: int) -> BubbleSpans:
    """What is left from when each rank is `free` to the `end`."""
    rank = np.flatnonzero(computing & (free < end)).astype(np.int32)
    none = np.full_like(rank, -1)
    return BubbleSpans(
        rank,
        np.full_like(rank, lane),
        free[rank],
        np.full(len(rank), end),
        np.full_like(rank, DRAIN),
        none,
        none,
        none,
    )
