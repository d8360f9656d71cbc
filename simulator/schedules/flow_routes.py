"""The routes of flows: under fair sharing a flow has its whole route at once."""

from __future__ import annotations

import numpy as np

from simulator.kernels.records import FlowRoutes
from simulator.schedules.routed import Routed


def flow_routes(routed: Routed) -> FlowRoutes:
    """The routes of `routed` as flows see them."""
    topology, links, routes = routed.topology, routed.route_links, len(routed.route_indptr) - 1
    route = np.repeat(np.arange(routes), np.diff(routed.route_indptr))
    latency = np.bincount(route, topology.latency[links], routes)
    count = np.diff(topology.link_indptr)[links]
    offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    route, media = (
        np.repeat(route, count),
        topology.link_media[np.repeat(topology.link_indptr[links], count) + offset],
    )
    gap = np.zeros(routes)
    np.maximum.at(gap, route, topology.medium_gap[media])
    limits = np.isfinite(topology.medium_bandwidth[media])
    indptr = np.zeros(routes + 1, dtype=np.uint32)
    np.cumsum(np.bincount(route[limits], minlength=routes), out=indptr[1:])
    return FlowRoutes(gap, latency.astype(np.float64), indptr, media[limits].astype(np.uint32))
