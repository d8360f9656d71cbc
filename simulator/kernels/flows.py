"""What the loop of fair sharing remembers of flows, their routes and their media: the medium that
limits the flows of each route, what it has served to them, and when they end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.kernels.records import SAME, Floats, FlowRoutes, Index, Ints, Unsigned

_NONE = -1


class Heap(NamedTuple):
    """Items in the order of a heap: that with the lowest key comes first."""

    items: Unsigned
    key: Floats
    """The key of each item."""
    slot: Ints
    """Where in `items` each item is."""

    @classmethod
    def of(cls, count: int) -> Heap:
        """Items with the highest of keys."""
        items = np.arange(count, dtype=np.uint32)
        return cls(items, np.full(count, np.inf), items.astype(np.int32))


class Queues(NamedTuple):
    """The flows of each route, in the order in which they end, and the routes in use across each
    medium: m has `member[first[m] : first[m] + active[m]]`."""

    threshold: Floats
    """The bytes that its route has served when the flow of each operation ends."""
    earlier: Ints
    """The flow before that of each operation, or -1."""
    later: Ints
    """The flow after it, or -1."""
    head: Ints
    """The first flow of each route, or -1."""
    tail: Ints
    """The last flow of each route, or -1."""
    flows: Ints
    """The number of flows of each route."""
    ahead: Floats
    """The threshold of the first flow of each route."""
    first: Unsigned
    member: Unsigned
    entry: Unsigned
    """The place of each member in `FlowRoutes.media`."""
    place: Unsigned
    """Where in `member` the route of each place in `FlowRoutes.media` is."""
    active: Unsigned
    """The number of routes in use across each medium."""

    @classmethod
    def idle(cls, operations: int, routes: FlowRoutes, media: int) -> Queues:
        """No flow on any route."""
        count, first = len(routes.gap), np.zeros(media + 1, np.uint32)
        np.cumsum(np.bincount(routes.media, minlength=media), out=first[1:])
        return cls(
            threshold=np.zeros(operations),
            earlier=np.full(operations, _NONE, np.int32),
            later=np.full(operations, _NONE, np.int32),
            head=np.full(count, _NONE, np.int32),
            tail=np.full(count, _NONE, np.int32),
            flows=np.zeros(count, np.int32),
            ahead=np.zeros(count),
            first=first,
            member=np.zeros_like(routes.media),
            entry=np.zeros_like(routes.media),
            place=np.zeros_like(routes.media),
            active=np.zeros(media, np.uint32),
        )


class Rates(NamedTuple):
    """Which medium limits the flows of each route, and the level of each medium: what it gives to
    each flow that it limits.

    Medium m limits `route[first[m] : first[m] + size[m]]`, with `Queues.first`.
    """

    bandwidth: Floats
    level: Floats
    """Bytes/s of each flow that a medium limits: infinite where it limits none, and 0 until it is
    known."""
    load: Ints
    """The number of flows across each medium, as often as they cross it."""
    limited: Ints
    """The number of those that it limits."""
    taken: Floats
    """Bytes/s of the others."""
    drift: Floats
    """The sum of all values of `taken` since it was added up: what rounding may have changed."""
    highest: Floats
    """None of the others has more bytes/s."""
    served: Floats
    """The bytes that a medium has served to each flow since it limits any."""
    updated: Floats
    """When `served` was counted."""
    soonest: Floats
    """The lowest `due` of each medium, when its level is found."""
    size: Unsigned
    """The number of routes that each medium limits."""
    route: Unsigned
    second: Unsigned
    """The second medium of each of these routes, or m if there is not exactly one."""
    weight: Ints
    """The flows of each of these routes."""
    due: Floats
    """What the medium has served when the first flow of each of these routes ends."""
    limiter: Unsigned
    """The medium that limits the flows of each route."""
    slot: Unsigned
    """Where in `route` each route is."""
    offset: Floats
    """The bytes that each flow of a route has had, less those `served` by its medium."""
    conflicts: Unsigned
    """Routes that another medium is to limit, because it has a lower level."""
    ends: Heap
    """All media, by the time when the first flow ends that each limits."""
    changed: Heap
    """The media whose levels are to be found, by about what they will be."""
    marked: npt.NDArray[np.bool_]
    """Whether each medium is among these, or its level is being found."""
    alarm: Floats
    """A medium is to be marked when its `taken` becomes larger: infinite if it is marked, its
    bandwidth if it limits no flow, else minus infinity."""
    marks: Ints
    """The number of these, shape (1,)."""
    solves: Ints
    """How often levels were found, shape (1,)."""
    solved: Ints
    """The last of these times for each medium."""
    growing: Ints
    """Flows across each medium that have no rate yet, while all levels are found from nothing."""
    grid: Floats
    """Flows end at multiples of so many seconds, or at any time if it is 0; shape (1,)."""
    excess: Floats
    """The bytes that each route has sent too many because of the grid; below 0: too few."""

    @classmethod
    def blank(cls, routes: FlowRoutes, bandwidth: Floats, grid: float = 0.0) -> Rates:
        """No flow on any route."""
        count, media = len(routes.gap), len(bandwidth)
        return cls(
            bandwidth=bandwidth,
            level=np.full(media, np.inf),
            load=np.zeros(media, np.int32),
            limited=np.zeros(media, np.int32),
            taken=np.zeros(media),
            drift=np.zeros(media),
            highest=np.zeros(media),
            served=np.zeros(media),
            updated=np.zeros(media),
            soonest=np.zeros(media),
            size=np.zeros(media, np.uint32),
            route=np.zeros_like(routes.media),
            second=np.zeros_like(routes.media),
            weight=np.zeros(len(routes.media), np.int32),
            due=np.zeros(len(routes.media)),
            limiter=np.zeros(count, np.uint32),
            slot=np.zeros(count, np.uint32),
            offset=np.zeros(count),
            conflicts=np.zeros(count, np.uint32),
            ends=Heap.of(media),
            changed=Heap.of(media),
            marked=np.zeros(media, np.bool_),
            alarm=bandwidth * SAME,
            marks=np.zeros(1, np.int32),
            solves=np.zeros(1, np.int32),
            solved=np.zeros(media, np.int32),
            growing=np.zeros(media, np.int32),
            grid=np.full(1, grid),
            excess=np.zeros(count),
        )


_COARSE = 2.0**9 + 1
_DRIFT = 1e-11 / (2.5 * 2.0**-52)
"""Rounding changes `Rates.taken` by at most 2.5 units in the last place of each value that it had,
and may change it by 1e-11 of the bandwidth."""


def instant(time: float) -> float:
    """A time to 44 bits (Veltkamp's split): flows that end together do so in spite of rounding."""
    wide = time * _COARSE
    return wide - (wide - time)


def ending(rates: Rates, time: float) -> float:
    """When a flow ends that has sent its last byte at a time: at the nearest point of the grid, if
    there is one."""
    grid = rates.grid[0]
    if grid > 0.0:
        return float(np.ceil(time / grid - 0.5) * grid)
    return instant(time)


def advance(rates: Rates, m: Index, now: float) -> None:
    """Count the bytes that a medium has served until now to each flow that it limits."""
    if rates.limited[m] > 0:
        rates.served[m] += rates.level[m] * (now - rates.updated[m])
    else:
        rates.served[m] = 0.0
    rates.updated[m] = now


def progress(rates: Rates, r: Index, now: float) -> float:
    """The bytes that each flow of a route has sent since the route was idle."""
    advance(rates, rates.limiter[r], now)
    return float(rates.offset[r] + rates.served[rates.limiter[r]])


def attach(
    rates: Rates, queues: Queues, routes: FlowRoutes, r: Index, m: Index, sent: float, now: float
) -> None:
    """Let a medium limit the flows of a route, each of which has sent so many bytes."""
    advance(rates, m, now)
    if rates.level[m] == np.inf:
        rates.level[m] = 0.0
    flows, level, others = queues.flows[r], rates.level[m], 0
    at = queues.first[m] + rates.size[m]
    rates.limiter[r], rates.offset[r], rates.slot[r] = m, sent - rates.served[m], at
    rates.size[m] += 1
    rates.route[at], rates.second[at], rates.weight[at] = r, m, flows
    rates.due[at] = queues.ahead[r] - rates.offset[r]
    for e in range(routes.indptr[r], routes.indptr[r + 1]):
        medium = routes.media[e]
        rates.load[medium] += flows
        if medium == m:
            rates.limited[m] += flows
            watch(rates, m)
            continue
        rates.taken[medium] += level * flows
        rates.drift[medium] += abs(rates.taken[medium])
        rates.highest[medium] = max(rates.highest[medium], level)
        rates.second[at] = medium if others == 0 else m
        others += 1


def detach(rates: Rates, queues: Queues, routes: FlowRoutes, r: Index) -> None:
    """Undo `attach`: the last route that the medium limits takes the place of this route."""
    m, flows = rates.limiter[r], queues.flows[r]
    level = rates.level[m]
    for e in range(routes.indptr[r], routes.indptr[r + 1]):
        medium = routes.media[e]
        rates.load[medium] -= flows
        if medium == m:
            rates.limited[m] -= flows
            watch(rates, m)
        else:
            rates.drift[medium] += abs(rates.taken[medium])
            rates.taken[medium] -= level * flows
    rates.size[m] -= 1
    at, last = rates.slot[r], queues.first[m] + rates.size[m]
    rates.route[at], rates.second[at] = rates.route[last], rates.second[last]
    rates.weight[at], rates.due[at] = rates.weight[last], rates.due[last]
    rates.slot[rates.route[at]] = at


def watch(rates: Rates, m: Index) -> None:
    """Set the alarm of a medium."""
    if rates.marked[m]:
        rates.alarm[m] = np.inf
    elif rates.limited[m] > 0:
        rates.alarm[m] = -np.inf
    else:
        rates.alarm[m] = rates.bandwidth[m] * SAME


def drifts(rates: Rates, m: Index) -> bool:
    """Whether what the others take of a medium is to be added up again, because it was rounded too
    often."""
    return bool(rates.drift[m] > _DRIFT * rates.bandwidth[m])


# Heaps: the next medium whose level is to be found, or whose flow ends.


def lowest(rates: Rates) -> Index:
    """Take the medium with the lowest key from those in the heap. It stays marked."""
    heap, last = rates.changed, rates.marks[0] - 1
    m = heap.items[0]
    heap.items[0], rates.marks[0] = heap.items[last], last
    sift(heap, last, 0)
    return m


def forecast(rates: Rates, m: Index, now: float) -> None:
    """A medium has its level: expect the first end of the flows that it limits."""
    time = np.inf
    rates.marked[m] = False
    watch(rates, m)
    if rates.limited[m] > 0:
        advance(rates, m, now)
        left = rates.soonest[m] - rates.served[m]
        time = max(now, ending(rates, now + left / rates.level[m]))
    expect(rates, m, time)


def expect(rates: Rates, m: Index, time: float) -> None:
    """Set the time when the first of the flows ends that a medium limits."""
    rates.ends.key[m] = time
    sift(rates.ends, len(rates.ends.items), rates.ends.slot[m])


def sift(heap: Heap, size: Index, k: Index) -> None:
    """Put an item where its key belongs among `size` items: the lowest key comes first."""
    items, key, slot = heap.items, heap.key, heap.slot
    item = items[k]
    while k > 0 and key[item] < key[items[(k - 1) >> 1]]:
        items[k] = items[(k - 1) >> 1]
        slot[items[k]] = k
        k = (k - 1) >> 1
    child = 2 * k + 1
    while child < size:
        if child + 1 < size and key[items[child + 1]] < key[items[child]]:
            child += 1
        if key[items[child]] >= key[item]:
            break
        items[k] = items[child]
        slot[items[k]] = k
        k, child = child, 2 * child + 1
    items[k], slot[item] = item, k
