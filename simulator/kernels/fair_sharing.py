"""The rules of time under max-min fair sharing.

All flows on a route have the same rate. Flows wait for their ends in the queue of their route,
rates come from the media that routes share, and the loop joins both. Where most of the time goes,
indices are unsigned: Numba need not look whether they count from the end.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from simulator.kernels.flows import Queues, Rates
from simulator.kernels.records import Csr, FlowRoutes, Index, Ints, Times, Turns, Work

COMPUTE = 0
_NONE = -1
_SAME = 1 + 1e-12
"""Shares of bandwidth within this factor are equal: rounding makes no differences between flows."""
_COARSE = 2.0**9 + 1


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
    time goes on, all flows that have to do with a marked medium get new rates.
    """
    route, nodes, indptr = work.routes.route, work.routes.nodes, work.routes.indptr
    nbytes, gap, media = work.operations.nbytes, routes.gap, routes.indptr
    ready, finish, start = times.ready, times.finish, times.start
    first, followers = successors.indptr, successors.indices
    solution, changed, seen, due = rates.solution, rates.changed, rates.seen, rates.due
    marked, solved, flows, active = rates.marked, rates.solved, queues.flows, queues.active
    ended = np.empty(len(route), np.int32)
    owner = np.empty(nodes[-1], np.int32)
    # of one type from the start
    arrivals, ends = [(0.0, np.int64(0))], [(0.0, np.int64(0), np.int64(0))]
    arrivals.clear()
    ends.clear()
    for i in range(len(route)):
        owner[nodes[i] : nodes[i + 1]] = i
        if waiting[i] == 0:
            heappush(arrivals, (gap[route[i]], np.int64(nodes[i])))
    marks: Index = 0
    done, number, now = 0, np.int64(0), 0.0
    while True:
        while len(ends) > 0 and solution[ends[0][1]] != ends[0][2]:
            heappop(ends)
        ending = len(ends) > 0 and (len(arrivals) == 0 or ends[0][0] <= arrivals[0][0])
        upcoming = ends[0][0] if ending else arrivals[0][0] if len(arrivals) > 0 else np.inf
        if marks > 0 and upcoming > now:
            before = number
            for k in range(marks):
                marked[changed[k]] = False
                if active[changed[k]] == 0 or seen[changed[k]] > before:
                    continue
                number += 1
                count, soonest = solve(rates, queues, routes, changed[k], now, number)
                for n in range(count):
                    if instant(now + due[n]) <= soonest:
                        heappush(ends, (soonest, np.int64(solved[n]), number))
            marks = 0
            continue
        if upcoming == np.inf:
            break
        now, count, transfers = upcoming, 0, True
        if ending:
            r = heappop(ends)[1]
            advance(queues, r, now)
            marks = mark(rates, routes, r, marks)
            while flows[r] > 0 and end_of_first(queues, r, now) <= now:
                ended[count] = end(queues, routes, r)
                count += 1
        else:
            node = heappop(arrivals)[1]
            i = owner[node]
            r = route[i]
            hops = indptr[r + 1] - indptr[r]
            transfers = node - nodes[i] < hops
            if not transfers:
                serve(work, times, lanes, i, node, now)
            else:
                start[node : node + hops] = now
                if nbytes[i] > 0.0 and media[r + 1] > media[r]:
                    begin(queues, routes, i, r, nbytes[i], now)
                    marks = mark(rates, routes, r, marks)
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


def serve(work: Work, times: Times, lanes: Turns, i: Index, node: Index, now: float) -> None:
    """Take a lane for a computation, or for the work at the end of a transfer."""
    operations, ranks = work.operations, work.ranks
    if operations.kind[i] == COMPUTE:
        lane = operations.rank[i] * (ranks.lanes + 1) + operations.lane[i]
        seconds = operations.seconds[i]
    else:
        peer = operations.peer[i]
        lane = peer * (ranks.lanes + 1) + ranks.lanes
        cost = ranks.reduction[peer] if operations.reduces[i] else ranks.copy[peer]
        seconds = operations.nbytes[i] * cost
    if lanes.free[lane] > now:
        times.cause[node] = lanes.holder[lane]
    times.start[node] = max(now, lanes.free[lane])
    times.finish[i] = times.start[node] + seconds
    lanes.free[lane], lanes.holder[lane] = times.finish[i], node


def merges(work: Work, routes: FlowRoutes, times: Times, i: Index, now: float) -> bool:
    """The last byte of a transfer is sent; returns whether it is to be merged where it arrives."""
    times.sent[i], times.finish[i] = now, now + routes.latency[work.routes.route[i]]
    if not work.operations.reduces[i]:
        return False
    peer = work.operations.peer[i]
    times.start[work.routes.nodes[i + 1] - 1] = times.finish[i]
    return bool(work.ranks.reduction[peer] > 0.0 or work.ranks.copy[peer] > 0.0)


# Queues: the flows of each route.


def instant(time: float) -> float:
    """A time to 44 bits: what ends together does so in spite of rounding."""
    wide = time * _COARSE
    return wide - (wide - time)


def end_of_first(queues: Queues, r: Index, now: float) -> float:
    """When the first flow of a route ends."""
    return instant(now + (queues.ahead[r] - queues.served[r]) / queues.rate[r])


def advance(queues: Queues, r: Index, now: float) -> None:
    """Count what a route has served until now."""
    queues.served[r] += queues.rate[r] * (now - queues.updated[r])
    queues.updated[r] = now


def occupy(queues: Queues, routes: FlowRoutes, r: Index) -> None:
    """A route is in use, its flows have had nothing yet."""
    queues.rate[r], queues.served[r] = 0.0, 0.0
    for e in range(routes.indptr[r], routes.indptr[r + 1]):
        m = routes.media[e]
        queues.busy[0] += queues.active[m] == 0
        place = queues.first[m] + queues.active[m]
        queues.place[e], queues.member[place], queues.entry[place] = place, r, e
        queues.active[m] += 1


def leave(queues: Queues, routes: FlowRoutes, r: Index) -> None:
    """A route is no longer in use: the last one across each medium takes its place."""
    for e in range(routes.indptr[r], routes.indptr[r + 1]):
        m, place = routes.media[e], queues.place[e]
        queues.active[m] -= 1
        queues.busy[0] -= queues.active[m] == 0
        last = queues.first[m] + queues.active[m]
        queues.member[place], queues.entry[place] = queues.member[last], queues.entry[last]
        queues.place[queues.entry[last]] = place


def begin(
    queues: Queues, routes: FlowRoutes, i: Index, r: Index, nbytes: float, now: float
) -> None:
    """Put a flow where it belongs among those of its route."""
    if queues.flows[r] == 0:
        occupy(queues, routes, r)
    advance(queues, r, now)
    queues.flows[r] += 1
    for e in range(routes.indptr[r], routes.indptr[r + 1]):
        queues.load[routes.media[e]] += 1
    threshold = queues.served[r] + nbytes
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


def end(queues: Queues, routes: FlowRoutes, r: Index) -> int:
    """Take the first flow of a route off; returns its operation."""
    i = queues.head[r]
    queues.head[r] = queues.later[i]
    queues.flows[r] -= 1
    for e in range(routes.indptr[r], routes.indptr[r + 1]):
        queues.load[routes.media[e]] -= 1
    if queues.flows[r] > 0:
        queues.earlier[queues.head[r]] = _NONE
        queues.ahead[r] = queues.threshold[queues.head[r]]
    else:
        queues.tail[r] = _NONE
        leave(queues, routes, r)
    return i


# Rates: what flows get of the media on their routes.


def mark(rates: Rates, routes: FlowRoutes, r: Index, marks: Index) -> Index:
    """The flows across the media of a route have changed; returns how many media are marked."""
    for e in range(routes.indptr[r], routes.indptr[r + 1]):
        m = routes.media[e]
        if not rates.marked[m]:
            rates.marked[m] = True
            rates.changed[marks] = m
            marks += 1
    return marks


def solve(
    rates: Rates, queues: Queues, routes: FlowRoutes, seed: Index, now: float, number: Index
) -> tuple[int, float]:
    """New rates for all flows that have to do with a medium; returns for how many routes, and when
    the first of the flows ends."""
    count = fill(rates, queues, routes, reach(rates, queues, routes, seed, number), now, number)
    soonest = np.inf
    for k in range(count):
        soonest = min(soonest, rates.due[k])
    return count, max(now, instant(now + soonest))


def reach(rates: Rates, queues: Queues, routes: FlowRoutes, seed: Index, number: Index) -> int:
    """The media that have to do with each other by way of flows; returns how many."""
    rates.reached[0], rates.seen[seed] = seed, number
    many, k = 1, 0
    while k < many and many < queues.busy[0]:
        m = rates.reached[k]
        for at in range(queues.first[m], queues.first[m] + queues.active[m]):
            r = queues.member[at]
            for e in range(routes.indptr[r], routes.indptr[r + 1]):
                if rates.seen[routes.media[e]] != number:
                    rates.seen[routes.media[e]] = number
                    rates.reached[many] = routes.media[e]
                    many += 1
        k += 1
    return many


def fill(
    rates: Rates, queues: Queues, routes: FlowRoutes, size: Index, now: float, number: Index
) -> int:
    """Rates by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2): the medium with
    the lowest share for each of its flows fixes them at it, and so on with what remains. Returns
    how many routes got a rate."""
    reached, spare, share, unfixed = rates.reached, rates.spare, rates.share, rates.unfixed
    for k in range(size):
        m = reached[k]
        spare[m], unfixed[m] = rates.bandwidth[m], queues.load[m]
        share[m] = rates.bandwidth[m] / queues.load[m]
    for k in range(size // 2 - 1, -1, -1):
        sink(rates, k, size)
    level, count = 0.0, 0
    while size > 0:
        m = reached[0]
        if unfixed[m] > 0 and spare[m] > share[m] * unfixed[m] * _SAME:
            share[m] = spare[m] / unfixed[m]
        elif unfixed[m] > 0:
            level = share[m] if share[m] > level * _SAME else level
            for at in range(queues.first[m], queues.first[m] + queues.active[m]):
                r = queues.member[at]
                if rates.solution[r] != number:
                    rates.solution[r] = number
                    fix(rates, queues, routes, r, level, now)
                    rates.solved[count] = r
                    rates.due[count] = (queues.ahead[r] - queues.served[r]) / level
                    count += 1
        else:
            size -= 1
            reached[0] = reached[size]
        sink(rates, 0, size)
    return count


def sink(rates: Rates, k: Index, size: Index) -> None:
    """Put the medium at k where it belongs in the heap of what is reached: the lowest share comes
    first."""
    reached, share = rates.reached, rates.share
    m, child = reached[k], 2 * k + 1
    while child < size:
        if child + 1 < size and share[reached[child + 1]] < share[reached[child]]:
            child += 1
        if share[reached[child]] >= share[m]:
            break
        reached[k] = reached[child]
        k, child = child, 2 * child + 1
    reached[k] = m


def fix(
    rates: Rates, queues: Queues, routes: FlowRoutes, r: Index, level: float, now: float
) -> None:
    """The flows of a route get a rate."""
    advance(queues, r, now)
    queues.rate[r] = level
    for e in range(routes.indptr[r], routes.indptr[r + 1]):
        rates.spare[routes.media[e]] -= level * queues.flows[r]
        rates.unfixed[routes.media[e]] -= queues.flows[r]
