"""The levels of media, from nothing: progressive filling (Bertsekas and Gallager, Data Networks,
6.5.2).

The medium with the lowest share of bandwidth for each of its flows gets its level first, and limits
them all. Then the shares of others are found again. Each medium gets its level once, so this ends.
"""

from __future__ import annotations

import numpy as np

from simulator.kernels.flow_limits import attach, detach, forecast, lowest, progress, sift, watch
from simulator.kernels.flows import SAME, Queues, Rates
from simulator.kernels.records import FlowRoutes, Index


def fill(rates: Rates, queues: Queues, routes: FlowRoutes, now: float) -> None:
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
