"""The loops over columns, in the subset of Python that Numba compiles: run as they are when the
work is small.

They need nothing outside their file, because Numba's cache watches the file of a function and
nothing else, and each is called with one set of dtypes: int8 flags, int32 indices, float64 times
and bytes, uint64 data, C-contiguous.
"""

from heapq import heappop, heappush

import numpy as np

COMPUTE, TRANSFER = 0, 1
_NONE = -1


def derive(rank, peer, source, target, count, reduces, ranks, slots):
    """Predecessors from what operations read and write, as a CSR (indptr, indices); duplicates may
    remain.

    The accesses to a cell (rank, slot) form groups: an overwrite is a group of one, and so is a run
    of reductions, or of reads, of any length. Every member of a group waits for every member of the
    group before it, and for nothing else: older ones are ancestors already.
    """
    cells = ranks * slots
    begins = np.zeros(cells + 1, np.int64)
    operations = len(rank)
    for i in range(operations):
        for j in range(count[i]):
            if source[i] >= 0:
                begins[rank[i] * slots + source[i] + j + 1] += 1
            if target[i] >= 0:
                begins[peer[i] * slots + target[i] + j + 1] += 1
    for cell in range(cells):
        begins[cell + 1] += begins[cell]
    filled = begins[:-1].copy()
    accesses = np.empty(begins[cells], np.int32)
    for i in range(operations):
        for j in range(count[i]):
            if source[i] >= 0:
                cell = rank[i] * slots + source[i] + j
                accesses[filled[cell]] = i * 2
                filled[cell] += 1
            if target[i] >= 0:
                cell = peer[i] * slots + target[i] + j
                accesses[filled[cell]] = i * 2 + 1
                filled[cell] += 1
    waits = np.zeros(operations + 1, np.int64)
    indices = np.empty(0, np.int32)
    for emit in range(2):
        for cell in range(cells):
            first, previous, last_kind = begins[cell], begins[cell], -1
            for k in range(begins[cell], begins[cell + 1]):
                i = accesses[k] // 2
                access = 0 if accesses[k] % 2 == 0 else 1 + reduces[i]
                if access != last_kind or access == 1:
                    previous, first, last_kind = first, k, access
                for before in range(previous, first):
                    j = accesses[before] // 2
                    if j == i:
                        continue
                    if emit == 0:
                        waits[i + 1] += 1
                    else:
                        indices[waits[i]] = j
                        waits[i] += 1
        if emit == 0:
            for i in range(operations):
                waits[i + 1] += waits[i]
            indices = np.empty(waits[operations], np.int32)
    return np.concatenate((np.zeros(1, np.int64), waits[:-1])), indices


def merge(indptr, indices, more_indptr, more_indices):
    """Two CSRs of predecessors in one, each row sorted and without duplicates. int64 in, int32
    out."""
    operations = len(indptr) - 1
    merged = np.empty(len(indices) + len(more_indices), np.int32)
    out = np.zeros(operations + 1, np.int32)
    end = 0
    for i in range(operations):
        begin, behind = end, end
        for k in range(indptr[i], indptr[i + 1]):
            merged[behind] = indices[k]
            behind += 1
        for k in range(more_indptr[i], more_indptr[i + 1]):
            merged[behind] = more_indices[k]
            behind += 1
        gap = 1
        while gap < (behind - begin) // 3:
            gap = 3 * gap + 1
        # Shell's sort: insertion where a row is short, and not quadratic where it is long
        while gap > 0:
            for k in range(begin + gap, behind):
                value, place = merged[k], k
                while place - gap >= begin and merged[place - gap] > value:
                    merged[place] = merged[place - gap]
                    place -= gap
                merged[place] = value
            gap //= 3
        for k in range(begin, behind):
            if end == begin or merged[k] != merged[end - 1]:
                merged[end] = merged[k]
                end += 1
        out[i + 1] = end
    return out, merged[:end].copy()


def invert(indptr, indices):
    """Successors from predecessors, both as CSR, each row in ascending order."""
    operations = len(indptr) - 1
    out = np.zeros(operations + 1, np.int32)
    for k in range(len(indices)):
        out[indices[k] + 1] += 1
    for i in range(operations):
        out[i + 1] += out[i]
    filled = out[:-1].copy()
    successors = np.empty(len(indices), np.int32)
    for i in range(operations):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            successors[filled[j]] = i
            filled[j] += 1
    return out, successors


def chain(weight, indptr, indices):
    """The greatest sum of `weight` (int8) on a chain of predecessors that ends at each operation,
    itself included."""
    depth = np.zeros(len(weight), np.int32)
    for i in range(len(weight)):
        deepest = 0
        for k in range(indptr[i], indptr[i + 1]):
            deepest = max(deepest, depth[indices[k]])
        depth[i] = deepest + weight[i]
    return depth


def execute(order, kind, rank, peer, source, target, count, reduces, data):
    """Run the transfers on `data[rank, slot]`, in `order`."""
    for k in range(len(order)):
        i = order[k]
        if kind[i] == TRANSFER and source[i] >= 0 and target[i] >= 0:
            for j in range(count[i]):
                value = data[rank[i], source[i] + j]
                if reduces[i]:
                    data[peer[i], target[i] + j] += value
                else:
                    data[peer[i], target[i] + j] = value


def lifetimes(
    order, kind, rank, peer, source, target, count, reduces, start, finish, data, owned, slots,
):  # fmt: skip
    """When which value was held where, and when a cell (rank, slot) was in use.

    What a computation writes is a new value, the same for the same value read, and no sum of
    others: a mix of its bits, which is not 0 where that value is. `order` is that of the finishes;
    `data` and `owned` have a row a cell. Returns, of every version of a cell, the cell, its value,
    begin and end (when it is overwritten; at once if that happens unread) and the place in `order`
    of its last read, or -1; then the first and last use of every cell.
    """
    cells = len(data)
    total = cells
    for i in range(len(order)):
        total += count[i]
    cell_of, value_of = np.empty(total, np.int32), np.empty(total, np.uint64)
    begin, end, read = np.zeros(total), np.full(total, np.inf), np.full(total, _NONE, np.int32)
    held = np.full(cells, _NONE, np.int32)
    first_use, last_use = np.full(cells, np.inf), np.full(cells, -np.inf)
    versions = 0
    for cell in range(cells):
        if owned[cell]:
            cell_of[versions], value_of[versions], held[cell] = cell, data[cell], versions
            versions += 1
    for k in range(len(order)):
        i = order[k]
        for j in range(count[i]):
            origin, goal = rank[i] * slots + source[i] + j, peer[i] * slots + target[i] + j
            if source[i] >= 0:
                first_use[origin], last_use[origin] = (
                    min(first_use[origin], start[i]),
                    max(last_use[origin], finish[i]),
                )
                if held[origin] >= 0:
                    read[held[origin]] = k
            if target[i] >= 0:
                first_use[goal], last_use[goal] = (
                    min(first_use[goal], start[i]),
                    max(last_use[goal], finish[i]),
                )
                if kind[i] == COMPUTE:
                    read_from = data[origin] if source[i] >= 0 else np.uint64(versions + 1)
                    mixed = (read_from + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(
                        0x9E3779B97F4A7C15
                    )
                    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                    data[goal] = mixed ^ (mixed >> np.uint64(27))
                elif source[i] >= 0:
                    data[goal] = data[goal] + data[origin] if reduces[i] else data[origin]
                if held[goal] >= 0:
                    needed = reduces[i] or read[held[goal]] >= 0
                    end[held[goal]] = finish[i] if needed else begin[held[goal]]
                cell_of[versions], value_of[versions], begin[versions] = goal, data[goal], finish[i]
                held[goal] = versions
                versions += 1
    return (
        cell_of[:versions],
        value_of[:versions],
        begin[:versions],
        end[:versions],
        read[:versions],
        first_use,
        last_use,
    )


def cover(value, begin, end, read, merged):
    """Union of the intervals of equal values, sorted by (value, begin): the row that begins each
    piece, and its end.

    `read` is the number of the last read of a version, in order, `merged[read]` when that read had
    merged the value elsewhere, or inf where it only copied it: a value of which the last read of
    all merged it ends there.
    """
    rows, until = np.empty(len(value), np.int64), np.empty(len(value))
    pieces, group = 0, 0
    while group < len(value):
        after, last = group, _NONE
        while after < len(value) and value[after] == value[group]:
            last = max(last, read[after])
            after += 1
        death = merged[last] if last >= 0 else np.inf
        first = pieces
        for k in range(group, after):
            stop = min(end[k], death)
            if stop <= begin[k]:
                continue
            if pieces > first and begin[k] <= until[pieces - 1]:
                until[pieces - 1] = max(until[pieces - 1], stop)
            else:
                rows[pieces], until[pieces] = k, stop
                pieces += 1
        group = after
    return rows[:pieces], until[:pieces]


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
