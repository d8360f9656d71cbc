"""A machine as bandwidths between nodes: its devices, and two nodes for each medium that links
share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from topologies.topology import Floats, Topology

Longs = npt.NDArray[np.int64]


class Wiring(NamedTuple):
    """Bandwidths between nodes."""

    bandwidth: Floats
    """Bytes/s from node to node, shape (nodes, nodes). The devices are the first nodes."""
    divided: bool
    """Whether each link has an equal part of the media that it shares, because a path through the
    nodes of these media would not be a link."""


def wiring(topology: Topology) -> Wiring:
    """The bandwidths of a machine.

    >>> from topologies.shapes import line
    >>> wiring(line(2, bandwidth=1.0)).bandwidth.tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    shared = _shared(topology)
    if _is_complete(topology, shared):
        return Wiring(_through_media(topology, shared), divided=False)
    users = np.bincount(topology.link_media, minlength=len(topology.medium_bandwidth))
    part = (topology.medium_bandwidth / np.maximum(users, 1))[topology.link_media]
    bandwidth = np.zeros((len(topology.device_names),) * 2)
    bandwidth[topology.source, topology.target] = np.minimum.reduceat(
        part, topology.link_indptr[:-1]
    )
    return Wiring(bandwidth, divided=True)


def _shared(topology: Topology) -> list[list[int]]:
    """The shared media of each link: first those that few sources use, last those that few targets
    use."""
    users: dict[int, tuple[set[int], set[int]]] = {}
    crossed = [topology.media_of(link)[1:].tolist() for link in range(topology.links)]
    ends = zip(topology.source.tolist(), topology.target.tolist(), strict=True)
    for media, pair in zip(crossed, ends, strict=True):
        for medium in media:
            for devices, device in zip(users.setdefault(medium, (set(), set())), pair, strict=True):
                devices.add(device)
    spread = {medium: len(senders) - len(others) for medium, (senders, others) in users.items()}
    return [sorted(media, key=lambda medium: spread[medium]) for media in crossed]


def _is_complete(topology: Topology, shared: list[list[int]]) -> bool:
    """Whether what enters a medium on one link may leave it to the end of any other."""
    crossing: dict[int, set[tuple[int, int]]] = {}
    ends = zip(topology.source.tolist(), topology.target.tolist(), strict=True)
    for media, pair in zip(shared, ends, strict=True):
        for medium in media:
            crossing.setdefault(medium, set()).add(pair)
    return all(
        (sender, receiver) in pairs or sender == receiver
        for pairs in crossing.values()
        for sender in {sender for sender, _ in pairs}
        for receiver in {receiver for _, receiver in pairs}
    )


def _through_media(topology: Topology, shared: list[list[int]]) -> Floats:
    devices, links = len(topology.device_names), topology.links
    media = len(topology.shared_names)
    bandwidth = np.zeros((devices + 2 * media,) * 2)
    first = devices + 2 * np.arange(media)
    bandwidth[first, first + 1] = topology.medium_bandwidth[links:]
    for link, crossed in enumerate(shared):
        stops = [devices + 2 * (medium - links) for medium in crossed]
        tails = [int(topology.source[link]), *(stop + 1 for stop in stops)]
        heads = [*stops, int(topology.target[link])]
        bandwidth[tails[0], heads[0]] += topology.medium_bandwidth[link]
        for tail, head in zip(tails[1:], heads[1:], strict=True):
            bandwidth[tail, head] = np.inf
    return bandwidth
