"""What operations wait for: contention, and the causes of bubbles."""

import numpy as np

TRANSFER = 1
_NONE = -1


def contended(nodes, since, until, sender, node_start, node_cause):
    """For how long, from `since` to `until`, each of `nodes` waited for nodes of other senders."""
    seconds = np.zeros(len(nodes))
    for k in range(len(nodes)):
        released, occupant = node_start[nodes[k]], node_cause[nodes[k]]
        while occupant >= 0 and released > since[k]:
            if sender[occupant] != sender[nodes[k]]:
                seconds[k] += max(
                    0.0, min(released, until[k]) - max(since[k], node_start[occupant])
                )
            released, occupant = node_start[occupant], node_cause[occupant]
    return seconds


def idle(
    end, main, last, rank, kind, nbytes, indptr, indices, ready, finish, node_start, sent, others,
    route, route_indptr, route_links, latency, link_indptr, link_media, bandwidth, gap,
    node_indptr, ranks, fair, store_and_forward,
):  # fmt: skip
    """What fills the gaps before the computations `main`, in order of their start, of each rank,
    and the gap between its final computation and the end of its operation `last`, or -1. All of it
    counts up to `end`.

    Returns seconds of transfers, of contention and of computations, shape (ranks, 3); the queues, a
    row each: the rank whose gap it is, the node that waits, since when and until when; and when
    each rank has nothing left to do.

    The `edge`s of an operation are the times at which it passes from queueing to the wire and back,
    from ready on: on the way of the bytes that arrived last, then at its work at the end of the
    route. A computation has two.
    """
    seconds, free = np.zeros((ranks, 3)), np.zeros(ranks)
    edge = np.empty(2 * len(route_links) + 6)
    queues = [(0, 0, 0.0, 0.0)]
    queues.clear()

    def latest(i):
        """The predecessor that finished last."""
        before = indices[indptr[i]]
        for p in range(indptr[i] + 1, indptr[i + 1]):
            if finish[indices[p]] > finish[before]:
                before = indices[p]
        return before

    def explain(worker, i, begin):
        """Add what operation i did from `begin` on."""
        first = node_indptr[i]
        hops = route_indptr[route[i] + 1] - route_indptr[route[i]] if kind[i] == TRANSFER else 0
        links = route_links[route_indptr[route[i]] : route_indptr[route[i]] + hops]
        edge[0], arrival, edges = ready[i], -1.0, 1
        if fair and hops > 0:
            alone, delay = 0.0, 0.0
            for hop in range(hops):
                delay += latency[links[hop]]
                for m in range(link_indptr[links[hop]], link_indptr[links[hop] + 1]):
                    times = 0
                    for other in range(hops):
                        for n in range(link_indptr[links[other]], link_indptr[links[other] + 1]):
                            times += link_media[n] == link_media[m]
                    alone = max(alone, times * nbytes[i] / bandwidth[link_media[m]])
            arrival, took = sent[i] + delay, sent[i] - node_start[first]
            waited = took - min(took, alone)
            edge[1], edge[2], edge[3] = (
                ready[i],
                node_start[first],
                node_start[first] + waited * others[i],
            )
            edges = 4
        elif hops > 0:
            head = ready[i]
            for hop in range(hops):
                held = 0.0
                for m in range(link_indptr[links[hop]], link_indptr[links[hop] + 1]):
                    held = max(held, gap[link_media[m]] + nbytes[i] / bandwidth[link_media[m]])
                edge[2 * hop], edge[2 * hop + 1] = head, node_start[first + hop]
                if node_start[first + hop] + held > arrival:
                    arrival, edges = node_start[first + hop] + held, 2 * hop + 2
                arrival += latency[links[hop]]
                head = (
                    node_start[first + hop]
                    + (held if store_and_forward else 0.0)
                    + latency[links[hop]]
                )
        merging = _NONE
        if kind[i] == TRANSFER and node_indptr[i + 1] - first > hops:
            if hops > 0:
                edge[edges] = arrival
                edges += 1
            edge[edges] = node_start[node_indptr[i + 1] - 1]
            merging = edges
            edges += 1
        edge[edges] = finish[i]
        for e in range(edges, 0, -1):
            since, until = max(edge[e - 1], begin), min(edge[e], end)
            if until <= since:
                continue
            if kind[i] != TRANSFER:
                seconds[worker, 2] += until - since
            elif e % 2 == 0:
                seconds[worker, 0] += until - since
            elif fair and e != merging:
                seconds[worker, 1] += until - since
            else:
                node = node_indptr[i + 1] - 1 if e == merging else first + e // 2
                queues.append((int(worker), int(node), float(since), float(until)))

    for k in range(len(main)):
        i, worker = main[k], rank[main[k]]
        begin = free[worker]
        free[worker] = max(begin, finish[i])
        while ready[i] > begin:
            i = latest(i)
            explain(worker, i, begin)
    for worker in range(ranks):
        i, begin = last[worker], free[worker]
        if i >= 0 and finish[i] > begin:
            free[worker] = finish[i]
            explain(worker, i, begin)
            while ready[i] > begin:
                i = latest(i)
                explain(worker, i, begin)
    workers, nodes = np.empty(len(queues), np.int32), np.empty(len(queues), np.int32)
    begins, ends = np.empty(len(queues)), np.empty(len(queues))
    for k in range(len(queues)):
        workers[k], nodes[k], begins[k], ends[k] = queues[k]
    return seconds, (workers, nodes, begins, ends), free
