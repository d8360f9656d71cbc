"""When messages wait on their way behind messages of other ranks, and for which link."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.analysis.contention import arrivals
from simulator.kernels import path
from simulator.schedules.timeline import Timeline
from topologies.topology import Floats, Ints

ROUNDING = 1e-12
"""A share of the makespan: shorter waits are rounding errors."""


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

    row: npt.NDArray[np.int64]
    """The place of the node among those asked for."""
    start: Floats
    end: Floats
    others: npt.NDArray[np.bool_]
    """Whether the message in front is of another sender."""


def queue_spans(timeline: Timeline) -> QueueSpans:
    """The waits of all transfers for links that serve messages of other ranks.

    What a transfer waits behind messages of its own sender does not count. Under fair sharing
    nothing queues, and there are no rows.
    """
    operation, _, node = timeline.hops
    since, until = arrivals(timeline), timeline.node_start[node]
    waits = (until - since > ROUNDING * timeline.makespan) & (timeline.node_cause[node] >= 0)
    operation, node, since, until = operation[waits], node[waits], since[waits], until[waits]
    parts = sections(timeline, node.astype(np.int32), since, until)
    begin, end = np.full(len(node), np.inf), np.zeros(len(node))
    np.minimum.at(begin, parts.row[parts.others], parts.start[parts.others])
    np.maximum.at(end, parts.row[parts.others], parts.end[parts.others])
    kept = end - begin > ROUNDING * timeline.makespan
    medium = queued_media(timeline, node[kept].astype(np.int32))
    return QueueSpans(operation[kept], medium, begin[kept], end[kept])


def sections(timeline: Timeline, node: Ints, since: Floats, until: Floats) -> Sections:
    """The waits of nodes from `since` to `until`, by the messages in front."""
    start, cause, sender = timeline.node_start, timeline.node_cause, timeline.routed.sender
    row, front = np.arange(len(node)), cause[node]
    released, parts = np.minimum(start[node], until), list[Sections]()
    while len(row):
        waits = (front >= 0) & (released > since)
        begin = np.where(waits, np.maximum(since, start[front]), since)
        some = released > begin
        others = waits & (sender[front] != sender[node])
        parts.append(Sections(row[some], begin[some], released[some], others[some]))
        more = begin > since
        released = np.minimum(released, begin)[more]
        row, node, since = row[more], node[more], since[more]
        front = cause[front[more]]
    columns = zip(*parts, strict=True) if parts else ((np.zeros(0, int),),) * 4
    return Sections._make(np.concatenate(column) for column in columns)


def queued_media(timeline: Timeline, node: Ints) -> Ints:
    """The medium for which each node queued; -1: for merging."""
    routed, indptr = timeline.routed, timeline.routed.node_indptr
    known, place = np.unique(node, return_inverse=True)
    front = np.maximum(timeline.node_cause[known], 0)
    times = timeline.node_start[front], timeline.node_start[known]
    held = np.searchsorted(indptr, front, side="right") - 1
    links = zip(_links(timeline, front), _links(timeline, known), strict=True)
    nbytes = routed.schedule.nbytes[held].tolist()
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
