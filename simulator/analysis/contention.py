"""How long transfers wait on their links, and which part of that other ranks cause."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simulator.kernels import queues
from simulator.kernels.records import History
from simulator.schedules.timeline import Occupancy, Timeline
from topologies.jit import kernel
from topologies.topology import Floats

ROUNDING = 1e-9
"""Shares of the bytes on a link below this are rounding."""


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
    contention = contended(timeline, node, arrived, start)
    every, behind_others = (
        np.asarray(np.bincount(operation, seconds, operations), dtype=np.float64)
        for seconds in (start - arrived, contention)
    )
    return every, behind_others


def arrivals(timeline: Timeline) -> Floats:
    """When each hop of :attr:`simulator.schedules.timeline.Timeline.hops` could begin: the bytes
    are there, but the link may serve others."""
    operation, link, node = timeline.hops
    before = timeline.node_start[node - 1] + timeline.routed.topology.latency[np.roll(link, 1)]
    if timeline.store_and_forward:
        before += np.roll(_held(timeline), 1)
    first = node == timeline.routed.node_indptr[operation]
    return np.where(first, timeline.ready[operation], before)


def contended(
    timeline: Timeline, node: npt.NDArray[np.integer], since: Floats, until: Floats
) -> Floats:
    """For how many seconds, from `since` to `until`, each node waited for operations of other
    ranks, shape (nodes,)."""
    waited_for = kernel(queues.contended, len(node))
    return np.asarray(
        waited_for(
            np.ascontiguousarray(node, np.int32),
            since,
            until,
            timeline.routed.sender,
            timeline.node_start,
            timeline.node_cause,
        )
    )


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
    sender = timeline.routed.sender[occupancy.node].astype(np.int64)
    medium = occupancy.medium + len(timeline.routed.topology.medium_bandwidth) * sender
    key = medium * len(timeline.schedule) + occupancy.operation
    _, place, crossings = np.unique(key, return_inverse=True, return_counts=True)
    return np.asarray(occupancy.nbytes * crossings[place], dtype=np.float64)


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


def _bytes_meanwhile(occupancy: Occupancy, group: npt.NDArray[np.integer]) -> Floats:
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
