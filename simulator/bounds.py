"""What no schedule can beat on a machine, whatever the algorithm: latency, ports, and media that all must cross."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.collectives.collective import Collective
from topologies.routing import distances
from topologies.topology import Floats, Topology


class Bound(NamedTuple):
    """A lower limit on the time, in seconds, and what sets it."""

    name: str
    seconds: float


def bounds(collective: Collective, topology: Topology, workers: int, nbytes: float) -> list[Bound]:
    """Every bound on `collective` of `nbytes` (V) among the first `workers` ranks; other ranks may help.

    Without in-network reduction. Ports: what a rank must send or receive, through all its links; and what must be moved
    in all, through the links of all ranks together, so that a medium which many share (a bus) counts once.
    """
    leaving = port_groups(topology, topology.source)
    entering = port_groups(topology, topology.target)
    single_out = np.array([_capacity(topology, leaving[rank]) for rank in range(topology.ranks)])
    single_in = np.array([_capacity(topology, entering[rank]) for rank in range(topology.ranks)])
    volume = collective.volume(workers) * nbytes
    every = volume / min(_capacity(topology, sum(leaving, [])), _capacity(topology, sum(entering, [])))
    return [
        Bound("latency", _latency(collective, topology, workers)),
        Bound("injection port", collective.sends(workers) * nbytes / float(_ports_of(collective, single_out, workers).min())),
        Bound("ejection port", collective.receives(workers) * nbytes / float(_ports_of(collective, single_in, workers).min())),
        Bound("all ports", every),
    ]  # fmt: skip


def best_bound(collective: Collective, topology: Topology, workers: int, nbytes: float) -> Bound:
    """The highest of the bounds."""
    return max(bounds(collective, topology, workers, nbytes), key=lambda bound: bound.seconds)


def port_groups(topology: Topology, end: np.ndarray) -> list[list[int]]:
    """The links that start (or end) at the device of each rank."""
    links: dict[int, list[int]] = {}
    for link, device in enumerate(end.tolist()):
        links.setdefault(device, []).append(link)
    return [links.get(device, []) for device in topology.placement.tolist()]


def _ports_of(collective: Collective, capacity: Floats, workers: int) -> Floats:
    """A rooted collective spares its root, so only the slowest of the others counts."""
    return capacity[1:workers] if collective.name in ("reduce", "broadcast") else capacity[:workers]


def _capacity(topology: Topology, links: list[int]) -> float:
    """Bytes/s through `links` together: each counts at the most shared medium that it crosses, a medium counts once."""
    users: dict[int, int] = {}
    for link in links:
        for medium in topology.media_of(link).tolist():
            users[medium] = users.get(medium, 0) + 1
    bandwidth = topology.medium_bandwidth
    through: dict[int, float] = {}
    for link in links:
        media = topology.media_of(link).tolist()
        shared = max(media, key=lambda medium: (users[medium], -bandwidth[medium]))
        through[shared] = through.get(shared, 0.0) + float(bandwidth[media].min())
    return sum(min(float(bandwidth[medium]), rate) for medium, rate in through.items())


def _latency(collective: Collective, topology: Topology, workers: int) -> float:
    """The farthest two ranks between which data must travel."""
    least = distances(topology)[:workers, :workers]
    if collective.name == "reduce":
        return float(least[:, 0].max())
    if collective.name == "broadcast":
        return float(least[0].max())
    if collective.name == "send_recv":
        return float(np.diagonal(np.roll(least, -1, axis=1)).max())
    return float(least.max())
