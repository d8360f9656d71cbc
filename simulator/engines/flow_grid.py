"""The moments at which flows may end under fair sharing with a tolerance.

Flows of unequal sizes end one by one, and each end changes the rates of others. With a tolerance
their ends are rounded to multiples of a grid step, so that many end together.
"""

from __future__ import annotations

import numpy as np

from simulator.kernels.records import FlowRoutes
from simulator.schedules.routed import Routed, flow_routes
from topologies.errors import InputError
from topologies.topology import Floats

MOST = 0.1


def grid_step(routed: Routed, tolerance: float) -> float:
    """The step in seconds: the share `tolerance` of the time for which the busiest medium has bytes
    to carry; 0 for no grid.

    Raises InputError for a tolerance that is no share up to 0.1.
    """
    if not 0 <= tolerance <= MOST:
        raise InputError(f"fair_tolerance is {tolerance:g}: expected 0 to {MOST}, like 1e-3")
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
