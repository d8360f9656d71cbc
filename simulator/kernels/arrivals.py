"""When operations reach media and lanes."""

from __future__ import annotations

from simulator.kernels.records import Floats, Times, Work

COMPUTE, TRANSFER = 0, 1


def spread(work: Work, times: Times, first: Floats, last: Floats) -> None:
    """Lower `first` and raise `last` to the first and last arrival at each lane and medium: lanes
    first, then media.

    The work at the end of a transfer counts from when the transfer is ready to when it starts.
    """
    route, indptr, links, nodes = work.routes
    operations, network, ranks = work.operations, work.network, work.ranks
    serials = len(ranks.copy) * (ranks.lanes + 1)
    for i in range(len(operations.kind)):
        hops = indptr[route[i] + 1] - indptr[route[i]] if operations.kind[i] == TRANSFER else 0
        head, peer = times.ready[i], operations.peer[i]
        for hop in range(hops):
            link = links[indptr[route[i]] + hop]
            for k in range(network.indptr[link], network.indptr[link + 1]):
                medium = serials + network.media[k]
                first[medium] = min(first[medium], head)
                last[medium] = max(last[medium], head)
            head = times.start[nodes[i] + hop] + network.latency[link]
        merges = operations.reduces[i] and (ranks.reduction[peer] > 0 or ranks.copy[peer] > 0)
        if hops > 0 and not merges:
            continue
        lane = peer * (ranks.lanes + 1) + ranks.lanes
        if operations.kind[i] == COMPUTE:
            lane = operations.rank[i] * (ranks.lanes + 1) + operations.lane[i]
        first[lane] = min(first[lane], times.ready[i])
        last[lane] = max(last[lane], times.start[nodes[i + 1] - 1] if hops > 0 else times.ready[i])
