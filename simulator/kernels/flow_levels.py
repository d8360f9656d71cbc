"""What media give to flows under max-min fair sharing.

A medium limits the flows of some routes: it gives its level to each of them, and no other medium of
their routes has a lower level. A medium counts the bytes that it serves to each flow that it
limits, so a new level changes one number, whatever the number of its flows. Only media whose flows
or neighbours have changed get new levels. Where most of the time goes, indices are unsigned: Numba
need not look whether they count from the end.

Nobody has proved that levels come to rest in this way. So each medium has a number of steps. When
they are used up, all levels are found from nothing, in at most one step for each medium: by
progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2). The medium with the lowest share
of bandwidth for each of its flows gets its level first, and limits them all. Then the shares of
others are found again.
"""

from __future__ import annotations

import numpy as np

from simulator.kernels.flows import (
    Queues,
    Rates,
    advance,
    attach,
    detach,
    drifts,
    forecast,
    lowest,
    progress,
    sift,
    watch,
)
from simulator.kernels.records import SAME, FlowRoutes, Index

_STEPS = 16
"""Steps that each medium adds to those in which levels come to rest: few need more than three."""


def move(rates: Rates, queues: Queues, routes: FlowRoutes, r: Index, m: Index, now: float) -> None:
    """Let another medium limit the flows of a route."""
    mark(rates, rates.limiter[r])
    sent = progress(rates, r, now)
    detach(rates, queues, routes, r)
    attach(rates, queues, routes, r, m, sent, now)
    mark_route(rates, routes, r)


# Levels: what each medium gives to the flows that it limits.


def mark_route(rates: Rates, routes: FlowRoutes, r: Index) -> None:
    """The flows across the media of a route have changed: mark those that limit flows or carry too
    much."""
    for e in range(routes.indptr[r], routes.indptr[r + 1]):
        m = routes.media[e]
        if rates.taken[m] > rates.alarm[m]:
            mark(rates, m)


def mark(rates: Rates, m: Index) -> None:
    """The level of a medium is to be found anew."""
    if not rates.marked[m]:
        rates.marked[m] = True
        watch(rates, m)
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
    rates.solves[0] += 1
    checked = rates.solves[0] % len(rates.level)
    if drifts(rates, checked):
        mark(rates, checked)
    steps = 0
    while rates.marks[0] > 0:
        m = lowest(rates)
        if rates.solved[m] != rates.solves[0]:
            rates.solved[m] = rates.solves[0]
            steps += _STEPS
        steps -= settle(rates, queues, routes, m, now, steps)
        if steps < 0:
            rates.marked[m] = False
            mark(rates, m)
            fill_levels(rates, queues, routes, now)
        else:
            forecast(rates, m, now)


def settle(
    rates: Rates, queues: Queues, routes: FlowRoutes, m: Index, now: float, steps: int
) -> int:
    """Give a medium the level at which it is full, if the levels of all others stay. Returns the
    number of steps that this took, or one more than `steps` if it takes more."""
    claims = False
    if drifts(rates, m):
        claim(rates, queues, routes, m, np.inf, now)
    for step in range(1, steps + 1):
        level = share(rates, m)
        if level * SAME < rates.highest[m]:
            claims |= claim(rates, queues, routes, m, level, now)
            continue
        rates.soonest[m] = np.inf
        if rates.limited[m] == 0:
            rates.level[m] = np.inf
            return step
        if not claims and abs(level - rates.level[m]) <= level * (SAME - 1.0):
            for at in range(queues.first[m], queues.first[m] + rates.size[m]):
                rates.soonest[m] = min(rates.soonest[m], rates.due[at])
            return step
        advance(rates, m, now)
        conflicts = spread(rates, queues, routes, m, level, claims)
        for k in range(conflicts):
            r = rates.conflicts[k]
            move(rates, queues, routes, r, slowest(rates, routes, r), now)
        if conflicts == 0:
            return step
        claims = False
    return steps + 1


def share(rates: Rates, m: Index) -> float:
    """Bytes/s of a medium for each flow that it limits, as far as the others leave some."""
    bandwidth, limited = rates.bandwidth[m], rates.limited[m]
    if rates.load[m] == limited:
        rates.taken[m], rates.highest[m], rates.drift[m] = 0.0, 0.0, 0.0
    if limited == 0 and rates.taken[m] <= bandwidth * SAME:
        return np.inf
    level, highest = bandwidth / rates.load[m], rates.highest[m]
    if limited > 0:
        level = max(level, (bandwidth - rates.taken[m]) / limited)
    return highest if level <= highest * SAME and highest <= level * SAME else level


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
        if rate > level * SAME:
            move(rates, queues, routes, r, m, now)
            claims = True
        else:
            taken += rate * queues.flows[r]
            highest = max(highest, rate)
    rates.taken[m], rates.highest[m], rates.drift[m] = taken, highest, 0.0
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
        second, rate, conflict = rates.second[at], change * rates.weight[at], False
        soonest = min(soonest, rates.due[at])
        if second != m:
            conflict = take(rates, second, rate, level, rising)
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
    rates.drift[m] += abs(rates.taken[m])
    lower = rising and 0.0 < rates.level[m] * SAME < level
    if rising and not lower:
        rates.highest[m] = max(rates.highest[m], level)
    if rates.taken[m] > rates.alarm[m]:
        mark(rates, m)
    return lower


def slowest(rates: Rates, routes: FlowRoutes, r: Index) -> int:
    """The medium of a route with the lowest level."""
    slow = rates.limiter[r]
    for e in range(routes.indptr[r], routes.indptr[r + 1]):
        if 0.0 < rates.level[routes.media[e]] < rates.level[slow]:
            slow = routes.media[e]
    return slow


# Levels from nothing: progressive filling.


def fill_levels(rates: Rates, queues: Queues, routes: FlowRoutes, now: float) -> None:
    """Find the levels of all marked media, and of all that flows connect with them."""
    connect(rates, queues, routes)
    for k in range(rates.marks[0]):
        free(rates, queues, routes, rates.changed.items[k], now)
    for k in range(rates.marks[0]):
        m = rates.changed.items[k]
        rates.level[m], rates.served[m], rates.updated[m] = 0.0, 0.0, now
        rates.taken[m], rates.highest[m], rates.drift[m] = 0.0, 0.0, 0.0
        rates.changed.slot[m] = k
        weigh(rates, m)
        sift(rates.changed, k + 1, k)
    level = 0.0
    while rates.marks[0] > 0:
        m = lowest(rates)
        if not rates.changed.key[m] <= level * SAME:
            level = rates.changed.key[m]
        rates.level[m] = level
        limit(rates, queues, routes, m, now)
        forecast(rates, m, now)


def connect(rates: Rates, queues: Queues, routes: FlowRoutes) -> None:
    """Mark all media that flows connect with those that are marked, in no order."""
    k = 0
    while k < rates.marks[0]:
        m = rates.changed.items[k]
        for at in range(queues.first[m], queues.first[m] + queues.active[m]):
            r = queues.member[at]
            for e in range(routes.indptr[r], routes.indptr[r + 1]):
                medium = routes.media[e]
                if not rates.marked[medium]:
                    rates.marked[medium] = True
                    watch(rates, medium)
                    rates.changed.items[rates.marks[0]] = medium
                    rates.marks[0] += 1
        k += 1


def free(rates: Rates, queues: Queues, routes: FlowRoutes, m: Index, now: float) -> None:
    """Take the limits from all flows across a medium, and count them. The offset of a route without
    a limit is what each of its flows has sent."""
    rates.growing[m] = 0
    for at in range(queues.first[m], queues.first[m] + queues.active[m]):
        r = queues.member[at]
        rates.growing[m] += queues.flows[r]
        if limits(rates, r):
            sent = progress(rates, r, now)
            detach(rates, queues, routes, r)
            rates.offset[r], rates.limiter[r] = sent, len(rates.level)


def limits(rates: Rates, r: Index) -> bool:
    """Whether a medium limits the flows of a route."""
    return bool(rates.limiter[r] < len(rates.level))


def weigh(rates: Rates, m: Index) -> None:
    """Find the share of a medium for each flow that has no rate yet."""
    rates.changed.key[m] = np.inf
    if rates.growing[m] > 0:
        rates.changed.key[m] = (rates.bandwidth[m] - rates.taken[m]) / rates.growing[m]


def limit(rates: Rates, queues: Queues, routes: FlowRoutes, m: Index, now: float) -> None:
    """Let a medium limit all its flows that have no rate yet."""
    rates.soonest[m] = np.inf
    for at in range(queues.first[m], queues.first[m] + queues.active[m]):
        r = queues.member[at]
        if limits(rates, r):
            continue
        attach(rates, queues, routes, r, m, rates.offset[r], now)
        rates.soonest[m] = min(rates.soonest[m], rates.due[rates.slot[r]])
        for e in range(routes.indptr[r], routes.indptr[r + 1]):
            medium = routes.media[e]
            rates.growing[medium] -= queues.flows[r]
            if rates.marked[medium]:
                weigh(rates, medium)
                sift(rates.changed, rates.marks[0], rates.changed.slot[medium])
