"""The moments at which flows may end under fair sharing with a tolerance.

Flows of unequal sizes end one by one, and each end changes the rates of others. With a tolerance
their ends are rounded to multiples of a grid step, so that many end together.
"""

from __future__ import annotations

import numpy as np

from simulator.kernels.records import FlowRoutes
from simulator.schedules.flow_routes import flow_routes
from simulator.schedules.routed import Routed
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


def grid_error(routes: FlowRoutes, excess: Floats, bandwidth: Floats) -> float:
    """The seconds that a medium needs for the bytes that the grid gave it too many, or took from
    it, the most of all media: an estimate of what the grid changed of the time. `excess` are the
    bytes that each route sent too many, shape (routes,)."""
    return float(np.abs(_seconds(routes, excess, bandwidth)).max(initial=0.0))


def _seconds(routes: FlowRoutes, nbytes: Floats, bandwidth: Floats) -> Floats:
    """The seconds that each medium needs for the bytes of all routes across it."""
    carried = np.repeat(nbytes, np.diff(routes.indptr).astype(np.int64))
    return np.asarray(np.bincount(routes.media, carried, len(bandwidth)) / bandwidth)
