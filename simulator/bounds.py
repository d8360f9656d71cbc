"""What no schedule can beat on a machine, whatever the algorithm: latency, ports, and media that all must cross."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np

from simulator.collectives.collective import Collective
from topologies.routing import distances
from topologies.topology import Ints, Topology

EXACT = 256
SWEEPS = 4


class Bound(NamedTuple):
    """A lower limit on the time, in seconds, and what sets it."""

    name: str
    seconds: float


def bounds(collective: Collective, topology: Topology, workers: int, nbytes: float) -> list[Bound]:
    """Every bound on `collective` of `nbytes` (V) among the first `workers` ranks; other ranks may help.

    Without in-network reduction. Ports: what a rank must send or receive, through all its links; and what must be moved
    in all, through the links of all ranks together, so that a medium which many share (a bus) counts once.
    """
    leaving, entering = (port_groups(topology, end) for end in (topology.source, topology.target))
    apart = _apart(collective, topology, workers)
    sends, receives, volume = (
        need(apart) * nbytes if apart > 1 else 0.0
        for need in (collective.sends, collective.receives, collective.volume)
    )
    narrowest = min(_capacity(topology, list(chain.from_iterable(links))) for links in (leaving, entering))
    return [
        Bound("latency", _latency(collective, topology, workers)),
        Bound("injection port", _seconds(sends, _slowest(collective, topology, leaving[:workers]))),
        Bound("ejection port", _seconds(receives, _slowest(collective, topology, entering[:workers]))),
        Bound("all ports", _seconds(volume, narrowest)),
    ]


def best_bound(collective: Collective, topology: Topology, workers: int, nbytes: float) -> Bound:
    """The highest of the bounds."""
    return max(bounds(collective, topology, workers, nbytes), key=lambda bound: bound.seconds)


def port_groups(topology: Topology, end: Ints) -> list[list[int]]:
    """The links that start (or end) at the device of each rank."""
    links: dict[int, list[int]] = {}
    for link, device in enumerate(end.tolist()):
        links.setdefault(device, []).append(link)
    return [links.get(device, []) for device in topology.placement.tolist()]


def _apart(collective: Collective, topology: Topology, workers: int) -> int:
    """Workers on devices of their own: what ranks on one device exchange needs no port."""
    devices = len(set(topology.placement[:workers].tolist()))
    relaxed = collective.name not in ("all_reduce", "reduce", "broadcast")
    return 1 if relaxed and devices < workers else devices


def _seconds(nbytes: float, bandwidth: float) -> float:
    if nbytes == 0:
        return 0.0
    return nbytes / bandwidth if bandwidth > 0 else np.inf


def _slowest(collective: Collective, topology: Topology, links: list[list[int]]) -> float:
    """Bytes/s of the slowest port; a rooted collective spares its root and who is on the same device."""
    rooted, device = collective.name in ("reduce", "broadcast"), topology.placement.tolist()
    ports = [port for rank, port in enumerate(links) if not (rooted and device[rank] == device[0])]
    return min((_capacity(topology, port) for port in ports), default=np.inf)


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
    """The farthest two ranks between which data must travel; beyond `EXACT` ranks the farthest found in turn."""
    ranks = np.arange(workers, dtype=np.int32)
    if collective.name == "broadcast":
        return float(distances(topology, ranks[:1])[0, :workers].max())
    if collective.name == "reduce":
        return float(distances(topology, ranks[: max(1, EXACT)])[:, 0].max())
    if collective.name == "send_recv":
        near = distances(topology, ranks[:EXACT])[:, :workers]
        return float(near[np.arange(len(near)), (np.arange(len(near)) + 1) % workers].max())
    if workers <= EXACT:
        return float(distances(topology, ranks)[:, :workers].max())
    farthest, source = 0.0, 0
    for _ in range(SWEEPS):
        row = distances(topology, np.array([source], dtype=np.int32))[0, :workers]
        farthest, source = max(farthest, float(row.max())), int(row.argmax())
    return farthest
