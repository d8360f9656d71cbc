"""What media give to flows under max-min fair sharing.

A medium limits the flows of some routes: it gives its level to each of them, and no other medium of
their routes has a lower level. A medium counts the bytes that it serves to each flow that it
limits, so a new level changes one number, whatever the number of its flows. Only media whose flows
or neighbours have changed get new levels. Where most of the time goes, indices are unsigned: Numba
need not look whether they count from the end.
"""

from __future__ import annotations

import numpy as np

from simulator.kernels.flows import Heap, Queues, Rates
from simulator.kernels.records import FlowRoutes, Index

_SAME = 1 + 1e-12
"""Shares of bandwidth within this factor are equal: rounding makes no differences between flows."""
_COARSE = 2.0**9 + 1


def instant(time: float) -> float:
    """A time to 44 bits: what ends together does so in spite of rounding."""
    wide = time * _COARSE
    return wide - (wide - time)


# Limits: the medium that limits the flows of each route.


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
    rates.route[at], rates.other[at], rates.weight[at] = r, m, flows
    rates.due[at] = queues.ahead[r] - rates.offset[r]
    for e in range(routes.indptr[r], routes.indptr[r + 1]):
        other = routes.media[e]
        rates.load[other] += flows
        if other == m:
            rates.limited[m] += flows
            continue
        rates.taken[other] += level * flows
        rates.highest[other] = max(rates.highest[other], level)
        rates.other[at] = other if others == 0 else m
        others += 1


def detach(rates: Rates, queues: Queues, routes: FlowRoutes, r: Index) -> None:
    """Undo `attach`: the last route that the medium limits takes the place of this route."""
    m, flows = rates.limiter[r], queues.flows[r]
    level = rates.level[m]
    for e in range(routes.indptr[r], routes.indptr[r + 1]):
        rates.load[routes.media[e]] -= flows
        if routes.media[e] == m:
            rates.limited[m] -= flows
        else:
            rates.taken[routes.media[e]] -= level * flows
    rates.size[m] -= 1
    at, last = rates.slot[r], queues.first[m] + rates.size[m]
    rates.route[at], rates.other[at] = rates.route[last], rates.other[last]
    rates.weight[at], rates.due[at] = rates.weight[last], rates.due[last]
    rates.slot[rates.route[at]] = at


def move(rates: Rates, queues: Queues, routes: FlowRoutes, r: Index, m: Index, now: float) -> None:
    """Let another medium limit the flows of a route."""
    sent = progress(rates, r, now)
    detach(rates, queues, routes, r)
    attach(rates, queues, routes, r, m, sent, now)
    mark_route(rates, routes, r)


# Levels: what each medium gives to the flows that it limits.


def mark_route(rates: Rates, routes: FlowRoutes, r: Index) -> None:
    """The flows across the media of a route have changed."""
    for e in range(routes.indptr[r], routes.indptr[r + 1]):
        mark(rates, routes.media[e])


def mark(rates: Rates, m: Index) -> None:
    """The level of a medium is to be found anew."""
    if not rates.marked[m]:
        rates.marked[m] = True
        rates.changed.items[rates.marks[0]] = m
        rates.changed.key[m] = estimate(rates, m)
        rates.marks[0] += 1
        sift(rates.changed, rates.marks[0], rates.marks[0] - 1)


def estimate(rates: Rates, m: Index) -> float:
    """About the level that a medium will have: the lowest levels are found first."""
    if rates.limited[m] == 0:
        return rates.highest[m]
    level = (rates.bandwidth[m] - rates.taken[m]) / rates.limited[m]
    return min(level, rates.level[m]) if rates.level[m] > 0.0 else level


def solve(rates: Rates, queues: Queues, routes: FlowRoutes, now: float) -> None:
    """Find new levels for all marked media, and for others as far as levels change."""
    for k in range(rates.marks[0] - 1, -1, -1):
        rates.changed.key[rates.changed.items[k]] = estimate(rates, rates.changed.items[k])
        sift(rates.changed, rates.marks[0], k)
    while rates.marks[0] > 0:
        m, last = rates.changed.items[0], rates.marks[0] - 1
        rates.changed.items[0], rates.marks[0], rates.marked[m] = (
            rates.changed.items[last],
            last,
            False,
        )
        sift(rates.changed, last, 0)
        settle(rates, queues, routes, m, now)
        time = np.inf
        if rates.limited[m] > 0:
            advance(rates, m, now)
            left = rates.soonest[m] - rates.served[m]
            time = max(now, instant(now + left / rates.level[m]))
        expect(rates, m, time)


def settle(rates: Rates, queues: Queues, routes: FlowRoutes, m: Index, now: float) -> None:
    """Give a medium the level at which it is full, if the levels of all others stay."""
    claims = False
    while True:
        level = share(rates, m)
        if level * _SAME < rates.highest[m]:
            claims |= claim(rates, queues, routes, m, level, now)
            continue
        rates.soonest[m] = np.inf
        if rates.limited[m] == 0:
            rates.level[m] = np.inf
            break
        if not claims and abs(level - rates.level[m]) <= level * (_SAME - 1.0):
            for at in range(queues.first[m], queues.first[m] + rates.size[m]):
                rates.soonest[m] = min(rates.soonest[m], rates.due[at])
            break
        advance(rates, m, now)
        conflicts = spread(rates, queues, routes, m, level, claims)
        for k in range(conflicts):
            r = rates.conflicts[k]
            move(rates, queues, routes, r, slowest(rates, routes, r), now)
        if conflicts == 0:
            break
        claims = False


def share(rates: Rates, m: Index) -> float:
    """Bytes/s of a medium for each flow that it limits, as far as the others leave some."""
    bandwidth, limited = rates.bandwidth[m], rates.limited[m]
    if rates.load[m] == limited:
        rates.taken[m], rates.highest[m] = 0.0, 0.0
    if limited == 0 and rates.taken[m] <= bandwidth * _SAME:
        return np.inf
    level, highest = bandwidth / rates.load[m], rates.highest[m]
    if limited > 0:
        level = max(level, (bandwidth - rates.taken[m]) / limited)
    return highest if level <= highest * _SAME and highest <= level * _SAME else level


def claim(
    rates: Rates, queues: Queues, routes: FlowRoutes, m: Index, level: float, now: float
) -> bool:
    """Let a medium limit all its flows that are faster than a level; returns whether any are."""
    taken, highest, claims = 0.0, 0.0, False
    for at in range(queues.first[m], queues.first[m] + queues.active[m]):
        r = queues.member[at]
        if rates.limiter[r] == m:
            continue
        rate = rates.level[rates.limiter[r]]
        if rate > level * _SAME:
            move(rates, queues, routes, r, m, now)
            claims = True
        else:
            taken += rate * queues.flows[r]
            highest = max(highest, rate)
    rates.taken[m], rates.highest[m] = taken, highest
    return claims


def spread(
    rates: Rates, queues: Queues, routes: FlowRoutes, m: Index, level: float, claims: bool
) -> int:
    """Set the level of a medium, and what its flows take of others; returns how many routes are in
    conflict: another of their media has a lower level."""
    change, conflicts, soonest = level - rates.level[m], 0, np.inf
    rising = claims or change > 0.0
    rates.level[m] = level
    for at in range(queues.first[m], queues.first[m] + rates.size[m]):
        other, rate, conflict = rates.other[at], change * rates.weight[at], False
        soonest = min(soonest, rates.due[at])
        if other != m:
            conflict = take(rates, other, rate, level, rising)
        else:
            r = rates.route[at]
            for e in range(routes.indptr[r], routes.indptr[r + 1]):
                if routes.media[e] != m:
                    conflict |= take(rates, routes.media[e], rate, level, rising)
        if conflict:
            rates.conflicts[conflicts] = rates.route[at]
            conflicts += 1
    rates.soonest[m] = soonest
    return conflicts


def take(rates: Rates, m: Index, rate: float, level: float, rising: bool) -> bool:
    """Let flows with the level of another medium take more of a medium; returns whether its level
    is lower."""
    rates.taken[m] += rate
    lower = rising and 0.0 < rates.level[m] * _SAME < level
    if rising and not lower:
        rates.highest[m] = max(rates.highest[m], level)
    if not rates.marked[m] and (
        rates.limited[m] > 0 or rates.taken[m] > rates.bandwidth[m] * _SAME
    ):
        mark(rates, m)
    return lower


def slowest(rates: Rates, routes: FlowRoutes, r: Index) -> int:
    """The medium of a route with the lowest level."""
    slow = rates.limiter[r]
    for e in range(routes.indptr[r], routes.indptr[r + 1]):
        if 0.0 < rates.level[routes.media[e]] < rates.level[slow]:
            slow = routes.media[e]
    return slow


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
