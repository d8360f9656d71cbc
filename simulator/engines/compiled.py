"""The rules of time as compiled loops over the columns, with the same results as the reference.

Under fifo they agree to the bit, because all arithmetic is the same, in the same order. Under fair
sharing the bytes of a flow are added in another order, and times agree to a relative 1e-12.
"""

from __future__ import annotations

import numpy as np

from simulator.engines.time_limits import grid_error
from simulator.kernels import fair_sharing, first_come
from simulator.kernels.events import Runs
from simulator.kernels.flows import Queues, Rates
from simulator.kernels.records import Times, Turns
from simulator.schedules.routed import Routed, flow_routes, limiting
from simulator.schedules.timeline import Sharing, Timeline
from topologies.jit import compiled


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
        done = compiled(first_come.simulate)(
            work, successors, times, media, lanes, Runs.empty(), store_and_forward
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
