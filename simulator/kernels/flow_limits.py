"""The medium that limits the flows of each route, what it has served to them, and when they end."""

from __future__ import annotations

import numpy as np

from simulator.kernels.flows import SAME, Heap, Queues, Rates
from simulator.kernels.records import FlowRoutes, Index

_COARSE = 2.0**9 + 1
_DRIFT = 1e-11 / (2.5 * 2.0**-52)
"""Rounding changes `Rates.taken` by at most 2.5 units in the last place of each value that it had,
and may change it by 1e-11 of the bandwidth."""


def instant(time: float) -> float:
    """A time to 44 bits: what ends together does so in spite of rounding."""
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
