"""The rules of time where first come is first served."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy as np

from simulator.kernels.events import Runs, append, earliest, follows, take
from simulator.kernels.records import Csr, Index, Times, Turns, Work
from simulator.kernels.repeats import NEXT, Moment, Steps, skip

COMPUTE = 0


def simulate(
    work: Work,
    successors: Csr,
    times: Times,
    media: Turns,
    lanes: Turns,
    runs: Runs,
    steps: Steps,
    store_and_forward: bool,
) -> int:
    """Fill in the times of all operations; returns how many are done.

    No operation is ready before its time in `times.ready`. `media` and `lanes` may be held at
    first. `steps` that repeat are skipped. The nodes of an operation are its hops, then its
    reduction; a local operation or a computation has one. Events are arrivals at nodes, processed
    in order of (time, node); nodes are numbered by (operation, hop).
    """
    route, indptr, links, nodes = work.routes
    reduces, peer = work.operations.reduces, work.operations.peer
    reduction, copy, latency = work.ranks.reduction, work.ranks.copy, work.network.latency
    ready, finish, start = times.ready, times.finish, times.start
    first, followers = successors.indptr, successors.indices
    heap: list[tuple[float, Any, Any]] = [(0.0, np.int64(0), np.int64(0))]
    heap.clear()
    before, waiting = work.predecessors.indptr, np.empty(len(ready), np.int32)
    for j in range(len(waiting)):
        waiting[j] = before[j + 1] - before[j]
        if waiting[j] == 0 and not append(runs, ready[j], nodes[j], j):
            heappush(heap, (ready[j], np.int64(nodes[j]), np.int64(j)))
    done, last = 0, 0
    while True:
        run = earliest(runs)
        if len(heap) > 0 and follows(runs, run, heap[0][0], heap[0][1]):
            now, node, i = heappop(heap)
        elif run >= 0:
            now, node, i = take(runs, run)
        else:
            break
        hop = node - nodes[i]
        place, hops = indptr[route[i]], indptr[route[i] + 1] - indptr[route[i]]
        if hop < hops:
            link = links[place + hop]
            begin, sent = cross(work, times, media, i, node, link, now)
            finish[i] = max(finish[i], sent) + latency[link]
            if hop + 1 < hops:
                head = finish[i] if store_and_forward else begin + latency[link]
                if not append(runs, head, node + 1, i):
                    heappush(heap, (head, node + 1, i))
                continue
            if reduces[i]:
                if reduction[peer[i]] > 0.0 or copy[peer[i]] > 0.0:
                    if not append(runs, finish[i], node + 1, i):
                        heappush(heap, (finish[i], node + 1, i))
                    continue
                start[node + 1] = finish[i]
        else:
            serve(work, times, lanes, i, node, now)
        done, last = done + 1, max(last, i)
        for k in range(first[i], first[i + 1]):
            j = followers[k]
            ready[j] = max(ready[j], finish[i])
            waiting[j] -= 1
            if waiting[j] == 0 and not append(runs, ready[j], nodes[j], j):
                heappush(heap, (ready[j], np.int64(nodes[j]), np.int64(j)))
        if done >= steps.at[NEXT]:
            moment = Moment(work, waiting, successors, times, media, lanes, runs)
            done += skip(moment, steps, done, last, len(heap))
    return done


def cross(
    work: Work, times: Times, media: Turns, i: Index, node: Index, link: Index, now: float
) -> tuple[float, float]:
    """Take all media of a link at the same time; returns when the first byte enters and the last
    has."""
    network, begin = work.network, now
    for k in range(network.indptr[link], network.indptr[link + 1]):
        medium = network.media[k]
        if media.free[medium] > begin:
            begin = media.free[medium]
            times.cause[node] = media.holder[medium]
    times.start[node], sent = begin, begin
    for k in range(network.indptr[link], network.indptr[link + 1]):
        medium = network.media[k]
        seconds = network.gap[medium] + work.operations.nbytes[i] / network.bandwidth[medium]
        seconds = seconds + network.grid - network.grid
        if media.holder[medium] < 0:
            media.first[medium] = now
        media.free[medium], media.holder[medium], media.last[medium] = begin + seconds, node, now
        sent = max(sent, media.free[medium])
    return begin, sent


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
        seconds = operations.nbytes[i] * cost + work.network.grid - work.network.grid
    begin = now
    if lanes.free[lane] > now:
        begin = lanes.free[lane]
        times.cause[node] = lanes.holder[lane]
    times.start[node], times.finish[i] = begin, begin + seconds
    if lanes.holder[lane] < 0:
        lanes.first[lane] = now
    lanes.free[lane], lanes.holder[lane], lanes.last[lane] = times.finish[i], node, now
