"""What a formula knows of a machine: a latency, a gap, a bandwidth, and how messages share
ports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from simulator.schedules.routed import Routed
from topologies.link import Link
from topologies.topology import Ints, Topology

Ports = Literal["peer", "switch", "one", "bus", "blocking"]
"""How the messages of a schedule share media:

- peer: not at all, for every pair of ranks has its link;
- switch: messages of a sender share a link, and so do messages to a receiver, on its other side;
- one: the same with one link from sender to receiver, which a message occupies at both ends;
- bus: all share one medium;
- blocking: in another way, for which there is no formula, or through ports of other speeds.
"""


@dataclass(frozen=True, kw_only=True)
class Fabric(Link):
    """A machine as one link: its α is that of a whole route."""

    reduction: float
    """γ in seconds a byte."""
    ports: Ports
    uniform: bool
    """Whether all routes of the schedule are alike."""

    def send(self, nbytes: float) -> float:
        """Seconds for which a message occupies its port: g + n/β."""
        return self.gap + nbytes / self.bandwidth


def observe(routed: Routed) -> Fabric:
    """The fabric of a schedule on its topology, by its route of the least latency and highest
    bandwidth."""
    topology = routed.topology
    routes = [
        routed.route_links[routed.route_indptr[k] : routed.route_indptr[k + 1]]
        for k in range(1, len(routed.route_indptr) - 1)
    ]
    crossed = [links for links in routes if len(links)]
    if not crossed:
        return Fabric(bandwidth=np.inf, reduction=0.0, ports="blocking", uniform=False)
    parameters = [_route(topology, links) for links in crossed]
    latency, gap, bandwidth = min(parameters, key=lambda route: (route[0], -route[2], route[1]))
    costs = {(float(a), float(b)) for a, b in zip(routed.reduction, routed.copy, strict=True)}
    alike = len(crossed) == len(routes) and bool(
        np.allclose(np.array(parameters), parameters[0], rtol=1e-12, atol=0)
    )
    uniform = alike and len(costs) == 1 and next(iter(costs))[1] == 0
    ports = _ports(routed, routes, bandwidth, gap)
    reduction = float(routed.reduction.max())
    return Fabric(bandwidth, latency, gap, reduction=reduction, ports=ports, uniform=uniform)


def _route(topology: Topology, links: Ints) -> tuple[float, float, float]:
    """α, g and β of one route."""
    media = np.concatenate([topology.media_of(int(link)) for link in links])
    bandwidth, gap = topology.medium_bandwidth[media], topology.medium_gap[media]
    return float(topology.latency[links].sum()), float(gap.max()), float(bandwidth.min())


def _ports(routed: Routed, routes: list[Ints], bandwidth: float, gap: float) -> Ports:
    ends, topology = _ends(routed), routed.topology
    if any(
        len(set(crossed)) < len(crossed)
        for crossed in (_limiting(topology, links) for links in routes)
    ):
        return "blocking"
    users = {
        medium: routes for medium, routes in _users(topology, routes).items() if len(routes) > 1
    }
    if not users:
        return "peer"
    if any(
        (topology.medium_bandwidth[m], topology.medium_gap[m]) != (bandwidth, gap) for m in users
    ):
        return "blocking"
    shared, everyone = set(users.values()), frozenset(range(len(routes)))
    entered_at_once = set(_users(topology, [route[:1] for route in routes]).values())
    roles = {_role(ends, group) for group in shared}
    if "" in roles:
        return "bus" if len(users) == 1 and everyone in entered_at_once else "blocking"
    if any(group not in shared for group in _groups(ends)):
        return "blocking"
    return (
        "one" if any(_role(ends, group) == "in" for group in shared & entered_at_once) else "switch"
    )


def _limiting(topology: Topology, links: Ints) -> list[int]:
    """The media of a route that take time, in order."""
    crossed = [medium for link in links.tolist() for medium in topology.media_of(link).tolist()]
    return [
        m
        for m in crossed
        if np.isfinite(topology.medium_bandwidth[m]) or topology.medium_gap[m] > 0
    ]


def _users(topology: Topology, routes: list[Ints]) -> dict[int, frozenset[int]]:
    """The routes that cross each medium that takes time."""
    crossing: dict[int, set[int]] = {}
    for index, links in enumerate(routes):
        for medium in _limiting(topology, links):
            crossing.setdefault(medium, set()).add(index)
    return {medium: frozenset(users) for medium, users in crossing.items()}


def _groups(ends: npt.NDArray[np.int64]) -> list[frozenset[int]]:
    """The routes that leave a rank, and those that enter it, where there are several."""
    groups = [
        np.flatnonzero(ends[:, side] == rank)
        for side in (0, 1)
        for rank in np.unique(ends[:, side])
    ]
    return [frozenset(group.tolist()) for group in groups if len(group) > 1]


def _ends(routed: Routed) -> npt.NDArray[np.int64]:
    """Sender and receiver of every route, shape (routes, 2)."""
    ends = np.zeros((len(routed.route_indptr) - 1, 2), dtype=np.int64)
    ends[routed.route] = np.stack((routed.schedule.rank, routed.schedule.peer), axis=1)
    return ends[1:]


def _role(ends: npt.NDArray[np.int64], users: frozenset[int]) -> str:
    """What routes that share a medium have in common: the sender, the receiver, or nothing."""
    pairs = ends[list(users)]
    if len(set(pairs[:, 0])) == 1:
        return "out"
    return "in" if len(set(pairs[:, 1])) == 1 else ""
