"""Distances in latency: plain Python that Numba compiles when there is much to do."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


class Edges(NamedTuple):
    """Links, in any order."""

    source: Ints
    target: Ints
    latency: Floats


def distances(edges: Edges, starts: Ints, least: Annotated[Floats, 2]) -> int:
    """Write the least latency from each of `starts` to every device into `least`, shape (starts,
    devices); inf where there is no way. Returns how many devices were looked at.

    The algorithm of Bellman, Ford and Moore: a device that has become nearer waits in a queue. Most
    devices of a regular machine are looked at once.
    """
    devices, looked = least.shape[1], 0
    indptr = np.zeros(devices + 1, np.int32)
    for link in range(len(edges.source)):
        indptr[edges.source[link] + 1] += 1
    for device in range(devices):
        indptr[device + 1] += indptr[device]
    filled, links = indptr[:-1].copy(), np.empty(len(edges.source), np.int32)
    for link in range(len(edges.source)):
        device = edges.source[link]
        links[filled[device]] = link
        filled[device] += 1
    queue, waits = np.empty(devices, np.int32), np.zeros(devices, np.int8)
    for row in range(len(starts)):
        for device in range(devices):
            least[row, device] = np.inf
        least[row, starts[row]] = 0.0
        queue[0], first, count = starts[row], 0, 1
        while count > 0:
            device = queue[first]
            first, count, looked = (first + 1) % devices, count - 1, looked + 1
            waits[device] = 0
            for k in range(indptr[device], indptr[device + 1]):
                target = edges.target[links[k]]
                total = least[row, device] + edges.latency[links[k]]
                if total >= least[row, target]:
                    continue
                least[row, target] = total
                back = indptr[target]
                if indptr[target + 1] - back == 1 and edges.target[links[back]] == device:
                    continue  # nothing lies beyond
                if waits[target] == 0:
                    queue[(first + count) % devices], waits[target] = target, 1
                    count += 1
    return looked
