"""The rules of time as compiled loops over the columns: the same results as the reference.

To the bit where first come is first served, since all is the same arithmetic in the same order.
Under fair sharing the bytes of a flow are added up in another order, and times agree to about 1e-12
of themselves.
"""

from typing import Any

import numpy as np

from simulator.kernels import fair_sharing, first_come
from simulator.schedules.flow_routes import flow_routes
from simulator.schedules.routed import Routed
from simulator.schedules.timeline import Sharing, Timeline
from topologies._compile import compiled


def run(routed: Routed, sharing: Sharing = "fifo", store_and_forward: bool = False) -> Timeline:
    """Simulate `routed` with Numba."""
    ready, finish, start, cause, sent, done = (
        _fair_columns(routed) if sharing == "fair" else _fifo_columns(routed, store_and_forward)
    )
    if done != len(routed.schedule):
        raise RuntimeError(
            f"{len(routed.schedule) - done} of {len(routed.schedule)} operations never became ready"
        )
    return Timeline(routed, ready, finish, start, cause, sharing, store_and_forward, sent)


def _fifo_columns(routed: Routed, store_and_forward: bool) -> tuple[Any, ...]:
    schedule, topology = routed.schedule, routed.topology
    *columns, done = compiled(first_come.simulate)(
        schedule.kind, schedule.rank, schedule.peer, schedule.nbytes, schedule.seconds,
        schedule.lane, schedule.reduces, np.diff(schedule.indptr), *schedule.successors,
        routed.route, routed.route_indptr, routed.route_links, topology.latency,
        topology.link_indptr, topology.link_media, topology.medium_bandwidth, topology.medium_gap,
        routed.reduction, routed.copy, schedule.lanes, routed.node_indptr, store_and_forward,
    )  # fmt: skip
    return *columns, np.zeros(0), done


def _fair_columns(routed: Routed) -> tuple[Any, ...]:
    schedule = routed.schedule
    columns: tuple[Any, ...] = compiled(fair_sharing.simulate)(
        schedule.kind, schedule.rank, schedule.peer, schedule.nbytes, schedule.seconds,
        schedule.lane, schedule.reduces, np.diff(schedule.indptr), *schedule.successors,
        routed.route, routed.route_indptr, *flow_routes(routed), routed.topology.medium_bandwidth,
        routed.reduction, routed.copy, schedule.lanes, routed.node_indptr,
    )  # fmt: skip
    return columns
