"""The rules of time where first come is first served."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy as np

from simulator.kernels.events import Runs, append, earliest, follows, take
from simulator.kernels.records import COMPUTE, Csr, Index, Times, Turns, Work


def simulate(
    work: Work,
    successors: Csr,
    times: Times,
    media: Turns,
    lanes: Turns,
    runs: Runs,
    store_and_forward: bool,
) -> int:
    """Fill in the times of all operations; returns how many are done.

    The nodes of an operation are its hops, then its reduction; a local operation or a computation
    has one. Events are arrivals at nodes, processed in order of (time, node); nodes are numbered by
    (operation, hop).
    """
    route, indptr, links, nodes = work.routes
    reduces, peer = work.operations.reduces, work.operations.peer
    reduction, copy, latency = work.ranks.reduction, work.ranks.copy, work.network.latency
    ready, finish, start = times.ready, times.finish, times.start
    # Numba takes the type of a list from what is in it.
    heap: list[tuple[float, Any, Any]] = [(0.0, np.int64(0), np.int64(0))]
    heap.clear()
    before, waiting = work.predecessors.indptr, np.empty(len(ready), np.int32)
    # `append` or `heappush` is written out each time: a function that a kernel calls counts no
    # references, and so cannot let the heap grow.
    for j in range(len(waiting)):
        waiting[j] = before[j + 1] - before[j]
        if waiting[j] == 0 and not append(runs, ready[j], nodes[j], j):
            heappush(heap, (ready[j], np.int64(nodes[j]), np.int64(j)))
    done = 0
    while True:
        run = earliest(runs)
        if len(heap) > 0 and follows(runs, run, heap[0][0], heap[0][1]):
            now, node, i = heappop(heap)
        elif run >= 0:
            now, node, i = take(runs, run)
        else:
            break
        hop = node - nodes[i]
        first, hops = indptr[route[i]], indptr[route[i] + 1] - indptr[route[i]]
        if hop < hops:
            link = links[first + hop]
            start[node], sent = cross(work, times, media, i, node, link, now)
            finish[i] = max(finish[i], sent) + latency[link]
            if hop + 1 < hops:
                head = finish[i] if store_and_forward else start[node] + latency[link]
                if not append(runs, head, node + 1, i):
                    heappush(heap, (head, node + 1, i))
                continue
            if reduces[i]:
                # A copy may hold the lane at the peer, even if to reduce takes no time.
                if reduction[peer[i]] > 0.0 or copy[peer[i]] > 0.0:
                    if not append(runs, finish[i], node + 1, i):
                        heappush(heap, (finish[i], node + 1, i))
                    continue
                start[node + 1] = finish[i]
        else:
            occupy_lane(work, times, lanes, i, node, now)
        # The operation is finished: what waited for it alone is ready.
        done += 1
        for k in range(successors.indptr[i], successors.indptr[i + 1]):
            j = successors.indices[k]
            ready[j] = max(ready[j], finish[i])
            waiting[j] -= 1
            if waiting[j] == 0 and not append(runs, ready[j], nodes[j], j):
                heappush(heap, (ready[j], np.int64(nodes[j]), np.int64(j)))
    return done


def cross(
    work: Work, times: Times, media: Turns, i: Index, node: Index, link: Index, now: float
) -> tuple[float, float]:
    """Book the media of a link once all are free; returns when the first byte enters and the last
    has."""
    network, start = work.network, now
    for k in range(network.indptr[link], network.indptr[link + 1]):
        medium = network.media[k]
        if media.free[medium] > start:
            start, times.cause[node] = media.free[medium], media.holder[medium]
    sent = start
    for k in range(network.indptr[link], network.indptr[link + 1]):
        medium = network.media[k]
        seconds = network.gap[medium] + work.operations.nbytes[i] / network.bandwidth[medium]
        seconds = seconds + network.grid - network.grid  # to whole ticks, if there are any
        media.free[medium], media.holder[medium] = start + seconds, node
        sent = max(sent, media.free[medium])
    return start, sent


def occupy_lane(work: Work, times: Times, lanes: Turns, i: Index, node: Index, now: float) -> None:
    """Take a turn on a lane, for a computation or to merge or copy at the receiver; the operation
    is finished at its end."""
    lane, seconds = turn_of(work, i)
    times.start[node] = now
    if lanes.free[lane] > now:
        times.start[node], times.cause[node] = lanes.free[lane], lanes.holder[lane]
    times.finish[i] = times.start[node] + seconds
    lanes.free[lane], lanes.holder[lane] = times.finish[i], node


def turn_of(work: Work, i: Index) -> tuple[Index, float]:
    """The lane of a computation, or of the work at the end of a transfer, and the seconds that it
    takes."""
    operations, ranks = work.operations, work.ranks
    if operations.kind[i] == COMPUTE:
        lane = operations.rank[i] * (ranks.lanes + 1) + operations.lane[i]
        seconds = operations.seconds[i]
    else:
        peer = operations.peer[i]
        # The lane behind those of computations.
        lane = peer * (ranks.lanes + 1) + ranks.lanes
        cost = ranks.reduction[peer] if operations.reduces[i] else ranks.copy[peer]
        seconds = operations.nbytes[i] * cost + work.network.grid - work.network.grid
    return lane, seconds
