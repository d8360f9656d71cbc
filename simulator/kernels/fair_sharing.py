"""The rules of time under max-min fair sharing: the loop over events, and the queues of flows.

All flows on a route have the same rate, and wait for their ends in the queue of their route. The
loop joins the queues with the levels of media (:mod:`simulator.kernels.flow_levels`).
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from simulator.kernels.first_come import occupy_lane
from simulator.kernels.flow_levels import mark, mark_route, solve
from simulator.kernels.flows import Queues, Rates, advance, attach, detach, ending, expect, progress
from simulator.kernels.records import Csr, FlowRoutes, Index, Ints, Times, Turns, Work

STUCK = -1
"""What `simulate` returns if no time or no flow comes next. Its arithmetic excludes both."""
_NONE = -1


def simulate(
    work: Work,
    waiting: Ints,
    successors: Csr,
    routes: FlowRoutes,
    times: Times,
    queues: Queues,
    rates: Rates,
    lanes: Turns,
) -> int:
    """As `first_come.simulate`, with flows.

    A flow ends when its route has served its threshold. What starts or ends marks its media. Before
    time goes on, the marked media get new levels, and so do others as far as levels change.

    The loop ends, whatever is rounded. An operation arrives at most twice, and its flow ends once.
    Each event takes an arrival or ends a flow. Levels are found at most once before each event, in
    a limited number of steps.
    """
    route, nodes, indptr = work.routes.route, work.routes.nodes, work.routes.indptr
    nbytes, gap, media = work.operations.nbytes, routes.gap, routes.indptr
    ready, finish, start = times.ready, times.finish, times.start
    first, followers = successors.indptr, successors.indices
    ends = rates.ends
    ended = np.empty(len(route), np.int32)
    owner = np.empty(nodes[-1], np.int32)
    arrivals = [(0.0, np.int64(0))]  # of one type from the start
    arrivals.clear()
    for i in range(len(route)):
        owner[nodes[i] : nodes[i + 1]] = i
        if waiting[i] == 0:
            heappush(arrivals, (gap[route[i]], np.int64(nodes[i])))
    done, now = 0, 0.0
    while True:
        arrival = arrivals[0][0] if len(arrivals) > 0 else np.inf
        expiry = ends.key[ends.items[0]] if len(ends.items) > 0 else np.inf
        ending, upcoming = expiry <= arrival, min(expiry, arrival)
        if rates.marks[0] > 0 and upcoming > now:
            solve(rates, queues, routes, now)
            continue
        if upcoming == np.inf:
            break
        if not upcoming >= now:
            return STUCK
        now, count, transfers = upcoming, 0, True
        if ending:
            count = end_flows(rates, queues, routes, ends.items[0], now, ended)
            if count == 0:
                return STUCK
        else:
            node = heappop(arrivals)[1]
            i = owner[node]
            r = route[i]
            hops = indptr[r + 1] - indptr[r]
            transfers = node - nodes[i] < hops
            if not transfers:
                occupy_lane(work, times, lanes, i, node, now)
            else:
                start[node : node + hops] = now
                if nbytes[i] > 0.0 and media[r + 1] > media[r]:
                    start_flow(rates, queues, routes, i, r, nbytes[i], now)
                    continue
            ended[0], count = i, 1
        for n in range(count):
            i = ended[n]
            if transfers and merges(work, routes, times, i, now):
                heappush(arrivals, (finish[i], np.int64(nodes[i + 1] - 1)))
                continue
            done += 1
            for k in range(first[i], first[i + 1]):
                j = followers[k]
                ready[j] = max(ready[j], finish[i])
                waiting[j] -= 1
                if waiting[j] == 0:
                    heappush(arrivals, (ready[j] + gap[route[j]], np.int64(nodes[j])))
    return done


def merges(work: Work, routes: FlowRoutes, times: Times, i: Index, now: float) -> bool:
    """The last byte of a transfer is sent; returns whether it is to be merged where it arrives."""
    times.sent[i], times.finish[i] = now, now + routes.latency[work.routes.route[i]]
    if not work.operations.reduces[i]:
        return False
    peer = work.operations.peer[i]
    times.start[work.routes.nodes[i + 1] - 1] = times.finish[i]
    return bool(work.ranks.reduction[peer] > 0.0 or work.ranks.copy[peer] > 0.0)


# Flows: what starts and ends.


def start_flow(
    rates: Rates, queues: Queues, routes: FlowRoutes, i: Index, r: Index, size: float, now: float
) -> None:
    """Start the flow of an operation on a route."""
    if queues.flows[r] > 0:
        m, sent = rates.limiter[r], progress(rates, r, now)
        detach(rates, queues, routes, r)
    else:
        m, sent = routes.media[routes.indptr[r]], 0.0
        occupy(queues, routes, r)
    begin(queues, i, r, sent + size)
    attach(rates, queues, routes, r, m, sent, now)
    mark_route(rates, routes, r)


def end_flows(
    rates: Rates, queues: Queues, routes: FlowRoutes, m: Index, now: float, ends: Ints
) -> int:
    """End the flows that a medium limits and that end now, the next of them in any case. Returns
    how many end."""
    count, first, soonest = 0, queues.first[m], np.inf
    advance(rates, m, now)
    expect(rates, m, np.inf)
    mark(rates, m)
    for at in range(first, first + rates.size[m]):
        soonest = min(soonest, rates.due[at])
    for k in range(rates.size[m], 0, -1):
        r, level, due = rates.route[first + k - 1], rates.level[m], rates.due[first + k - 1]
        if due > soonest and ending(rates, now + (due - rates.served[m]) / level) > now:
            continue
        sent = progress(rates, r, now)
        detach(rates, queues, routes, r)
        exceed(rates, queues, r, sent)
        ends[count] = end(queues, r)
        count += 1
        while queues.flows[r] > 0 and ending(rates, now + (queues.ahead[r] - sent) / level) <= now:
            exceed(rates, queues, r, sent)
            ends[count] = end(queues, r)
            count += 1
        if queues.flows[r] > 0:
            attach(rates, queues, routes, r, m, sent, now)
        else:
            leave(queues, routes, r)
        mark_route(rates, routes, r)
    return count


def exceed(rates: Rates, queues: Queues, r: Index, sent: float) -> None:
    """Count the bytes that the first flow of a route sends too many, if it ends now on a grid."""
    if rates.grid[0] > 0.0:
        rates.excess[r] += sent - queues.ahead[r]


# Queues: the flows of each route.


def occupy(queues: Queues, routes: FlowRoutes, r: Index) -> None:
    """A route is in use."""
    for e in range(routes.indptr[r], routes.indptr[r + 1]):
        m = routes.media[e]
        place = queues.first[m] + queues.active[m]
        queues.place[e], queues.member[place], queues.entry[place] = place, r, e
        queues.active[m] += 1


def leave(queues: Queues, routes: FlowRoutes, r: Index) -> None:
    """A route is no longer in use: the last one across each medium takes its place."""
    for e in range(routes.indptr[r], routes.indptr[r + 1]):
        m, place = routes.media[e], queues.place[e]
        queues.active[m] -= 1
        last = queues.first[m] + queues.active[m]
        queues.member[place], queues.entry[place] = queues.member[last], queues.entry[last]
        queues.place[queues.entry[last]] = place


def begin(queues: Queues, i: Index, r: Index, threshold: float) -> None:
    """Put a flow where it belongs among those of its route."""
    queues.flows[r] += 1
    queues.threshold[i] = threshold
    before = queues.tail[r]
    while before >= 0 and queues.threshold[before] > threshold:
        before = queues.earlier[before]
    after = queues.later[before] if before >= 0 else queues.head[r]
    queues.earlier[i], queues.later[i] = before, after
    if before >= 0:
        queues.later[before] = i
    else:
        queues.head[r], queues.ahead[r] = i, threshold
    if after >= 0:
        queues.earlier[after] = i
    else:
        queues.tail[r] = i


def end(queues: Queues, r: Index) -> int:
    """Take the first flow of a route off; returns its operation."""
    i = queues.head[r]
    queues.head[r] = queues.later[i]
    queues.flows[r] -= 1
    if queues.flows[r] > 0:
        queues.earlier[queues.head[r]] = _NONE
        queues.ahead[r] = queues.threshold[queues.head[r]]
    else:
        queues.tail[r] = _NONE
    return i
