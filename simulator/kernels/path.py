"""The walk along the critical path, in the subset of Python that Numba compiles."""

import numpy as np

COMPUTE = 0
_COMPUTE, _LATENCY, _GAP, _SERIALISATION, _REDUCTION, _COPY = range(6)
"""Numbers of the parts, as in `critical_path.SEGMENT_PARTS`."""
_NONE = -1


def walk(
    operation, kind, rank, peer, nbytes, seconds, reduces, indptr, indices, finish, node_start,
    node_cause, sent, route, route_indptr, route_links, latency, link_indptr, link_media, bandwidth,
    gap, reduction, copy, node_indptr, others, fair, store_and_forward,
):  # fmt: skip
    """Back from the finish of `operation` to time zero along what was waited for: the predecessor
    that finished last, the hop that arrived last, the occupant of a medium or lane.

    A transfer that waits is the waiter of all that its occupants do while it waits: that is
    contention where the occupant has another rank. What an occupant did before the waiter came is
    the occupant's own. Under fair sharing `others` is the share of a wait that other ranks cause.

    Returns the columns of `critical_path.Path`.
    """
    rows = [(0, 0.0, 0, 0, 0.0, 0, False)]
    rows.clear()

    def add(part, duration, i, where, amount, waiter, contended):
        """One more segment."""
        rows.append(
            (
                int(part),
                float(duration),
                int(i),
                int(where),
                float(amount),
                int(waiter),
                bool(contended),
            )
        )

    def links_of(i):
        """The first link of the route of an operation and the one after the last."""
        return route_indptr[route[i]], route_indptr[route[i] + 1]

    def held(i, medium):
        """How long a transfer holds a medium."""
        return gap[medium] + nbytes[i] / bandwidth[medium]

    def longest(i, link):
        """Of the media on a link: the one that a transfer holds longest."""
        slowest = link_media[link_indptr[link]]
        for k in range(link_indptr[link], link_indptr[link + 1]):
            if held(i, link_media[k]) > held(i, slowest):
                slowest = link_media[k]
        return slowest

    def charge(part, duration, i, where, amount, waiter, waited):
        """What an operation did while another one waited for the last `waited` seconds of it, or
        more."""
        if rank[i] == rank[waiter] or waited >= duration:
            add(part, duration, i, where, amount, waiter, rank[i] != rank[waiter])
        elif waited <= 0.0:
            add(part, duration, i, where, amount, i, False)
        else:
            late = amount * (waited / duration)
            add(part, waited, i, where, late, waiter, True)
            add(part, duration - waited, i, where, amount - late, i, False)

    def cross(i, medium, waiter, waited):
        """The bytes and the gap of a transfer on a medium."""
        taken = nbytes[i] / bandwidth[medium]
        charge(_SERIALISATION, taken, i, medium, nbytes[i], waiter, waited)
        charge(_GAP, gap[medium], i, medium, 1.0, waiter, waited - taken)

    def fly(i, at):
        """The latency of a link on the way."""
        add(_LATENCY, latency[route_links[at]], i, route_links[at], 1.0, i, False)

    def serve(i, waiter, waited):
        """A computation, or the work at the end of a transfer."""
        part, amount, where, cost = _COMPUTE, seconds[i], rank[i], 1.0
        if kind[i] != COMPUTE:
            amount, where = nbytes[i], peer[i]
            part, cost = (_REDUCTION, reduction[where]) if reduces[i] else (_COPY, copy[where])
        charge(part, amount * cost, i, where, amount, waiter, waited)

    def last_hop(i):
        """The place on the route of the hop whose bytes arrive last, its medium, and when they
        arrive."""
        begin, end = links_of(i)
        slowest, medium, arrival = begin, link_media[0], -1.0
        for at in range(begin, end):
            narrowest = longest(i, route_links[at])
            passed = node_start[node_indptr[i] + at - begin] + held(i, narrowest)
            if passed > arrival:
                slowest, medium, arrival = at, narrowest, passed
            arrival += latency[route_links[at]]
        return slowest, medium, arrival

    def arrive(i):
        """From the arrival of a transfer to the start of the hop whose bytes arrived last; returns
        that hop's node."""
        begin, end = links_of(i)
        slowest, medium, _ = last_hop(i)
        for at in range(end - 1, slowest - 1, -1):
            fly(i, at)
        cross(i, medium, i, 0.0)
        return node_indptr[i] + slowest - begin

    def crossings(i, medium):
        """How often the route of a transfer crosses a medium."""
        begin, end = links_of(i)
        times = 0
        for at in range(begin, end):
            for k in range(link_indptr[route_links[at]], link_indptr[route_links[at] + 1]):
                times += link_media[k] == medium
        return times

    def flow(i):
        """From the arrival of a flow to its beginning: its own bytes, those of others meanwhile,
        the gap."""
        begin, end = links_of(i)
        slowest = widest = link_media[link_indptr[route_links[begin]]]
        own = crossings(i, slowest) * nbytes[i]
        for at in range(end - 1, begin - 1, -1):
            fly(i, at)
            for k in range(link_indptr[route_links[at]], link_indptr[route_links[at] + 1]):
                m = link_media[k]
                crossed = crossings(i, m) * nbytes[i]
                if (crossed / bandwidth[m], -m) > (own / bandwidth[slowest], -slowest):
                    slowest, own = m, crossed
                if (gap[m], -m) > (gap[widest], -widest):
                    widest = m
        took = sent[i] - node_start[node_indptr[i]]
        alone = min(took, own / bandwidth[slowest])
        contention = others[i] * (took - alone)
        behind = took - alone - contention
        add(_SERIALISATION, alone, i, slowest, own, i, False)
        if behind > 0.0:
            add(_SERIALISATION, behind, i, slowest, behind * bandwidth[slowest], i, False)
        if contention > 0.0:
            add(_SERIALISATION, contention, i, slowest, contention * bandwidth[slowest], i, True)
        add(_GAP, gap[widest], i, widest, 1.0, i, False)
        return node_indptr[i]

    def shared(link, other, i, begin, until):
        """Of the media that two links share: the one that transfer i held from `begin` until about
        `until`."""
        found, nearest = _NONE, np.inf
        for k in range(link_indptr[link], link_indptr[link + 1]):
            for n in range(link_indptr[other], link_indptr[other + 1]):
                if link_media[k] == link_media[n]:
                    m = link_media[k]
                    off = abs(begin + held(i, m) - until)
                    if (off, m) < (nearest, found):
                        found, nearest = m, off
        return found

    def latest(i):
        """The predecessor that finished last, or none."""
        last = _NONE
        for p in range(indptr[i], indptr[i + 1]):
            if last == _NONE or finish[indices[p]] > finish[last]:
                last = indices[p]
        return last

    def flow_arrival(i):
        """When the last byte of a flow arrives."""
        begin, end = links_of(i)
        arrival = sent[i]
        for at in range(begin, end):
            arrival += latency[route_links[at]]
        return arrival

    def ready_at(i, hop, hops):
        """When a node of an operation was ready to start."""
        if hop == 0:
            last = latest(i)
            return 0.0 if last == _NONE else finish[last]
        if hop == hops:
            return flow_arrival(i) if fair else last_hop(i)[2]
        before, link = (
            node_start[node_indptr[i] + hop - 1],
            route_links[route_indptr[route[i]] + hop - 1],
        )
        return before + (held(i, longest(i, link)) if store_and_forward else 0.0) + latency[link]

    def wait(node, i, occupant, holder, waiter, waited):
        """What the occupant of a medium or a lane did there while a node of i waited, and the
        waiter in the end."""
        begin, end = links_of(holder)
        at = begin + occupant - node_indptr[holder]
        if at < end:
            link = route_links[route_indptr[route[i]] + node - node_indptr[i]]
            medium = shared(route_links[at], link, holder, node_start[occupant], node_start[node])
            cross(holder, medium, waiter, waited)
        else:
            serve(holder, waiter, waited)

    # at the start of the node, or without one at the finish of the operation
    i, node = operation, _NONE
    waiter, since = operation, np.inf  # who waits for the node to start, and since when
    while i >= 0:
        arrived, hop, hops = (
            False,
            node - node_indptr[i],
            route_indptr[route[i] + 1] - route_indptr[route[i]],
        )
        if node == _NONE:
            node = node_indptr[i + 1] - 1
            arrived = node - node_indptr[i] < hops
            if not arrived:
                serve(i, i, 0.0)
        elif node_cause[node] >= 0:
            if since >= node_start[node]:
                waiter, since = i, ready_at(i, hop, hops)
            occupant = node_cause[node]
            holder = np.searchsorted(node_indptr, occupant, side="right") - 1
            wait(node, i, occupant, holder, waiter, node_start[node] - since)
            i, node = holder, occupant
            continue
        elif hop == 0:
            i, node = latest(i), _NONE
        elif hop == hops:
            arrived = True
        else:
            at = route_indptr[route[i]] + hop - 1
            fly(i, at)
            if store_and_forward:
                cross(i, longest(i, route_links[at]), i, 0.0)
            node -= 1
        if arrived:
            node = flow(i) if fair else arrive(i)
        since = np.inf

    part, contended = np.empty(len(rows), np.int8), np.empty(len(rows), np.bool_)
    doer, where, waiters = (
        np.empty(len(rows), np.int32),
        np.empty(len(rows), np.int32),
        np.empty(len(rows), np.int32),
    )
    lasted, amount = np.empty(len(rows)), np.empty(len(rows))
    for k in range(len(rows)):
        part[k], lasted[k], doer[k], where[k], amount[k], waiters[k], contended[k] = rows[k]
    return part, lasted, doer, where, amount, waiters, contended
