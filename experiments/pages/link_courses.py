"""How busy links are over time, in equal parts of a run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.schedules.timeline import Timeline
from topologies.topology import Floats, Ints

PARTS = 120
"""Parts of a run."""
IMAGES = 500_000
"""Links of the ranks for which others stand that are looked up, at most."""


class Courses(NamedTuple):
    """The courses of links that were simulated, and which links they are of."""

    busy: Floats
    """The share of each part in which a link is in use, shape (courses, parts)."""
    nbytes: Floats
    """Bytes that cross it, shape (courses, parts)."""
    link: Ints
    """The course of each link of the machine; -1 if nothing crosses it."""


def courses_of(timeline: Timeline) -> Courses:
    """The courses of all links. A message uses a link at the rate of its slowest medium."""
    topology, schedule = timeline.routed.topology, timeline.schedule
    operation, link, node = timeline.hops
    count = np.diff(topology.link_indptr)
    owner = np.repeat(np.arange(topology.links), count)
    gap = np.zeros(topology.links)
    np.maximum.at(gap, owner, topology.medium_gap[topology.link_media])
    nbytes = schedule.nbytes[operation]
    seconds = nbytes / topology.bandwidth[link] + gap[link]
    start = timeline.node_start[node]
    end = timeline.sent[operation] if timeline.sharing == "fair" else start + seconds
    edges = np.linspace(0.0, timeline.makespan or 1.0, PARTS + 1)
    part = edges[1]
    busy = spread(link, start, end, seconds, (topology.links, edges))
    carried = spread(link, start, end, nbytes, (topology.links, edges))
    return Courses(np.clip(busy / part, 0.0, 1.0), carried, _images(timeline))


def spread(
    row: Ints, start: Floats, end: Floats, amount: Floats, shape: tuple[int, Floats]
) -> Floats:
    """Amounts by row and part of the time, each spread evenly from its start to its end.

    >>> row, one = np.array([0]), np.array([1.0])
    >>> spread(row, 0.5 * one, 2.5 * one, 8 * one, (1, np.arange(4.0))).tolist()
    [[2.0, 4.0, 2.0]]
    """
    rows, edges = shape
    parts, width = len(edges) - 1, edges[1] - edges[0]
    first, last = (
        np.clip((times / width).astype(np.int64), 0, parts - 1) for times in (start, end)
    )
    # The place of a part is first + row * stride: behind the parts of a row is one that ends them.
    stride = parts + 1
    row_place, size = row.astype(np.int64) * stride, rows * stride
    within = first == last
    result = np.zeros(size)
    result += np.bincount((row_place + first)[within], amount[within], size)
    long = ~within
    begin, first, last = row_place[long], first[long], last[long]
    rate = amount[long] / (end - start)[long]
    result += np.bincount(begin + first, rate * (edges[first + 1] - start[long]), size)
    result += np.bincount(begin + last, rate * (end[long] - edges[last]), size)
    change = np.bincount(begin + first + 1, rate, size) - np.bincount(begin + last, rate, size)
    between = np.cumsum(change.reshape(rows, stride), axis=1) * width
    total: Floats = np.maximum((result.reshape(rows, stride) + between)[:, :parts], 0.0)
    return total


def _images(timeline: Timeline) -> Ints:
    """The simulated link of each link of the machine. Of a folded schedule, that is the link of
    the ranks that stand for all."""
    routed, schedule = timeline.routed, timeline.schedule
    machine, fold = routed.machine, schedule.fold
    if fold is None:
        return np.arange(machine.links, dtype=np.int32)
    chosen = np.flatnonzero(schedule.remote)
    key = np.stack((schedule.rank[chosen], schedule.peer[chosen], schedule.lane[chosen]))
    chosen = chosen[np.unique(key, axis=1, return_index=True)[1]]
    elements = fold.shifts.elements[: max(1, IMAGES // max(len(chosen), 1))]
    sender, receiver = (
        fold.shifts.shifted(ranks[chosen, None].astype(np.int64), elements).ravel()
        for ranks in (schedule.rank, schedule.peer)
    )
    channel = fold.channel(schedule.lane[chosen, None].astype(np.int64), elements).ravel()
    links = machine.routes(sender, receiver, channel)[1]
    simulated = np.concatenate(
        [np.tile(routed.hops(operation), len(elements)) for operation in chosen.tolist()]
    )
    image = np.full(machine.links, -1, dtype=np.int32)
    if len(simulated) == len(links):
        image[links] = simulated
    return image
