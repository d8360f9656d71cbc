"""How long transfers wait on their links, which part of that other ranks cause, and when they wait
for which link."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from simulator.kernels import path
from simulator.kernels.records import History
from simulator.schedules.timeline import Occupancy, Timeline
from topologies.columns import distinct_rows, sums
from topologies.topology import Flags, Floats, Ints, Longs, Numbers

ROUNDING = 1e-9
"""Shares of the bytes on a link below this are rounding."""
SHORTEST_WAIT = 1e-12
"""A share of the makespan: shorter waits are rounding errors."""


def waited(timeline: Timeline) -> tuple[Floats, Floats]:
    """Seconds that each transfer waits on the links of its route, and the part behind other ranks,
    shape (operations,) each.

    Under fair sharing a wait is the time that the transfer takes longer than without others.
    """
    operations = len(timeline.schedule)
    if timeline.sharing == "fair":
        longer = timeline.sent - timeline.start - _alone(timeline)
        every = np.where(longer > ROUNDING * timeline.makespan, longer, 0.0)
        return every, every * contended_share(timeline)
    operation, _, node = timeline.hops
    arrived, start = arrivals(timeline), timeline.node_start[node]
    behind = np.zeros(len(node))
    for layer in _layers(timeline, node, arrived, start):
        behind[layer.row] += np.where(layer.others, layer.end - layer.start, 0.0)
    return sums(operation, start - arrived, operations), sums(operation, behind, operations)


def arrivals(timeline: Timeline) -> Floats:
    """When each hop of :attr:`simulator.schedules.timeline.Timeline.hops` could begin: the bytes
    are there, but the link may serve others."""
    operation, link, node = timeline.hops
    before = timeline.node_start[node - 1] + timeline.routed.topology.latency[np.roll(link, 1)]
    if timeline.store_and_forward:
        before += np.roll(_held(timeline), 1)
    first = node == timeline.routed.node_indptr[operation]
    return np.where(first, timeline.ready[operation], before)


def _held(timeline: Timeline) -> Floats:
    """How long each hop holds the medium that it holds longest."""
    count = np.diff(timeline.routed.topology.link_indptr)[timeline.hops[1]]
    return np.asarray(
        np.maximum.reduceat(timeline.occupancy.seconds, np.cumsum(count) - count), dtype=np.float64
    )


def _alone(timeline: Timeline) -> Floats:
    """How long each flow takes without others: its bytes through its slowest medium."""
    occupancy, longest = timeline.occupancy, np.zeros(len(timeline.schedule))
    bandwidth = timeline.routed.topology.medium_bandwidth[occupancy.medium]
    np.maximum.at(longest, occupancy.operation, _bytes_of_itself(timeline) / bandwidth)
    return longest


def _bytes_of_itself(timeline: Timeline) -> Floats:
    """The bytes of the transfer of each row of `occupancy` over the medium of the row, as often as
    it crosses that. In a folded schedule, a medium has another sender for each of its orbit."""
    occupancy = timeline.occupancy
    sender = timeline.routed.sender[occupancy.node]
    number = distinct_rows(sender, occupancy.medium, occupancy.operation)[1]
    return np.asarray(occupancy.nbytes * np.bincount(number)[number], dtype=np.float64)


def history(timeline: Timeline) -> History:
    """The columns of a run for kernels."""
    fair, share = timeline.sharing == "fair", contended_share(timeline)
    work, sender = timeline.routed.work, timeline.routed.sender
    return History(work, timeline.times, sender, share, fair, timeline.store_and_forward)


def contended_share(timeline: Timeline) -> Floats:
    """The share of other ranks in the bytes that share the media of each transfer, shape
    (operations,).

    This is for fair sharing. The share is 0 where nothing shares the media. The column is empty
    under fifo, where queues know their occupants. Every flow counts with its mean rate.
    """
    if timeline.sharing != "fair":
        return np.zeros(0)
    occupancy, operations = timeline.occupancy, len(timeline.schedule)
    sender, medium = timeline.routed.sender[occupancy.node], occupancy.medium.astype(np.int64)
    alone, by_all = _bytes_of_itself(timeline), _bytes_meanwhile(occupancy, medium)
    by_sender = _bytes_meanwhile(occupancy, medium * timeline.schedule.ranks + sender)
    same_rank, other_ranks = (
        np.bincount(
            occupancy.operation, np.where(nbytes > ROUNDING * by_all, nbytes, 0.0), operations
        )
        for nbytes in (by_sender - alone, by_all - by_sender)
    )
    return np.asarray(
        np.divide(
            other_ranks,
            same_rank + other_ranks,
            out=np.zeros(operations),
            where=same_rank + other_ranks > 0,
        )
    )


def _bytes_meanwhile(occupancy: Occupancy, group: Numbers) -> Floats:
    """The bytes that a group carries while a row of `occupancy` lasts, for each row.

    The group of a row is in `group`; it carries the bytes of all its rows.
    """
    total, rate = np.zeros(len(group)), mean_rate(occupancy)
    order = np.argsort(group, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(order) else ():
        start, end = occupancy.start[rows], occupancy.start[rows] + occupancy.seconds[rows]
        time, change = np.concatenate((start, end)), np.concatenate((rate[rows], -rate[rows]))
        by_time = np.argsort(time, kind="stable")
        time, slope = time[by_time], np.cumsum(change[by_time])
        carried = np.concatenate(([0.0], np.cumsum(slope[:-1] * np.diff(time))))
        total[rows] = np.interp(end, time, carried) - np.interp(start, time, carried)
    return total


def mean_rate(occupancy: Occupancy) -> Floats:
    """Mean bytes per second of each row; 0 for messages that take no time."""
    return np.divide(
        occupancy.nbytes,
        occupancy.seconds,
        out=np.zeros(len(occupancy.nbytes)),
        where=occupancy.seconds > 0,
    )


class QueueSpans(NamedTuple):
    """Waits of transfers on their way, a row for each hop that waits behind other ranks."""

    operation: Ints
    """The transfer."""
    medium: Ints
    """The medium for which it waits, a place in the `medium_names` of the topology."""
    start: Floats
    """Since when it waits behind other ranks, in seconds."""
    end: Floats
    """Until when, in seconds."""


class Sections(NamedTuple):
    """Waits of nodes, cut where the message in front changes."""

    row: Longs
    """The place of the node among those asked for."""
    start: Floats
    end: Floats
    others: Flags
    """Whether the message in front is of another sender."""


def queue_spans(timeline: Timeline) -> QueueSpans:
    """The waits of all transfers for links that serve messages of other ranks.

    What a transfer waits behind messages of its own sender does not count. Under fair sharing
    nothing queues, and there are no rows.
    """
    operation, _, node = timeline.hops
    since, until = arrivals(timeline), timeline.node_start[node]
    waits = (until - since > SHORTEST_WAIT * timeline.makespan) & (timeline.node_cause[node] >= 0)
    operation, node, since, until = operation[waits], node[waits], since[waits], until[waits]
    parts = sections(timeline, node.astype(np.int32), since, until)
    begin, end = np.full(len(node), np.inf), np.zeros(len(node))
    np.minimum.at(begin, parts.row[parts.others], parts.start[parts.others])
    np.maximum.at(end, parts.row[parts.others], parts.end[parts.others])
    kept = end - begin > SHORTEST_WAIT * timeline.makespan
    medium = queued_media(timeline, node[kept].astype(np.int32))
    return QueueSpans(operation[kept], medium, begin[kept], end[kept])


def sections(timeline: Timeline, node: Numbers, since: Floats, until: Floats) -> Sections:
    """The waits of nodes from `since` to `until`, by the messages in front."""
    parts = list(_layers(timeline, node, since, until))
    columns = zip(*parts, strict=True) if parts else ((np.zeros(0, int),),) * 4
    return Sections._make(np.concatenate(column) for column in columns)


def _layers(timeline: Timeline, node: Numbers, since: Floats, until: Floats) -> Iterator[Sections]:
    """The same, first by the message that each node waits for, then by the one in front of that,
    and so on. Together they are as many as all queues are long, which may be too many to keep."""
    start, cause, sender = timeline.node_start, timeline.node_cause, timeline.routed.sender
    row, front = np.arange(len(node)), cause[node]
    released = np.minimum(start[node], until)
    while len(row):
        waits = (front >= 0) & (released > since)
        begin = np.where(waits, np.maximum(since, start[front]), since)
        lasts = released > begin
        others = waits & (sender[front] != sender[node])
        yield Sections(row[lasts], begin[lasts], released[lasts], others[lasts])
        more = begin > since
        released = np.minimum(released, begin)[more]
        row, node, since = row[more], node[more], since[more]
        front = cause[front[more]]


def queued_media(timeline: Timeline, node: Ints) -> Ints:
    """The medium for which each node queued; -1: for merging."""
    routed, indptr = timeline.routed, timeline.routed.node_indptr
    known, place = np.unique(node, return_inverse=True)
    front = np.maximum(timeline.node_cause[known], 0)
    times = timeline.node_start[front], timeline.node_start[known]
    message = np.searchsorted(indptr, front, side="right") - 1
    links = zip(_links(timeline, front), _links(timeline, known), strict=True)
    nbytes = routed.schedule.nbytes[message].tolist()
    media = [
        path.shared(routed.work.network, *pair, size, busy) if min(pair) >= 0 else -1
        for pair, size, busy in zip(links, nbytes, zip(*times, strict=True), strict=True)
    ]
    return np.array(media, dtype=np.int32)[place]


def _links(timeline: Timeline, node: Ints) -> list[int]:
    """The link of each node; -1: it is work at the end of a transfer."""
    routed = timeline.routed
    operation = np.searchsorted(routed.node_indptr, node, side="right") - 1
    hop = node - routed.node_indptr[operation]
    begin = routed.route_indptr[routed.route[operation]] + hop
    inside = begin < routed.route_indptr[routed.route[operation] + 1]
    links = routed.route_links[np.where(inside, begin, 0)] if inside.any() else begin
    return np.where(inside, links, -1).tolist()  # type: ignore[no-any-return]
