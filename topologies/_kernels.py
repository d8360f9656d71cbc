"""The shortest ways over the links of a topology: plain Python that Numba compiles when there is
much to do.

A search from a target serves all sources of that target. For a source alone there is a second
search, from the source, until both have met. Measured: routes between all ranks of 256 GPUs take 5
times as long source by source, and a ring of 8,192 GPUs takes 200 times as long from the targets
alone.
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

    indptr: Annotated[Ints, 2]
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
    """What the searches from a source (row 0) and from the target (row 1) know of each device."""

    ticks: Longs
    """Ticks between the device and the end, as far as is known."""
    hops: Ints
    """Links between the device and the end, as far as is known."""
    settled: Bytes
    """Whether no shorter way can exist."""
    wanted: Bytes
    """Whether a route has its other end at the device."""
    reached: Ints
    """The devices that have ticks, in the order in which they were reached."""
    used: Longs
    """The number of these devices, shape (2,)."""
    best: Longs
    """Ticks and hops of the shortest way between the ends of both searches, as far as is known,
    shape (2,)."""


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
        np.full((2, devices), FAR, np.int64),
        np.zeros((2, devices), np.int32),
        np.zeros((2, devices), np.int8),
        np.zeros((2, devices), np.int8),
        np.empty((2, devices), np.int32),
        np.zeros(2, np.int64),
        np.full(2, FAR, np.int64),
    )
    hops, order = search.hops, np.empty(devices + 1, np.int32)
    indptr, links, end = np.zeros(len(sources) + 1, np.int64), np.empty(64, np.int32), 0
    forward = [(np.int64(0), np.int32(0), np.int32(0))]
    backward = [(np.int64(0), np.int32(0), np.int32(0))]
    salt = np.zeros(3, np.int64)
    for group in range(len(targets)):
        target, first, last = targets[group], groups[group], groups[group + 1]
        missing = want(search, sources, first, last)
        forward.clear()
        backward.clear()
        backward.append((np.int64(0), np.int32(0), np.int32(target)))
        reach(search, 1, target, np.int64(0), np.int32(0))
        alone, passed = last - first == 1, 0
        if alone:
            search.wanted[0, target] = 1
            forward.append((np.int64(0), np.int32(0), np.int32(sources[first])))
            reach(search, 0, sources[first], np.int64(0), np.int32(0))
        while missing > 0 and len(backward) > 0:
            side = 1
            if alone:
                if len(forward) == 0 or has_met(search, forward[0], backward[0]):
                    break
                side -= degree(ways, 0, forward[0][2]) <= degree(ways, 1, backward[0][2])
            heap = backward if side == 1 else forward
            ticks, length, device = heappop(heap)
            if search.settled[side, device]:
                continue
            search.settled[side, device] = 1
            missing -= side * search.wanted[1, device]
            order[passed], passed = device, passed + 1 - side
            for k in range(ways.indptr[side, device], ways.indptr[side, device + 1]):
                peer = ways.ends[side, k]
                total = ticks + ways.ticks[ways.places[side, k]]
                if is_nearer(ways, search, side, peer, device, total, length + 1):
                    reach(search, side, peer, total, length + 1)
                    heappush(heap, (np.int64(total), np.int32(length + 1), np.int32(peer)))
        join(ways, search, order, passed)
        for k in range(first, last):
            search.wanted[1, sources[k]] = 0
            if search.ticks[1, sources[k]] < FAR:
                if end + hops[1, sources[k]] > len(links):
                    longer = np.empty(2 * end + hops[1, sources[k]], np.int32)
                    for place in range(end):
                        longer[place] = links[place]
                    links = longer
                crossed: Index = 0
                salt[:] = 0
                for _ in range(2):
                    crossed = walk(ways, search, sources[k], target, salt, crossed, links, end)
                    for part in range(3):
                        salt[part] = salts[k, part]
                end += hops[1, sources[k]]
            indptr[k + 1] = end
        search.wanted[0, target] = 0
        forget(search)
    return indptr, links[:end].copy()


def want(search: Search, sources: Ints, first: Index, last: Index) -> int:
    """Routes begin at `sources[first:last]`; returns at how many devices."""
    count = 0
    for k in range(first, last):
        count += search.wanted[1, sources[k]] == 0
        search.wanted[1, sources[k]] = 1
    return count


def degree(ways: Ways, side: Index, device: Index) -> int:
    """The number of links out of a device, or into it."""
    return ways.indptr[side, device + 1] - ways.indptr[side, device]


def has_met(
    search: Search, near: tuple[Index, Index, Index], far: tuple[Index, Index, Index]
) -> bool:
    """Whether no way over the next devices of both searches is shorter than the best. Then each
    device of a shortest way is as near as can be to one end."""
    ticks, hops = near[0] + far[0], near[1] + far[1]
    return ticks > search.best[0] or (ticks == search.best[0] and hops >= search.best[1])


def join(ways: Ways, search: Search, order: Ints, passed: Index) -> None:
    """Tell the devices of shortest ways that the search from a source has passed, in this order,
    how far they are from the target."""
    best = search.best
    for number in range(passed - 1, -1, -1):
        device = order[number]
        ticks, hops = best[0] - search.ticks[0, device], best[1] - search.hops[0, device]
        for k in range(ways.indptr[0, device], ways.indptr[0, device + 1]):
            after = ways.ends[0, k]
            nearer = search.hops[1, after] + 1 == hops
            if nearer and search.ticks[1, after] + ways.ticks[k] == ticks:
                reach(search, 1, device, ticks, hops)
                break


def is_nearer(
    ways: Ways,
    search: Search,
    side: Index,
    peer: Index,
    device: Index,
    ticks: Index,
    hops: Index,
) -> bool:
    """Whether a way over `device` is the shortest yet between its peer and the end, and of use."""
    first = ways.indptr[side, peer]
    alone = ways.indptr[side, peer + 1] - first == 1 and ways.ends[side, first] == device
    if alone and search.wanted[side, peer] == 0:
        return False  # nothing else leads to or from the peer
    known = search.ticks[side, peer]
    return ticks < known or (ticks == known and hops < search.hops[side, peer])


def reach(search: Search, side: Index, device: Index, ticks: Index, hops: Index) -> None:
    """A way between a device and the end of a side is the shortest yet; perhaps also the way over
    it from end to end."""
    if search.ticks[side, device] == FAR:
        search.reached[side, search.used[side]] = device
        search.used[side] += 1
    search.ticks[side, device], search.hops[side, device] = ticks, hops
    ticks, hops = ticks + search.ticks[1 - side, device], hops + search.hops[1 - side, device]
    best = search.best
    if ticks < best[0] or (ticks == best[0] and hops < best[1]):
        best[0], best[1] = ticks, hops


def forget(search: Search) -> None:
    """Make ready for another target."""
    for side in range(2):
        for k in range(search.used[side]):
            device = search.reached[side, k]
            search.ticks[side, device], search.hops[side, device] = FAR, 0
            search.settled[side, device] = 0
        search.used[side] = 0
    search.best[:] = FAR


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
        nearer = search.hops[1, after] + 1 == search.hops[1, device]
        if nearer and search.ticks[1, after] + ways.ticks[k] == search.ticks[1, device]:
            if count == number:
                chosen = k
            count += 1
    return chosen, count


def distances(
    indptr: Ints, ends: Ints, latency: Floats, starts: Ints, least: Annotated[Floats, 2]
) -> None:
    """Write the least latency from each of `starts` to every device into `least`, shape (starts,
    devices); inf where there is no way. The links of device d are those from `indptr[d]` to
    `indptr[d + 1]`, and lead to `ends`.

    The algorithm of Bellman, Ford and Moore: a device that has become nearer waits in a queue. Most
    devices of a regular machine are looked at once.
    """
    devices = least.shape[1]
    queue, waits = np.empty(devices, np.int32), np.zeros(devices, np.int8)
    for row in range(len(starts)):
        for device in range(devices):
            least[row, device] = np.inf
        least[row, starts[row]] = 0.0
        queue[0], first, count = starts[row], 0, 1
        while count > 0:
            device = queue[first]
            first, count = (first + 1) % devices, count - 1
            waits[device] = 0
            for link in range(indptr[device], indptr[device + 1]):
                after, total = ends[link], least[row, device] + latency[link]
                if total >= least[row, after]:
                    continue
                least[row, after] = total
                back = indptr[after]
                if indptr[after + 1] - back == 1 and ends[back] == device:
                    continue  # nothing lies beyond
                if waits[after] == 0:
                    queue[(first + count) % devices], waits[after] = after, 1
                    count += 1
