"""The rules of time as compiled loops over the columns, with the same results as the reference.

Under fifo they agree to the bit, because all arithmetic is the same, in the same order. Under fair
sharing the bytes of a flow are added in another order, and times agree to a relative 1e-12.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.engines.time_limits import grid_error
from simulator.kernels import fair_sharing, first_come
from simulator.kernels.events import RUNS, Runs
from simulator.kernels.flows import Queues, Rates
from simulator.kernels.records import Times, Turns, Work
from simulator.kernels.repeats import Parts, Steps
from simulator.schedules.routed import Routed, flow_routes, limiting
from simulator.schedules.schedule import COMPUTE
from simulator.schedules.timeline import Sharing, Timeline
from topologies.columns import plain_rows
from topologies.jit import compiled, kernel
from topologies.topology import Floats, Ints, Longs


def run(
    routed: Routed, sharing: Sharing = "fifo", store_and_forward: bool = False, grid: float = 0.0
) -> Timeline:
    """Simulate `routed` with Numba. Flows end at multiples of `grid` seconds, if it is not 0."""
    schedule = routed.schedule
    work, successors = routed.work, schedule.successors
    bandwidth, lanes = work.network.bandwidth, Turns.of(work.ranks.serials)
    times = Times.blank(work, sharing == "fair")
    error = 0.0
    if sharing == "fair":
        crossed = flow_routes(routed)
        routes = limiting(crossed, bandwidth)
        queues = Queues.idle(len(schedule), routes, len(bandwidth))
        rates = Rates.blank(routes, bandwidth, grid)
        waiting = np.diff(schedule.indptr)
        done = compiled(fair_sharing.simulate)(
            work, waiting, successors, routes, times, queues, rates, lanes
        )
        error = grid_error(routed, crossed, rates.excess, grid)
    else:
        media = Turns.of(len(bandwidth))
        steps = Steps.of(Parts.none(), 0, 0, fills=True)
        done = compiled(first_come.simulate)(
            work, successors, times, media, lanes, Runs.empty(), steps, store_and_forward
        )
    if done == fair_sharing.STUCK:
        raise RuntimeError("fair sharing stopped: no time comes next, or no flow ends at that time")
    if done != len(schedule):
        raise RuntimeError(
            f"{len(schedule) - done} of {len(schedule)} operations never became ready"
        )
    ready, finish, start, cause, sent = times
    columns = routed, ready, finish, start, cause
    return Timeline(*columns, sharing, store_and_forward, sent, grid, error)


# A part of a run: it begins with media and lanes that earlier parts still hold.


class Windows(NamedTuple):
    """When a part uses media and lanes, a row for each that it uses. Times are in seconds."""

    place: Longs
    """The lane, or the number of lanes plus the medium."""
    first: Floats
    """A time before which nothing arrives."""
    last: Floats
    """A time after which nothing arrives."""
    free: Floats
    """When it is free again."""


EARLIER = -2
"""What a node waited for that waited for an earlier part."""


class RunPart(NamedTuple):
    """What a part of a run does."""

    times: Times
    windows: Windows
    waits: Longs
    """The lanes and media for which nodes waited that an earlier part held."""


def run_part(
    routed: Routed,
    ready: Floats,
    free: Floats,
    parts: Parts | None = None,
    *,
    fills: bool = True,
    room: Times | None = None,
) -> RunPart:
    """Simulate `routed` under fifo. No operation is ready before `ready`, and no medium or lane is
    free before `free`: lanes first, then media.

    With `parts`, steps in them are skipped where they repeat, if all durations are whole ticks. The
    times of what is skipped are there if it `fills` them in. Times go into `room`, if there is as
    much as they need: memory that has been used is quicker than memory that has not.
    """
    schedule, work = routed.schedule, routed.work
    count, serials = len(routed.topology.medium_bandwidth), work.ranks.serials
    times, media, lanes = _blank(work, room), Turns.of(count), Turns.of(serials)
    times.ready[:], lanes.free[:] = ready, free[:serials]
    media.free[:] = free[serials : serials + count]
    for turns in (media, lanes):
        turns.holder[turns.free > 0] = EARLIER
    loop = kernel(first_come.simulate, len(schedule))
    runs = Runs.empty(0 if loop is first_come.simulate else RUNS)
    if parts is None or not routed.grid or _entered(parts, ready):
        parts = Parts.none()
    steps = Steps.of(parts, len(schedule), count, fills)
    done = loop(work, schedule.successors, times, media, lanes, runs, steps, False)
    if done != len(schedule):
        raise RuntimeError(f"{len(schedule) - done} operations never became ready")
    waiting = np.flatnonzero(times.cause == EARLIER) if free.any() else np.zeros(0, dtype=np.int64)
    place = _places_of(routed, waiting)
    first, last, left = (
        np.concatenate((getattr(lanes, name), getattr(media, name)))
        for name in ("first", "last", "free")
    )
    row = np.flatnonzero(first < np.inf)
    windows = Windows(row, first[row], last[row], left[row])
    return RunPart(times, windows, np.unique(place[free[place] > 0]))


def _blank(work: Work, room: Times | None) -> Times:
    """Nothing has happened yet, but for what will be overwritten."""
    sizes = len(work.operations.kind), int(work.routes.nodes[-1])
    if room is None or (len(room.ready), len(room.start)) != sizes:
        return Times.blank(work)
    room.finish[:], room.cause[:] = 0.0, -1
    return room


def _entered(parts: Parts, ready: Floats) -> bool:
    ends = plain_rows(parts.begin, parts.end)
    return any(ready[begin:end].any() for begin, end in ends)


def used(routed: Routed) -> Longs:
    """The media and lanes that `routed` uses, in ascending order."""
    work, ranks = routed.work, routed.work.ranks
    merges = ((ranks.reduction > 0) | (ranks.copy > 0))[work.operations.peer]
    merges &= work.operations.reduces == 1
    serial = np.flatnonzero(merges | (np.diff(routed.route_indptr)[routed.route] == 0))
    _, media = routed.topology.crossings(np.unique(routed.route_links))
    lanes = np.unique(_lane_of(routed, serial))
    return np.concatenate((lanes, ranks.serials + np.unique(media))).astype(np.int64)


def _places_of(routed: Routed, node: Longs) -> Longs:
    """The media and lanes that `node`, some nodes in ascending order, use."""
    # Of the same type, since the numbers of all nodes would be converted else.
    operation = np.searchsorted(routed.node_indptr, node.astype(np.int32), side="right") - 1
    hop, route = node - routed.node_indptr[operation], routed.route[operation]
    crosses = hop < np.diff(routed.route_indptr)[route]
    link = routed.route_links[routed.route_indptr[route[crosses]] + hop[crosses]]
    _, medium = routed.topology.crossings(link)
    lane = _lane_of(routed, operation[~crosses])
    return np.concatenate((routed.work.ranks.serials + medium, lane)).astype(np.int64)


def _lane_of(routed: Routed, operation: Longs) -> Ints:
    schedule, lanes = routed.schedule, routed.schedule.lanes + 1
    return np.where(
        schedule.kind[operation] == COMPUTE,
        schedule.rank[operation] * lanes + schedule.lane[operation],
        routed.peer[operation] * lanes + schedule.lanes,
    )
