"""Loops over the links of a topology: plain Python that Numba compiles when there is much to do."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]
Index = int | np.integer
_FAR = np.int64(2**62)


class Graph(NamedTuple):
    """The links of every device, both ways, in device order."""

    entering: Longs
    """The links into device d are those of `before[entering[d] : entering[d + 1]]`."""
    before: Annotated[Longs, 2]
    """The device that each of these links leaves, and the place of the link in `after`."""
    leaving: Longs
    """The links out of device d are those of `after[leaving[d] : leaving[d + 1]]`."""
    after: Ints
    """The device that each of these links enters."""
    link: Ints
    """The number of each of these links."""
    ticks: Longs
    """The latency of each of these links."""
    node: Ints
    """The node of each device, or -1."""


class Pairs(NamedTuple):
    """The ends of routes, by their targets."""

    targets: Ints
    groups: Longs
    """The routes to `targets[g]` are those from `sources[groups[g] : groups[g + 1]]`."""
    sources: Ints
    salts: Annotated[Longs, 2]
    """What chooses among equal routes: on devices of a node, on the switches of the second half of
    the way between nodes, and on those of the first; shape (routes, 3)."""


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


def shortest(graph: Graph, pairs: Pairs) -> tuple[Longs, Ints]:
    """The links from each source to its target: fewest ticks, then fewest hops, then as the salt
    says.

    Of n equally short ways the one numbered salt % n is taken, and the salt is divided by n. To
    know which salt counts on a switch, each route is walked twice. Returns the routes in CSR form:
    a route without links does not exist.
    """
    devices, sources = len(graph.node), pairs.sources
    search = Search(
        np.full(devices, _FAR, np.int64),
        np.zeros(devices, np.int32),
        np.zeros(devices, np.int8),
        np.zeros(devices, np.int8),
        np.empty(devices, np.int32),
        np.zeros(1, np.int64),
    )
    settled, hops = search.settled, search.hops
    indptr, links, end = np.zeros(len(sources) + 1, np.int64), np.empty(devices, np.int32), 0
    heap, salt = [(np.int64(0), np.int32(0), np.int32(0))], np.zeros(3, np.int64)
    for group in range(len(pairs.targets)):
        target, first, last = pairs.targets[group], pairs.groups[group], pairs.groups[group + 1]
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
            for k in range(graph.entering[device], graph.entering[device + 1]):
                before = graph.before[k, 0]
                total = ticks + graph.ticks[graph.before[k, 1]]
                if is_nearer(graph, search, before, device, total, length + 1):
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
                    crossed = walk(graph, search, sources[k], target, salt, crossed, links, end)
                    for part in range(3):
                        salt[part] = pairs.salts[k, part]
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
    graph: Graph, search: Search, before: Index, device: Index, ticks: Index, hops: Index
) -> bool:
    """Whether a way over `device` is the shortest yet from the device before it, and of use."""
    first = graph.entering[before]
    alone = graph.entering[before + 1] - first == 1 and graph.before[first, 0] == device
    if alone and search.wanted[before] == 0:
        return False  # nothing leads to the device before but from here
    known = search.ticks[before]
    return ticks < known or (ticks == known and hops < search.hops[before])


def reach(search: Search, device: Index, ticks: Index, hops: Index) -> None:
    """A way from a device is the shortest yet."""
    if search.ticks[device] == _FAR:
        search.reached[search.used[0]] = device
        search.used[0] += 1
    search.ticks[device], search.hops[device] = ticks, hops


def forget(search: Search) -> None:
    """Make ready for another target."""
    for k in range(search.used[0]):
        search.ticks[search.reached[k]], search.settled[search.reached[k]] = _FAR, 0
    search.used[0] = 0


def walk(
    graph: Graph,
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
        entry = 0 if graph.node[device] >= 0 else 1 if 2 * crossed >= switches - 1 else 2
        crossed += graph.node[device] < 0
        step, ways = place, 1
        for _ in range(2):
            step, ways = way(graph, search, device, salt[entry] % ways)
        salt[entry] //= ways
        links[place] = graph.link[step]
        place += 1
        device = graph.after[step]
    return crossed


def way(graph: Graph, search: Search, device: Index, number: Index) -> tuple[Index, int]:
    """Of the shortest ways from a device: the place of the first link of the one with this number,
    and how many ways there are."""
    chosen: Index = -1
    count = 0
    for k in range(graph.leaving[device], graph.leaving[device + 1]):
        after = graph.after[k]
        nearer = search.settled[after] and search.hops[after] + 1 == search.hops[device]
        if nearer and search.ticks[after] + graph.ticks[k] == search.ticks[device]:
            if count == number:
                chosen = k
            count += 1
    return chosen, count
