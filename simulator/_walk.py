"""The walk along the critical path, in the subset of Python that Numba compiles, as in `_kernels`."""

import numpy as np

COMPUTE = 0
_COMPUTE, _LATENCY, _GAP, _SERIALISATION, _REDUCTION, _COPY = range(6)
"""Numbers of the parts, as in `critical_path.SEGMENT_PARTS`."""
_NONE = -1


def walk(
    operation, kind, rank, peer, nbytes, seconds, reduces, indptr, indices, finish, node_start, node_cause, sent,
    route, route_indptr, route_links, latency, link_indptr, link_media, bandwidth, gap, reduction, copy, node_indptr,
    fair, store_and_forward,
):  # fmt: skip
    """Back from the finish of `operation` to time zero along what was waited for: the predecessor that finished last,
    the hop that arrived last, the occupant of a medium or lane.

    Returns the columns of `critical_path.Path`.
    """
    rows = [(0, 0.0, 0, 0, 0.0, False)]
    rows.clear()

    def add(part, duration, i, where, amount, queued):
        """One more segment."""
        rows.append((int(part), float(duration), int(i), int(where), float(amount), bool(queued)))

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

    def cross(i, medium, queued):
        """The bytes and the gap of a transfer on a medium."""
        add(_SERIALISATION, nbytes[i] / bandwidth[medium], i, medium, nbytes[i], queued)
        add(_GAP, gap[medium], i, medium, 1.0, queued)

    def fly(i, at):
        """The latency of a link on the way."""
        add(_LATENCY, latency[route_links[at]], i, route_links[at], 1.0, False)

    def serve(i, queued):
        """A computation, or the work at the end of a transfer."""
        part, amount, where, cost = _COMPUTE, seconds[i], rank[i], 1.0
        if kind[i] != COMPUTE:
            amount, where = nbytes[i], peer[i]
            part, cost = (_REDUCTION, reduction[where]) if reduces[i] else (_COPY, copy[where])
        add(part, amount * cost, i, where, amount, queued)

    def arrive(i):
        """From the arrival of a transfer to the start of the hop whose bytes arrived last; returns that hop's node."""
        begin, end = links_of(i)
        slowest, medium, arrival = begin, link_media[0], -1.0
        for at in range(begin, end):
            narrowest = longest(i, route_links[at])
            passed = node_start[node_indptr[i] + at - begin] + held(i, narrowest)
            if passed > arrival:
                slowest, medium, arrival = at, narrowest, passed
            arrival += latency[route_links[at]]
        for at in range(end - 1, slowest - 1, -1):
            fly(i, at)
        cross(i, medium, False)
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
        """From the arrival of a flow to its beginning: its own bytes, those of others meanwhile, the gap."""
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
        add(_SERIALISATION, alone, i, slowest, own, False)
        if took - alone > 0.0:
            add(_SERIALISATION, took - alone, i, slowest, (took - alone) * bandwidth[slowest], True)
        add(_GAP, gap[widest], i, widest, 1.0, False)
        return node_indptr[i]

    def shared(link, other, i, begin, until):
        """Of the media that two links share: the one that transfer i held from `begin` until about `until`."""
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

    def wait(node, i, occupant, holder):
        """What the occupant of a medium or a lane did there while a node of i waited."""
        begin, end = links_of(holder)
        at = begin + occupant - node_indptr[holder]
        if at < end:
            link = route_links[route_indptr[route[i]] + node - node_indptr[i]]
            cross(holder, shared(route_links[at], link, holder, node_start[occupant], node_start[node]), True)
        else:
            serve(holder, True)

    i, node = operation, _NONE  # at the start of the node, or without one at the finish of the operation
    while i >= 0:
        arrived, hop, hops = False, node - node_indptr[i], route_indptr[route[i] + 1] - route_indptr[route[i]]
        if node == _NONE:
            node = node_indptr[i + 1] - 1
            arrived = node - node_indptr[i] < hops
            if not arrived:
                serve(i, False)
        elif node_cause[node] >= 0:
            occupant = node_cause[node]
            holder = np.searchsorted(node_indptr, occupant, side="right") - 1
            wait(node, i, occupant, holder)
            i, node = holder, occupant
        elif hop == 0:
            i, node = latest(i), _NONE
        elif hop == hops:
            arrived = True
        else:
            at = route_indptr[route[i]] + hop - 1
            fly(i, at)
            if store_and_forward:
                cross(i, longest(i, route_links[at]), False)
            node -= 1
        if arrived:
            node = flow(i) if fair else arrive(i)

    part, queued = np.empty(len(rows), np.int8), np.empty(len(rows), np.bool_)
    doer, where = np.empty(len(rows), np.int32), np.empty(len(rows), np.int32)
    lasted, amount = np.empty(len(rows)), np.empty(len(rows))
    for k in range(len(rows)):
        part[k], lasted[k], doer[k], where[k], amount[k], queued[k] = rows[k]
    return part, lasted, doer, where, amount, queued
