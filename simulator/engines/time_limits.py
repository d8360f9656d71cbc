"""The longest run whose times an engine can count, and the moments at which flows may end under
fair sharing with a tolerance.

Flows of unequal sizes end one by one, and each end changes the rates of others. With a tolerance
their ends are rounded to multiples of a grid step, so that many end together.
"""

from __future__ import annotations

import numpy as np

from simulator.kernels.records import FlowRoutes
from simulator.schedules.routed import Routed, flow_routes
from simulator.schedules.schedule import COMPUTE, Schedule
from topologies.columns import owners
from topologies.errors import InputError
from topologies.topology import Floats

LONGEST_RUN = 1e300
"""The most seconds that all operations of a schedule may take, one after the other."""
LARGEST_TOLERANCE = 0.1


def check_times(routed: Routed) -> None:
    """Raise InputError if all operations may take more than `LONGEST_RUN` seconds. It names the
    longest.

    No run takes longer than its operations one after the other, store-and-forward. So below the
    limit no time overflows.
    """
    schedule, topology, routes = routed.schedule, routed.topology, len(routed.route_indptr) - 1
    # Sums over routes: many operations share a route. Only links of routes are read: a group of a
    # large machine takes few of its links.
    links, route = routed.route_links, owners(routed.route_indptr)
    place, media = topology.crossings(links)
    route_of_crossing = route[place]
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        fixed = np.bincount(route, topology.latency[links], routes)
        fixed += np.bincount(route_of_crossing, topology.medium_gap[media], routes)
        a_byte = np.bincount(route_of_crossing, 1 / topology.medium_bandwidth[media], routes)
        moved = np.bincount(routed.route, schedule.nbytes, routes)
        merging = moved.sum() * np.concatenate(([0.0], routed.reduction, routed.copy)).max()
        messages = np.bincount(routed.route, minlength=routes)
        seconds = fixed @ messages + a_byte @ moved + merging + schedule.seconds.sum()
        if seconds <= LONGEST_RUN:
            return
        merge = np.where(
            schedule.reduces == 1, routed.reduction[routed.peer], routed.copy[routed.peer]
        )
        alone = fixed[routed.route] + schedule.nbytes * (a_byte[routed.route] + merge)
        alone += schedule.seconds
    longest = int(np.nan_to_num(alone, nan=np.inf, posinf=np.inf).argmax())
    raise InputError(
        f"all {len(schedule)} operations, one after the other, may take {seconds:.3g} s, and the "
        f"longest, {_in_words(schedule, longest)}, {alone[longest]:.3g} s: expected at most "
        f"{LONGEST_RUN:g} s, check sizes, bandwidths and latencies"
    )


def _in_words(schedule: Schedule, operation: int) -> str:
    rank, peer = schedule.rank[operation], schedule.peer[operation]
    if schedule.kind[operation] == COMPUTE:
        return f"a computation of rank {rank}"
    return f"{schedule.nbytes[operation]:g} B from rank {rank} to {peer}"


def grid_step(routed: Routed, tolerance: float) -> float:
    """The step in seconds: the share `tolerance` of the time for which the busiest medium has bytes
    to carry; 0 for no grid.

    Raises InputError for a tolerance that is no share up to 0.1.
    """
    if not 0 <= tolerance <= LARGEST_TOLERANCE:
        raise InputError(
            f"fair_tolerance is {tolerance:g}: expected 0 to {LARGEST_TOLERANCE}, like 1e-3"
        )
    if tolerance == 0:
        return 0.0
    routes = flow_routes(routed)
    nbytes = np.bincount(routed.route, routed.schedule.nbytes, len(routes.gap)).astype(np.float64)
    busy = _seconds(routes, nbytes, routed.topology.medium_bandwidth)
    return float(tolerance * busy.max(initial=0.0))


def grid_error(routed: Routed, routes: FlowRoutes, excess: Floats, grid: float) -> float:
    """An estimate of the seconds by which the grid changed the makespan.

    It has two parts. Each message of the longest chain may end half a grid step too early or too
    late, and the next message starts then. And a medium was busy for longer or shorter by the time
    of the bytes that the grid gave it too many or too few: the most of all media. `excess` are the
    bytes that each route sent too many, shape (routes,).
    """
    if grid == 0.0:
        return 0.0
    longer = np.abs(_seconds(routes, excess, routed.topology.medium_bandwidth)).max(initial=0.0)
    return float(longer + routed.schedule.steps * grid / 2)


def _seconds(routes: FlowRoutes, nbytes: Floats, bandwidth: Floats) -> Floats:
    """The seconds that each medium needs for the bytes of all routes across it."""
    carried = np.repeat(nbytes, np.diff(routes.indptr).astype(np.int64))
    return np.asarray(np.bincount(routes.media, carried, len(bandwidth)) / bandwidth)
