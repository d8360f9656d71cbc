"""The rules of time as one compiled loop over the columns: the same results as the reference, to the bit."""

import numpy as np

from simulator import _kernels
from simulator.routed import Routed
from simulator.timeline import Timeline
from topologies._compile import compiled


def run(routed: Routed) -> Timeline:
    """Simulate `routed` with Numba."""
    schedule, topology = routed.schedule, routed.topology
    pending = np.diff(schedule.indptr)
    ready, finish, start, cause, done = compiled(_kernels.simulate)(
        schedule.kind, schedule.rank, schedule.peer, schedule.nbytes, schedule.seconds, schedule.lane, schedule.reduces,
        pending, *schedule.successors, routed.route, routed.route_indptr, routed.route_links, topology.latency,
        topology.link_indptr, topology.link_media, topology.medium_bandwidth, topology.medium_gap,
        routed.reduction, routed.copy, schedule.lanes, routed.node_indptr,
    )  # fmt: skip
    if done != len(schedule):
        raise RuntimeError(f"{len(schedule) - done} of {len(schedule)} operations never became ready")
    return Timeline(routed, ready, finish, start, cause)
