"""A part of a run: it begins with media and lanes that earlier parts still hold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.kernels import first_come
from simulator.kernels.events import RUNS, Runs
from simulator.kernels.records import Times, Turns
from simulator.schedules.folding import spread
from simulator.schedules.routed import Routed
from simulator.schedules.schedule import COMPUTE
from topologies._compile import kernel
from topologies.topology import Floats, Ints

Places = npt.NDArray[np.int64]


class Uses(NamedTuple):
    """The media and lanes that a schedule uses, a row for each node and medium or lane."""

    place: Places
    """The lane, or the number of lanes plus the medium."""
    node: Places
    """The node that uses it."""
    operation: Places
    """The operation of the node."""
    before: Places
    """The link before the one of the node; -1 at the first node of an operation, -2 if an operation
    merges at its end."""
    order: Places
    """The rows in the order of their places."""
    used: Places
    """The places that are used, in ascending order."""
    begin: Places
    """Where in `order` the rows of each used place begin."""


class Windows(NamedTuple):
    """When a part uses media and lanes, a row for each that it uses. Times are in seconds."""

    place: Places
    """The lane, or the number of lanes plus the medium."""
    first: Floats
    """A time before which nothing arrives."""
    last: Floats
    """A time after which nothing arrives."""
    free: Floats
    """When it is free again."""


HELD = -2
"""What a node waited for that waited for an earlier part."""


class Part(NamedTuple):
    """What a part of a run does."""

    times: Times
    holder: Ints
    """The last node that each lane and medium served, or below 0."""
    windows: Windows
    waits: Places
    """The lanes and media for which nodes waited that an earlier part held."""


def uses_of(routed: Routed) -> Uses:
    """The media and lanes that `routed` uses."""
    schedule, topology = routed.schedule, routed.topology
    hops = np.diff(routed.route_indptr)[routed.route]
    operation, hop = spread(hops)
    entry = routed.route_indptr[routed.route[operation]] + hop
    link, before = routed.route_links[entry], np.where(hop > 0, routed.route_links[entry - 1], -1)
    row, offset = spread(np.diff(topology.link_indptr)[link])
    medium = topology.link_media[topology.link_indptr[link[row]] + offset]
    merging = (routed.reduction + routed.copy)[routed.peer] > 0
    serial = np.flatnonzero((hops == 0) | ((schedule.reduces == 1) & merging))
    computes = schedule.kind[serial] == COMPUTE
    lanes = schedule.lanes + 1
    lane = np.where(
        computes,
        schedule.rank[serial] * lanes + schedule.lane[serial],
        routed.peer[serial] * lanes + schedule.lanes,
    )
    place = np.concatenate((routed.work.ranks.serials + medium, lane)).astype(np.int64)
    order = np.argsort(place, kind="stable")
    used, begin = np.unique(place[order], return_index=True)
    return Uses(
        place,
        np.concatenate(
            ((routed.node_indptr[operation] + hop)[row], routed.node_indptr[serial + 1] - 1)
        ),
        np.concatenate((operation[row], serial)),
        np.concatenate((before[row], np.where(hops[serial] == 0, -1, -2))),
        order,
        used,
        begin,
    )


def run(routed: Routed, uses: Uses, ready: Floats, free: Floats) -> Part:
    """Simulate `routed` under fifo. No operation is ready before `ready`, and no medium or lane is
    free before `free`: lanes first, then media."""
    schedule, work = routed.schedule, routed.work
    count, serials = len(routed.topology.medium_bandwidth), work.ranks.serials
    times, media, lanes = Times.blank(work), Turns.of(count), Turns.of(serials)
    times.ready[:], lanes.free[:] = ready, free[:serials]
    media.free[:] = free[serials : serials + count]
    for turns in (media, lanes):
        turns.holder[turns.free > 0] = HELD
    loop, waiting = kernel(first_come.simulate, len(schedule)), np.diff(schedule.indptr)
    runs = Runs.empty(0 if loop is first_come.simulate else RUNS)
    done = loop(work, waiting, schedule.successors, times, media, lanes, runs, False)
    if done != len(schedule):
        raise RuntimeError(f"{len(schedule) - done} operations never became ready")
    waiting = np.flatnonzero(times.cause[uses.node] == HELD)
    waits = np.unique(uses.place[waiting][free[uses.place[waiting]] > 0])
    holder = np.concatenate((lanes.holder, media.holder))
    return Part(times, holder, _windows(routed, uses, times, media, lanes), waits)


def _windows(routed: Routed, uses: Uses, times: Times, media: Turns, lanes: Turns) -> Windows:
    earliest, latest = times.ready[uses.operation], times.ready[uses.operation]
    later = uses.before >= 0
    head = times.start[uses.node[later] - 1] + routed.topology.latency[uses.before[later]]
    earliest[later] = latest[later] = head
    merging = uses.before == -2
    latest[merging] = times.start[uses.node[merging]]
    free = np.concatenate((lanes.free, media.free))
    if not len(uses.used):
        return Windows(uses.used, free[:0], free[:0], free[:0])
    first = np.minimum.reduceat(earliest[uses.order], uses.begin)
    last = np.maximum.reduceat(latest[uses.order], uses.begin)
    return Windows(uses.used, first, last, free[uses.used])
