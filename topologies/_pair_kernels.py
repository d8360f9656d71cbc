"""The shortest ways from one device to another, looked for from both ends at once: plain Python
that Numba compiles when there is much to do."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Annotated, NamedTuple

import numpy as np

from topologies._kernels import FAR, Bytes, Index, Ints, Longs, Ways

_BEFORE, _AFTER, _PLACE, _NEXT = 0, 1, 2, 3
"""The columns of the links that a search has followed: the device that a link leaves, the one that
it enters, its place in row 0 of the ways, and the next link by which a shortest way leaves the same
device, or -1."""


class Sides(NamedTuple):
    """What the searches from the start (row 0) and from the goal (row 1) know of each device."""

    ticks: Longs
    """Ticks between the device and the end, as far as is known."""
    hops: Longs
    """Links between the device and the end, as far as is known."""
    settled: Bytes
    """Whether no shorter way can exist, and the links of the device have been followed."""
    reached: Ints
    """The devices that have ticks."""
    used: Longs
    """The number of these devices, shape (2,)."""
    marks: Bytes
    """1 for a device that a shortest way from the start reaches, 2 if it leads on to the goal."""
    first: Longs
    """The first link by which a shortest way leaves each device, or -1: a place in both rows of the
    links that have been followed, one row after the other."""
    top: Longs
    """Ticks and hops of the next device of each search, shape (2, 2)."""
    best: Longs
    """Ticks and hops of the best way, shape (2,)."""


def between(
    ways: Ways, sources: Ints, targets: Ints, salts: Annotated[Longs, 2]
) -> tuple[Longs, Ints]:
    """The links from each source to its target: fewest ticks, then fewest hops, then as the salt
    says, as :func:`topologies._kernels.shortest` finds them.

    The search goes on from the end whose next device has fewer links, until both together have come
    as far as the best way. Then every link of every shortest way has been followed from one end or
    the other. Returns the routes in CSR form: a route without links does not exist.
    """
    devices = len(ways.node)
    sides = Sides(
        np.full((2, devices), FAR, np.int64),
        np.zeros((2, devices), np.int64),
        np.zeros((2, devices), np.int8),
        np.empty((2, devices), np.int32),
        np.zeros(2, np.int64),
        np.zeros(devices, np.int8),
        np.full(devices, -1, np.int64),
        np.zeros((2, 2), np.int64),
        np.zeros(2, np.int64),
    )
    best, steps, used = sides.best, np.empty((2, 64, 4), np.int64), np.zeros(2, np.int64)
    indptr, links, end = np.zeros(len(sources) + 1, np.int64), np.empty(64, np.int32), 0
    forward = [(np.int64(0), np.int64(0), np.int64(0))]
    backward = [(np.int64(0), np.int64(0), np.int64(0))]
    salt = np.zeros(3, np.int64)
    for pair in range(len(sources)):
        used[:], best[0], best[1] = 0, FAR, 0
        for side in range(2):
            heap, device = (forward if side == 0 else backward), targets[pair]
            if side == 0:
                device = sources[pair]
            reach(sides, side, device, 0, 0)
            heap.clear()
            heap.append((np.int64(0), np.int64(0), np.int64(device)))
        while True:
            for side in range(2):
                heap = forward if side == 0 else backward
                while len(heap) > 0 and sides.settled[side, heap[0][2]]:
                    heappop(heap)
                sides.top[side, 0] = heap[0][0] if len(heap) > 0 else FAR
                sides.top[side, 1] = heap[0][1] if len(heap) > 0 else 0
            if has_met(sides):
                break
            side = int(degree(ways, 1, backward[0][2]) < degree(ways, 0, forward[0][2]))
            heap = forward if side == 0 else backward
            ticks, hops, device = heap[0]
            sides.settled[side, device] = 1
            if used[side] + degree(ways, side, device) > steps.shape[1]:
                more = np.empty((2, 2 * (used[side] + degree(ways, side, device)), 4), np.int64)
                for number in range(2 * steps.shape[1]):
                    for column in range(4):
                        row, place = number // steps.shape[1], number % steps.shape[1]
                        more[row, place, column] = steps[row, place, column]
                steps = more
            for k in range(ways.indptr[side, device], ways.indptr[side, device + 1]):
                neighbor = ways.ends[side, k]
                total = ticks + ways.ticks[ways.places[side, k]]
                last = sources[pair] if side == 1 else targets[pair]
                if leads_on(ways, sides, side, device, neighbor, last, total, hops + 1):
                    follow(steps, side, used, device, neighbor, ways.places[side, k])
                    if is_nearer(sides, side, neighbor, total, hops + 1):
                        reach(sides, side, neighbor, total, hops + 1)
                        heappush(heap, (np.int64(total), np.int64(hops + 1), np.int64(neighbor)))
        if best[0] < FAR:
            if end + best[1] > len(links):
                longer = np.empty(2 * (end + best[1]), np.int32)
                for place in range(end):
                    longer[place] = links[place]
                links = longer
            mark(ways, sides, steps, used, sources[pair], targets[pair])
            crossed: Index = 0
            salt[:] = 0
            for _ in range(2):
                ends = sources[pair], targets[pair]
                crossed = walk(ways, sides, steps, ends, salt, crossed, links[end:])
                for part in range(3):
                    salt[part] = salts[pair, part]
            end += best[1]
        indptr[pair + 1] = end
        forget(sides)
    return indptr, links[:end].copy()


def degree(ways: Ways, side: Index, device: Index) -> int:
    """The number of links out of a device, or into it."""
    return int(ways.indptr[side, device + 1] - ways.indptr[side, device])


def reach(sides: Sides, side: Index, device: Index, ticks: Index, hops: Index) -> None:
    """A way between a device and the end of a side is the shortest yet; perhaps also the way over
    it from end to end."""
    if sides.ticks[side, device] == FAR:
        sides.reached[side, sides.used[side]] = device
        sides.used[side] += 1
    sides.ticks[side, device], sides.hops[side, device] = ticks, hops
    ticks = ticks + sides.ticks[1 - side, device]
    hops = hops + sides.hops[1 - side, device]
    if ticks < sides.best[0] or (ticks == sides.best[0] and hops < sides.best[1]):
        sides.best[0], sides.best[1] = ticks, hops


def has_met(sides: Sides) -> bool:
    """Whether no way that is still open is shorter than the best, and each device of a shortest way
    is as near as can be to one end."""
    top, best = sides.top, sides.best
    ticks = top[0, 0] + top[1, 0]
    return bool(ticks > best[0] or (ticks == best[0] and top[0, 1] + top[1, 1] >= best[1]))


def leads_on(
    ways: Ways,
    sides: Sides,
    side: Index,
    device: Index,
    neighbor: Index,
    last: Index,
    ticks: Index,
    hops: Index,
) -> bool:
    """Whether a link from a device to its `neighbor` can be part of a shortest way: the neighbor is
    the last, or has links besides that back, and the way is not longer than the best."""
    first = ways.indptr[side, neighbor]
    alone = ways.indptr[side, neighbor + 1] - first == 1 and ways.ends[side, first] == device
    if alone and neighbor != last:
        return False
    best = sides.best
    return bool(ticks < best[0] or (ticks == best[0] and hops <= best[1]))


def is_nearer(sides: Sides, side: Index, device: Index, ticks: Index, hops: Index) -> bool:
    """Whether a way between a device and the end of a side is the shortest yet."""
    known = sides.ticks[side, device]
    return bool(ticks < known or (ticks == known and hops < sides.hops[side, device]))


def follow(
    steps: Longs, side: Index, used: Longs, device: Index, neighbor: Index, place: Index
) -> None:
    """Write down a link between a device and another."""
    number = used[side]
    steps[side, number, _BEFORE + side], steps[side, number, _AFTER - side] = device, neighbor
    steps[side, number, _PLACE] = place
    used[side] += 1


def away(sides: Sides, device: Index) -> tuple[Index, Index]:
    """Ticks and hops from the start to a device of a shortest way."""
    ticks, hops, top = sides.ticks[0, device], sides.hops[0, device], sides.top
    if ticks < top[0, 0] or (ticks == top[0, 0] and hops <= top[0, 1]):
        return ticks, hops
    return sides.best[0] - sides.ticks[1, device], sides.best[1] - sides.hops[1, device]


def is_tight(ways: Ways, sides: Sides, steps: Longs, side: Index, number: Index) -> bool:
    """Whether a shortest way from the start to the end of this link crosses it, if one reaches its
    start. A link that was followed from both ends counts once."""
    before, after = steps[side, number, _BEFORE], steps[side, number, _AFTER]
    if side == 1 and sides.settled[0, before]:
        return False
    ticks, hops = away(sides, before)
    far_ticks, far_hops = away(sides, after)
    latency = ways.ticks[steps[side, number, _PLACE]]
    return bool(ticks + latency == far_ticks and hops + 1 == far_hops)


def mark(ways: Ways, sides: Sides, steps: Longs, used: Longs, source: Index, target: Index) -> None:
    """Mark the devices of all shortest ways, and list the links by which these leave them.

    The links from the start, and then those from the goal in reverse, come in the order of their
    distance from the start.
    """
    marks, both = sides.marks, used[0] + used[1]
    marks[source] = 1
    for k in range(both):
        side = int(k >= used[0])
        number = k if side == 0 else both - 1 - k
        before, after = steps[side, number, _BEFORE], steps[side, number, _AFTER]
        tight = marks[before] and is_tight(ways, sides, steps, side, number)
        steps[side, number, _NEXT] = int(tight)
        marks[after] |= tight
    marks[target] = 2
    for turn in range(2):
        for k in range(both):
            side = int(k < used[1])
            number = k if side == 1 else both - 1 - k
            if turn == 1:
                number = used[side] - 1 - (k if side == 1 else k - used[1])
            before, after = steps[side, number, _BEFORE], steps[side, number, _AFTER]
            tight = steps[side, number, _NEXT] and marks[after] == 2
            if tight and turn == 0:
                marks[before] = 2
            elif tight:
                insert(sides, steps, side, number)


def insert(sides: Sides, steps: Longs, side: Index, number: Index) -> None:
    """List a link among those that leave the same device, by their place."""
    device, place = steps[side, number, _BEFORE], steps[side, number, _PLACE]
    size = steps.shape[1]
    before, after = np.int64(-1), sides.first[device]
    while after >= 0 and steps[after // size, after % size, _PLACE] < place:
        before, after = after, steps[after // size, after % size, _NEXT]
    steps[side, number, _NEXT] = after
    if before < 0:
        sides.first[device] = side * size + number
    else:
        steps[before // size, before % size, _NEXT] = side * size + number


def walk(
    ways: Ways,
    sides: Sides,
    steps: Longs,
    ends: tuple[Index, Index],
    salt: Longs,
    switches: Index,
    links: Ints,
) -> Index:
    """Write the links of a route to `links`, as :func:`topologies._kernels.walk` does."""
    (device, target), crossed, hop, size = ends, 0, 0, steps.shape[1]
    while device != target:
        entry = 0 if ways.node[device] >= 0 else 1 if 2 * crossed >= switches - 1 else 2
        crossed += ways.node[device] < 0
        count, step = 0, sides.first[device]
        while step >= 0:
            count, step = count + 1, steps[step // size, step % size, _NEXT]
        step = sides.first[device]
        for _ in range(salt[entry] % count):
            step = steps[step // size, step % size, _NEXT]
        salt[entry] //= count
        links[hop] = ways.link[steps[step // size, step % size, _PLACE]]
        hop += 1
        device = steps[step // size, step % size, _AFTER]
    return crossed


def forget(sides: Sides) -> None:
    """Make ready for another pair."""
    for side in range(2):
        for k in range(sides.used[side]):
            device = sides.reached[side, k]
            sides.ticks[side, device], sides.hops[side, device] = FAR, 0
            sides.settled[side, device], sides.marks[device] = 0, 0
            sides.first[device] = -1
        sides.used[side] = 0
