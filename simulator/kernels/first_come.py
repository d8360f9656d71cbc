"""The rules of time where first come is first served."""

from heapq import heappop, heappush

import numpy as np

COMPUTE, TRANSFER = 0, 1
_NONE = -1


def simulate(
    kind, rank, peer, nbytes, seconds, lane, reduces, pending, successor_indptr, successors,
    route, route_indptr, route_links, latency, link_indptr, link_media, bandwidth, gap, reduction,
    copy, lanes, node_indptr, store_and_forward,
):  # fmt: skip
    """The rules of time. Returns ready and finish per operation, start and cause per node.

    The nodes of an operation are its hops, then its reduction; a local operation or a computation
    has one. A cause is the node that held the medium or lane for which a node queued, or -1. Events
    are arrivals at nodes, processed in order of (time, node); nodes are numbered by (operation,
    hop).
    """
    operations, nodes = len(kind), node_indptr[-1]
    ready, finish = np.zeros(operations), np.zeros(operations)
    start, cause = np.zeros(nodes), np.full(nodes, _NONE, np.int32)
    medium_free, medium_holder = np.zeros(len(bandwidth)), np.full(len(bandwidth), _NONE, np.int32)
    ranks = len(reduction)
    lane_free, lane_holder = (
        np.zeros(ranks * (lanes + 1)),
        np.full(ranks * (lanes + 1), _NONE, np.int32),
    )
    waiting = pending.copy()
    owner = np.empty(nodes, np.int32)
    for i in range(operations):
        for node in range(node_indptr[i], node_indptr[i + 1]):
            owner[node] = i
    heap = [(0.0, np.int64(node_indptr[i])) for i in range(operations) if waiting[i] == 0]
    done = 0
    while len(heap) > 0:
        now, node = heappop(heap)
        i = owner[node]
        hop = node - node_indptr[i]
        begin = now
        hops = route_indptr[route[i] + 1] - route_indptr[route[i]] if kind[i] == TRANSFER else 0
        if hop < hops:
            link = route_links[route_indptr[route[i]] + hop]
            for k in range(link_indptr[link], link_indptr[link + 1]):
                medium = link_media[k]
                if medium_free[medium] > begin:
                    begin = medium_free[medium]
                    cause[node] = medium_holder[medium]
            sent = begin
            for k in range(link_indptr[link], link_indptr[link + 1]):
                medium = link_media[k]
                medium_free[medium] = begin + (gap[medium] + nbytes[i] / bandwidth[medium])
                medium_holder[medium] = node
                sent = max(sent, medium_free[medium])
            start[node] = begin
            finish[i] = max(finish[i], sent) + latency[link]
            if hop + 1 < hops:
                heappush(
                    heap, (finish[i] if store_and_forward else begin + latency[link], node + 1)
                )
                continue
            if reduces[i]:
                if reduction[peer[i]] > 0.0 or copy[peer[i]] > 0.0:
                    heappush(heap, (finish[i], node + 1))
                    continue
                start[node + 1] = finish[i]
        else:
            if kind[i] == COMPUTE:
                serial, duration = rank[i] * (lanes + 1) + lane[i], seconds[i]
            else:
                cost = reduction[peer[i]] if reduces[i] else copy[peer[i]]
                serial, duration = peer[i] * (lanes + 1) + lanes, nbytes[i] * cost
            if lane_free[serial] > begin:
                begin = lane_free[serial]
                cause[node] = lane_holder[serial]
            lane_free[serial] = begin + duration
            lane_holder[serial] = node
            start[node] = begin
            finish[i] = begin + duration
        done += 1
        for k in range(successor_indptr[i], successor_indptr[i + 1]):
            j = successors[k]
            ready[j] = max(ready[j], finish[i])
            waiting[j] -= 1
            if waiting[j] == 0:
                heappush(heap, (ready[j], np.int64(node_indptr[j])))
    return ready, finish, start, cause, done
