"""The routes of flows: under fair sharing a flow has its whole route at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simulator.kernels.records import FlowRoutes
from simulator.schedules.routed import Routed
from topologies.topology import Floats


def flow_routes(routed: Routed) -> FlowRoutes:
    """The routes of `routed` as flows see them."""
    topology, links, routes = routed.topology, routed.route_links, len(routed.route_indptr) - 1
    route = np.repeat(np.arange(routes), np.diff(routed.route_indptr))
    latency = np.bincount(route, topology.latency[links], routes)
    place, media = topology.crossings(links)
    route = route[place]
    gap = np.zeros(routes)
    np.maximum.at(gap, route, topology.medium_gap[media])
    limits = np.isfinite(topology.medium_bandwidth[media])
    indptr = np.zeros(routes + 1, dtype=np.uint32)
    np.cumsum(np.bincount(route[limits], minlength=routes), out=indptr[1:])
    return FlowRoutes(gap, latency.astype(np.float64), indptr, media[limits].astype(np.uint32))


def limiting(routes: FlowRoutes, bandwidth: Floats) -> FlowRoutes:
    """The same routes without media that never limit a flow more than the medium beside them: one
    with no more bandwidth, which all flows cross just after them, or all just before them.

    >>> routes = FlowRoutes(*np.zeros((2, 2)), np.array([0, 3, 5]), np.array([0, 1, 2, 0, 3]))
    >>> limiting(routes, np.array([2.0, 1.0, 1.0, 1.0])).media.tolist()
    [0, 2, 0, 3]
    """
    for step in (1, -1, 1):
        routes = _without(routes, _exceeded(routes, bandwidth, step))
    return routes


def _exceeded(routes: FlowRoutes, bandwidth: Floats, step: int) -> npt.NDArray[np.bool_]:
    """Whether each medium has at least the bandwidth of the medium that always follows it, or with
    step -1 of the medium that always precedes it."""
    media, count = routes.media.astype(np.int64), len(bandwidth)
    route = np.repeat(np.arange(len(routes.gap)), np.diff(routes.indptr).astype(np.int64))
    follows = np.full(len(media), count)
    here, beside = (slice(-1), slice(1, None))[::step]
    follows[here] = np.where(route[here] == route[beside], media[beside], count)
    neighbour = np.full(count, count)
    neighbour[media] = follows
    differs = np.bincount(media, follows != neighbour[media], count) > 0
    least = np.append(bandwidth, np.inf)[neighbour]
    return np.asarray((bandwidth >= least) & ~differs & (neighbour < count))


def _without(routes: FlowRoutes, dropped: npt.NDArray[np.bool_]) -> FlowRoutes:
    keep = ~dropped[routes.media]
    kept = np.concatenate((np.zeros(1, np.uint32), np.cumsum(keep, dtype=np.uint32)))
    return routes._replace(indptr=kept[routes.indptr], media=routes.media[keep])
