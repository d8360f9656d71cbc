"""The shortest ways over the links of a topology, by a search from one end: plain Python that Numba
compiles when there is much to do.

A search from the target serves all sources of that target. For few sources of each target,
:mod:`topologies._pair_kernels` looks at far fewer devices. Measured: routes between all ranks of
256 GPUs take 5 times as long there, and a ring of 8,192 GPUs takes 200 times as long here.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]
Index = int | np.integer
FAR = np.int64(2**61)
"""More ticks than any way has, of which two can be added."""


class Ways(NamedTuple):
    """The links out of every device (row 0 of each column) and into every device (row 1), in the
    order in which a route chooses."""

    indptr: Annotated[Longs, 2]
    """The links of device d are those from `indptr[side, d]` to `indptr[side, d + 1]`."""
    ends: Annotated[Ints, 2]
    """The device at the other end of each of these links."""
    places: Annotated[Longs, 2]
    """Where each of these links stands in row 0."""
    ticks: Longs
    """The latency of the links of row 0."""
    link: Ints
    """The number of the links of row 0."""
    node: Ints
    """The node of each device, or -1."""


class Search(NamedTuple):
    """What the search from a target knows of each device."""

    ticks: Longs
    """Ticks to the target, as far as is known."""
    hops: Ints
    """Links to the target, as far as is known."""
    settled: Bytes
    """Whether no shorter way can exist."""
    wanted: Bytes
    """Whether a route begins at the device."""
    reached: Ints
    """The devices that have ticks, in the order in which they were reached."""
    used: Longs
    """The number of these devices, shape (1,)."""


def shortest(
    ways: Ways, targets: Ints, groups: Longs, sources: Ints, salts: Annotated[Longs, 2]
) -> tuple[Longs, Ints]:
    """The links from each source to its target: fewest ticks, then fewest hops, then as the salt
    says.

    The routes to `targets[g]` are those from `sources[groups[g] : groups[g + 1]]`. The salts, shape
    (routes, 3), choose among equal routes: on devices of a node, on the switches of the second half
    of the way between nodes, and on those of the first. Of n equally short ways the one numbered
    salt % n is taken, and the salt is divided by n. To know which salt counts on a switch, each
    route is walked twice. Returns the routes in CSR form: a route without links does not exist.
    """
    devices = len(ways.node)
    search = Search(
        np.full(devices, FAR, np.int64),
        np.zeros(devices, np.int32),
        np.zeros(devices, np.int8),
        np.zeros(devices, np.int8),
        np.empty(devices, np.int32),
        np.zeros(1, np.int64),
    )
    settled, hops = search.settled, search.hops
    indptr, links, end = np.zeros(len(sources) + 1, np.int64), np.empty(devices, np.int32), 0
    heap, salt = [(np.int64(0), np.int32(0), np.int32(0))], np.zeros(3, np.int64)
    for group in range(len(targets)):
        target, first, last = targets[group], groups[group], groups[group + 1]
        missing = want(search, sources, first, last)
        reach(search, target, np.int64(0), np.int32(0))
        heap.clear()
        heappush(heap, (np.int64(0), np.int32(0), np.int32(target)))
        while len(heap) > 0 and missing > 0:
            ticks, length, device = heappop(heap)
            if settled[device]:
                continue
            settled[device] = 1
            missing -= search.wanted[device]
            for k in range(ways.indptr[1, device], ways.indptr[1, device + 1]):
                before = ways.ends[1, k]
                total = ticks + ways.ticks[ways.places[1, k]]
                if is_nearer(ways, search, before, device, total, length + 1):
                    reach(search, before, total, length + 1)
                    heappush(heap, (np.int64(total), np.int32(length + 1), np.int32(before)))
        for k in range(first, last):
            search.wanted[sources[k]] = 0
            if settled[sources[k]]:
                if end + hops[sources[k]] > len(links):
                    longer = np.empty(2 * end + hops[sources[k]], np.int32)
                    for place in range(end):
                        longer[place] = links[place]
                    links = longer
                crossed: Index = 0
                salt[:] = 0
                for _ in range(2):
                    crossed = walk(ways, search, sources[k], target, salt, crossed, links, end)
                    for part in range(3):
                        salt[part] = salts[k, part]
                end += hops[sources[k]]
            indptr[k + 1] = end
        forget(search)
    return indptr, links[:end].copy()


def want(search: Search, sources: Ints, first: Index, last: Index) -> int:
    """Routes begin at `sources[first:last]`; returns at how many devices."""
    count = 0
    for k in range(first, last):
        count += search.wanted[sources[k]] == 0
        search.wanted[sources[k]] = 1
    return count


def is_nearer(
    ways: Ways, search: Search, before: Index, device: Index, ticks: Index, hops: Index
) -> bool:
    """Whether a way over `device` is the shortest yet from the device before it, and of use."""
    first = ways.indptr[1, before]
    alone = ways.indptr[1, before + 1] - first == 1 and ways.ends[1, first] == device
    if alone and search.wanted[before] == 0:
        return False  # nothing leads to the device before but from here
    known = search.ticks[before]
    return ticks < known or (ticks == known and hops < search.hops[before])


def reach(search: Search, device: Index, ticks: Index, hops: Index) -> None:
    """A way from a device is the shortest yet."""
    if search.ticks[device] == FAR:
        search.reached[search.used[0]] = device
        search.used[0] += 1
    search.ticks[device], search.hops[device] = ticks, hops


def forget(search: Search) -> None:
    """Make ready for another target."""
    for k in range(search.used[0]):
        search.ticks[search.reached[k]], search.settled[search.reached[k]] = FAR, 0
    search.used[0] = 0


def walk(
    ways: Ways,
    search: Search,
    source: Index,
    target: Index,
    salt: Longs,
    switches: Index,
    links: Ints,
    place: Index,
) -> Index:
    """Write the links of a route to `links[place]` and the entries after it.

    Returns the number of switches between nodes that the route crosses. `switches` is that number
    from an earlier walk: it decides which entry of `salt` counts on a switch. The salt is divided
    by the number of equally short ways at each device.
    """
    device, crossed = source, 0
    while device != target:
        entry = 0 if ways.node[device] >= 0 else 1 if 2 * crossed >= switches - 1 else 2
        crossed += ways.node[device] < 0
        step, count = place, 1
        # The first turn counts the ways, the second one finds the one that is chosen.
        for _ in range(2):
            step, count = way(ways, search, device, salt[entry] % count)
        salt[entry] //= count
        links[place] = ways.link[step]
        place += 1
        device = ways.ends[0, step]
    return crossed


def way(ways: Ways, search: Search, device: Index, number: Index) -> tuple[Index, int]:
    """Of the shortest ways from a device: the place of the first link of the one with this number,
    and how many ways there are."""
    chosen: Index = -1
    count = 0
    for k in range(ways.indptr[0, device], ways.indptr[0, device + 1]):
        after = ways.ends[0, k]
        nearer = search.settled[after] and search.hops[after] + 1 == search.hops[device]
        if nearer and search.ticks[after] + ways.ticks[k] == search.ticks[device]:
            if count == number:
                chosen = k
            count += 1
    return chosen, count


def distances(
    source: Ints, target: Ints, latency: Floats, starts: Ints, least: Annotated[Floats, 2]
) -> int:
    """Write the least latency over links from `source` to
    `target`, from each of `starts` to every device, into `least`, shape (starts,
    devices); inf where there is no way. Returns how many devices were looked at.

    The algorithm of Bellman, Ford and Moore: a device that has become nearer waits in a queue. Most
    devices of a regular machine are looked at once.
    """
    devices, looked = least.shape[1], 0
    indptr = np.zeros(devices + 1, np.int32)
    for link in range(len(source)):
        indptr[source[link] + 1] += 1
    for device in range(devices):
        indptr[device + 1] += indptr[device]
    filled, links = indptr[:-1].copy(), np.empty(len(source), np.int32)
    for link in range(len(source)):
        device = source[link]
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
                after = target[links[k]]
                total = least[row, device] + latency[links[k]]
                if total >= least[row, after]:
                    continue
                least[row, after] = total
                back = indptr[after]
                if indptr[after + 1] - back == 1 and target[links[back]] == device:
                    continue  # nothing lies beyond
                if waits[after] == 0:
                    queue[(first + count) % devices], waits[after] = after, 1
                    count += 1
    return looked
