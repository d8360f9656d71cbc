"""What a route is to a flow that has all of it at once, as under fair sharing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.schedules.routed import Routed
from topologies.topology import Floats

Unsigned = npt.NDArray[np.uint32]


class FlowRoutes(NamedTuple):
    """Per route: the greatest `gap` of its media and the sum of its latencies, in seconds; and the
    media that limit it, `media[indptr[r]:indptr[r + 1]]`, one as often as the route crosses it."""

    gap: Floats
    latency: Floats
    indptr: Unsigned
    media: Unsigned

    def media_of(self, route: int) -> Unsigned:
        """The media that limit a route."""
        return self.media[self.indptr[route] : self.indptr[route + 1]]


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
