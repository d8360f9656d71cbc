"""A part of a run: it begins with media and lanes that earlier parts still hold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.kernels import arrivals, first_come
from simulator.kernels.events import RUNS, Runs
from simulator.kernels.records import Times, Turns
from simulator.schedules.folding import spread
from simulator.schedules.routed import Routed
from simulator.schedules.schedule import COMPUTE
from topologies._compile import kernel
from topologies.topology import Floats, Ints

Places = npt.NDArray[np.int64]


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


class Uses(NamedTuple):
    """The media and lanes that nodes use, a row for each node and medium or lane."""

    node: Places
    place: Places
    """The lane, or the number of lanes plus the medium."""


def run(routed: Routed, ready: Floats, free: Floats) -> Part:
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
    place = uses_of(routed, np.flatnonzero(times.cause == HELD)).place
    holder = np.concatenate((lanes.holder, media.holder))
    windows = _windows(routed, times, np.concatenate((lanes.free, media.free)))
    return Part(times, holder, windows, np.unique(place[free[place] > 0]))


def used(routed: Routed) -> Places:
    """The media and lanes that `routed` uses, in ascending order."""
    blank = Times.blank(routed.work)
    first, _ = _arrivals(routed, blank)
    return np.flatnonzero(first < np.inf)


def _windows(routed: Routed, times: Times, free: Floats) -> Windows:
    first, last = _arrivals(routed, times)
    place = np.flatnonzero(first < np.inf)
    return Windows(place, first[place], last[place], free[place])


def _arrivals(routed: Routed, times: Times) -> tuple[Floats, Floats]:
    """The first and last arrival at each lane and medium, inf and -inf where nothing arrives."""
    work = routed.work
    places = work.ranks.serials + len(work.network.gap)
    first, last = np.full(places, np.inf), np.full(places, -np.inf)
    kernel(arrivals.spread, len(routed.schedule))(work, times, first, last)
    return first, last


def uses_of(routed: Routed, node: npt.NDArray[np.int64]) -> Uses:
    """The media and lanes that `node`, some nodes in ascending order, use."""
    schedule, topology = routed.schedule, routed.topology
    operation = np.searchsorted(routed.node_indptr, node, side="right") - 1
    hop, route = node - routed.node_indptr[operation], routed.route[operation]
    crosses = hop < np.diff(routed.route_indptr)[route]
    link = routed.route_links[routed.route_indptr[route[crosses]] + hop[crosses]]
    row, offset = spread(np.diff(topology.link_indptr)[link])
    medium = topology.link_media[topology.link_indptr[link[row]] + offset]
    serial, lanes = operation[~crosses], schedule.lanes + 1
    lane = np.where(
        schedule.kind[serial] == COMPUTE,
        schedule.rank[serial] * lanes + schedule.lane[serial],
        routed.peer[serial] * lanes + schedule.lanes,
    )
    nodes = np.concatenate((node[crosses][row], node[~crosses]))
    places = np.concatenate((routed.work.ranks.serials + medium, lane)).astype(np.int64)
    return Uses(nodes, places)
