"""The rules of time under max-min fair sharing, in the subset of Python that Numba
compiles.

Inner functions become part of the loop when it is compiled. They change arrays and lists, and no
variable of it. Where most of the time goes indices are unsigned: Numba need not look whether they
count from the end.
"""

from heapq import heappop, heappush

import numpy as np

COMPUTE = 0
_NONE = -1
_SAME = 1 + 1e-12
"""Shares of bandwidth within this factor are equal: rounding makes no differences between flows."""
_COARSE = 2.0**9 + 1


def simulate(
    kind, rank, peer, nbytes, seconds, lane, reduces, pending, successor_indptr, successors,
    route, route_indptr, route_gap, route_latency, indptr, media, bandwidth, reduction, copy, lanes,
    node_indptr,
):  # fmt: skip
    """As `first_come.simulate`, with flows; returns besides when the last byte of each operation
    was sent.

    All flows on a route have one rate, and `served[r]` is what each has had since the route was
    idle: a flow ends when that reaches its threshold. What starts or ends marks its media. Before
    time goes on, all flows that have to do with a marked medium get new rates by progressive
    filling (Bertsekas and Gallager, Data Networks, 6.5.2): the medium with the lowest share for
    each of its flows fixes them at it, and so on with what remains.
    """
    operations, nodes, routes, mediums = len(kind), node_indptr[-1], len(route_gap), len(bandwidth)
    ready, finish, sent = np.zeros(operations), np.zeros(operations), np.zeros(operations)
    start, cause = np.zeros(nodes), np.full(nodes, _NONE, np.int32)
    serials = len(reduction) * (lanes + 1)
    lane_free, lane_holder = np.zeros(serials), np.full(serials, _NONE, np.int32)
    waiting = pending.copy()
    owner = np.empty(nodes, np.int32)
    for i in range(operations):
        owner[node_indptr[i] : node_indptr[i + 1]] = i

    # The flows of a route: a list in order of threshold, `ahead` the lowest.
    threshold = np.zeros(operations)
    earlier, later = np.full(operations, _NONE, np.int32), np.full(operations, _NONE, np.int32)
    head, tail = np.full(routes, _NONE, np.int32), np.full(routes, _NONE, np.int32)
    flows, solution = np.zeros(routes, np.int32), np.zeros(routes, np.int64)
    rate, served, updated, ahead = (
        np.zeros(routes),
        np.zeros(routes),
        np.zeros(routes),
        np.zeros(routes),
    )

    # The routes in use across a medium are `member[first[m] : first[m] + active[m]]`, put there by
    # `entry` of `media`.
    first = np.zeros(mediums + 1, np.int32)
    for e in range(len(media)):
        first[media[e] + 1] += 1
    for m in range(mediums):
        first[m + 1] += first[m]
    member, entry, place = np.zeros_like(media), np.zeros_like(media), np.zeros_like(media)
    active, load, busy = (
        np.zeros(mediums, np.int32),
        np.zeros(mediums, np.int32),
        np.zeros(1, np.int32),
    )

    # What a solution works on.
    marked, changed = np.zeros(mediums, np.bool_), np.zeros(mediums, np.uint32)
    reached, seen = np.zeros(mediums, np.uint32), np.zeros(mediums, np.int64)
    spare, share, unfixed = np.zeros(mediums), np.zeros(mediums), np.zeros(mediums, np.int32)
    solved, due = np.zeros(routes, np.uint32), np.zeros(routes)

    # Heaps, of one type from the start: (time, node) and (time, route, solution).
    arrivals, ends = [(0.0, np.int64(0))], [(0.0, np.int64(0), np.int64(0))]
    arrivals.clear()
    ends.clear()

    def instant(time):
        """A time to 44 bits: what ends together does so in spite of rounding."""
        wide = time * _COARSE
        return wide - (wide - time)

    def mark(r, marks):
        """The shares of the media of a route have changed; returns how many have."""
        for e in range(indptr[r], indptr[r + 1]):
            if not marked[media[e]]:
                marked[media[e]] = True
                changed[marks] = media[e]
                marks += 1
        return marks

    def advance(r, now):
        """Count what a route has served until now."""
        served[r] += rate[r] * (now - updated[r])
        updated[r] = now

    def occupy(r):
        """A route is in use, its flows have had nothing yet."""
        rate[r], served[r] = 0.0, 0.0
        for e in range(indptr[r], indptr[r + 1]):
            m = media[e]
            busy[0] += active[m] == 0
            place[e] = first[m] + active[m]
            member[place[e]], entry[place[e]] = r, e
            active[m] += 1

    def leave(r):
        """A route is no longer in use: the last one across each medium takes its place."""
        for e in range(indptr[r], indptr[r + 1]):
            m = media[e]
            active[m] -= 1
            busy[0] -= active[m] == 0
            last = first[m] + active[m]
            member[place[e]], entry[place[e]] = member[last], entry[last]
            place[entry[last]] = place[e]

    def begin(i, r, now):
        """Put a flow where it belongs among those of its route."""
        if flows[r] == 0:
            occupy(r)
        advance(r, now)
        flows[r] += 1
        for e in range(indptr[r], indptr[r + 1]):
            load[media[e]] += 1
        threshold[i] = served[r] + nbytes[i]
        before = tail[r]
        while before >= 0 and threshold[before] > threshold[i]:
            before = earlier[before]
        after = later[before] if before >= 0 else head[r]
        earlier[i], later[i] = before, after
        if before >= 0:
            later[before] = i
        else:
            head[r], ahead[r] = i, threshold[i]
        if after >= 0:
            earlier[after] = i
        else:
            tail[r] = i

    def end(r):
        """Take the first flow of a route off."""
        i = head[r]
        head[r] = later[i]
        flows[r] -= 1
        for e in range(indptr[r], indptr[r + 1]):
            load[media[e]] -= 1
        if head[r] >= 0:
            earlier[head[r]], ahead[r] = _NONE, threshold[head[r]]
        else:
            tail[r] = _NONE
            leave(r)
        return i

    def reach(seed, number):
        """The media that have to do with each other by way of flows; returns how many."""
        reached[0], seen[seed] = seed, number
        many, k = 1, 0
        while k < many and many < busy[0]:
            for at in range(first[reached[k]], first[reached[k]] + active[reached[k]]):
                for e in range(indptr[member[at]], indptr[member[at] + 1]):
                    if seen[media[e]] != number:
                        seen[media[e]] = number
                        reached[many] = media[e]
                        many += 1
            k += 1
        return many

    def sink(k, size):
        """Put the medium at k where it belongs in the heap of what is reached: the lowest share
        comes first."""
        m, child = reached[k], 2 * k + 1
        while child < size:
            if child + 1 < size and share[reached[child + 1]] < share[reached[child]]:
                child += 1
            if share[reached[child]] >= share[m]:
                break
            reached[k] = reached[child]
            k, child = child, 2 * child + 1
        reached[k] = m

    def fix(m, level, now, number, count):
        """The flows across a medium whose rates are open get this one; returns how many routes have
        theirs."""
        for at in range(first[m], first[m] + active[m]):
            r = member[at]
            if solution[r] != number:
                solution[r] = number
                advance(r, now)
                rate[r] = level
                solved[count], due[count] = r, (ahead[r] - served[r]) / level
                count += 1
                for e in range(indptr[r], indptr[r + 1]):
                    spare[media[e]] -= level * flows[r]
                    unfixed[media[e]] -= flows[r]
        return count

    def fill(size, now, number):
        """Rates from the lowest share of a medium to the highest; returns how many routes got
        one."""
        for k in range(size):
            m = reached[k]
            spare[m], share[m], unfixed[m] = bandwidth[m], bandwidth[m] / load[m], load[m]
        for k in range(size // 2 - 1, -1, -1):
            sink(k, size)
        level, count = 0.0, 0
        while size > 0:
            m = reached[0]
            if unfixed[m] > 0 and spare[m] > share[m] * unfixed[m] * _SAME:
                share[m] = spare[m] / unfixed[m]
            elif unfixed[m] > 0:
                level = share[m] if share[m] > level * _SAME else level
                count = fix(m, level, now, number, count)
            else:
                size -= 1
                reached[0] = reached[size]
            sink(0, size)
        return count

    def solve(seed, now, number):
        """New rates for all flows that have to do with a medium; expect the first of them to
        end."""
        count = fill(reach(seed, number), now, number)
        soonest = np.inf
        for k in range(count):
            soonest = min(soonest, due[k])
        first_end = max(now, instant(now + soonest))
        for k in range(count):
            if instant(now + due[k]) <= first_end:
                heappush(ends, (first_end, np.int64(solved[k]), number))

    def arrive(i, now):
        """The last byte is sent; returns whether that ends the operation, with no merging to
        come."""
        sent[i], finish[i] = now, now + route_latency[route[i]]
        if reduces[i]:
            node = node_indptr[i + 1] - 1
            if reduction[peer[i]] > 0.0 or copy[peer[i]] > 0.0:
                heappush(arrivals, (finish[i], np.int64(node)))
                return False
            start[node] = finish[i]
        return True

    def release(i):
        """Tell those who wait for an operation."""
        for k in range(successor_indptr[i], successor_indptr[i + 1]):
            j = successors[k]
            ready[j] = max(ready[j], finish[i])
            waiting[j] -= 1
            if waiting[j] == 0:
                heappush(arrivals, (ready[j] + route_gap[route[j]], np.int64(node_indptr[j])))

    for i in range(operations):
        if waiting[i] == 0:
            heappush(arrivals, (route_gap[route[i]], np.int64(node_indptr[i])))
    done, marks, number, now = 0, 0, np.int64(0), 0.0
    while True:
        while len(ends) > 0 and solution[ends[0][1]] != ends[0][2]:
            heappop(ends)
        ending = len(ends) > 0 and (len(arrivals) == 0 or ends[0][0] <= arrivals[0][0])
        upcoming = ends[0][0] if ending else arrivals[0][0] if len(arrivals) > 0 else np.inf
        if marks > 0 and upcoming > now:
            before = number
            for k in range(marks):
                marked[changed[k]] = False
                if active[changed[k]] > 0 and seen[changed[k]] <= before:
                    number += 1
                    solve(changed[k], now, number)
            marks = 0
            continue
        if upcoming == np.inf:
            break
        now = upcoming
        if ending:
            r = heappop(ends)[1]
            advance(r, now)
            marks = mark(r, marks)
            while flows[r] > 0 and instant(now + (ahead[r] - served[r]) / rate[r]) <= now:
                i = end(r)
                if arrive(i, now):
                    done += 1
                    release(i)
            continue
        node = heappop(arrivals)[1]
        i = owner[node]
        r = route[i]
        hops = route_indptr[r + 1] - route_indptr[r]
        if node - node_indptr[i] < hops:
            start[node : node + hops] = now
            if nbytes[i] > 0.0 and indptr[r + 1] > indptr[r]:
                begin(i, r, now)
                marks = mark(r, marks)
                continue
            if not arrive(i, now):
                continue
        else:
            if kind[i] == COMPUTE:
                serial, duration = rank[i] * (lanes + 1) + lane[i], seconds[i]
            else:
                cost = reduction[peer[i]] if reduces[i] else copy[peer[i]]
                serial, duration = peer[i] * (lanes + 1) + lanes, nbytes[i] * cost
            if lane_free[serial] > now:
                cause[node] = lane_holder[serial]
            start[node] = max(now, lane_free[serial])
            finish[i] = start[node] + duration
            lane_free[serial], lane_holder[serial] = finish[i], node
        done += 1
        release(i)
    return ready, finish, start, cause, sent, done
