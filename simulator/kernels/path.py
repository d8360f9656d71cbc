"""The walk along the critical path."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.kernels.records import (
    COMPUTE,
    Csr,
    Floats,
    History,
    Index,
    Ints,
    Network,
    Routes,
    Times,
    Work,
)

COMPUTATION, LATENCY, GAP, SERIALISATION, REDUCTION, COPY = range(6)
"""Parts of the path: places in `critical_path.SEGMENT_PARTS`."""
_NONE = -1
_FIRST = 512
"""Rows at first, more than a step needs."""
_ROOM = 16
"""The rows that a step adds at most, besides one for each hop of the operation."""


class PathRows(NamedTuple):
    """The segments of the path, in the order of the walk."""

    seconds: Floats
    """The seconds and the amount of each, shape (rows, 2)."""
    names: Ints
    """The part, operation, place and waiter of each, whether it is contended, and the nodes of the
    operation and of the waiter, or -1 where nothing waits, shape (rows, 7)."""
    used: Ints
    """The number of rows in use, shape (1,)."""


class PathWait(NamedTuple):
    """An operation that waited in a queue for the last `seconds` of what another did."""

    waiter: Index
    seconds: float
    occupant: Index
    """The node of the other operation, or -1 where nothing waits."""
    node: Index
    """The node of the waiter, or -1."""


def walk(history: History, last: Index) -> tuple[Annotated[Floats, 2], Annotated[Ints, 2]]:
    """Back from the finish of operation `last` to time zero along what was waited for: the
    predecessor that finished last, the hop that arrived last, the occupant of a medium or lane.

    A transfer that waits is the waiter of all that its occupants do while it waits: that is
    contention where the occupant has another rank. What an occupant did before the waiter came is
    charged to the occupant itself. Returns the `seconds` and the `names` of :class:`PathRows`.
    """
    work = history.work
    operations, predecessors, routes, network, _ = work
    route, indptr, links, nodes = routes
    times, fair, store_and_forward = history.times, history.fair, history.store_and_forward
    start, cause, finish = times.start, times.cause, times.finish
    sender, nbytes, latency = history.sender, operations.nbytes, network.latency
    rows = PathRows(np.empty((_FIRST, 2)), np.empty((_FIRST, 7), np.int32), np.zeros(1, np.int64))
    # at the start of the node, or without one at the finish of the operation
    i, node = np.int64(last), np.int64(_NONE)
    # who waits for the node to start, at which node, and since when
    waiter, place, since = i, node, np.inf
    while i >= 0:
        arrived, hop, used = False, node - nodes[i], rows.used[0]
        first, end = indptr[route[i]], indptr[route[i] + 1]
        if used + end - first + _ROOM > len(rows.seconds):
            seconds = np.empty((2 * used + end - first + _ROOM, 2))
            names = np.empty((len(seconds), 7), np.int32)
            copy(rows.seconds, seconds, used)
            copy(rows.names, names, used)
            rows = PathRows(seconds, names, rows.used)
        if node == _NONE:
            node = np.int64(nodes[i + 1] - 1)
            arrived = node - nodes[i] < end - first
            if not arrived:
                serve(work, sender, rows, i, PathWait(i, 0.0, _NONE, _NONE))
        elif cause[node] >= 0:
            if since >= start[node]:
                waiter, place = i, node
                since = ready_at(routes, network, times, nbytes[i], i, hop, fair, store_and_forward)
            occupant = np.int64(cause[node])
            holder = np.int64(owner(nodes, occupant))
            at = indptr[route[holder]] + occupant - nodes[holder]
            wait = PathWait(waiter, start[node] - since, occupant, place)
            if at < indptr[route[holder] + 1]:
                busy = start[occupant], start[node]
                medium = shared(network, links[at], links[first + hop], nbytes[holder], busy)
                cross(sender, nbytes, network, rows, holder, medium, wait)
            else:
                serve(work, sender, rows, holder, wait)
            i, node = holder, occupant
            continue
        elif hop == 0:
            i, node = np.int64(latest(predecessors, finish, nodes, i)), np.int64(_NONE)
        elif hop == end - first:
            arrived = True
        else:
            at = first + hop - 1
            fly(links, latency, rows, i, at)
            if store_and_forward:
                medium = longest(network, links[at], nbytes[i])
                cross(sender, nbytes, network, rows, i, medium, PathWait(i, 0.0, _NONE, _NONE))
            node -= 1
        if arrived and fair:
            flow(history, rows, i)
            node = np.int64(nodes[i])
        elif arrived:
            slowest, medium, _ = last_hop(routes, network, start, nbytes[i], i)
            for at in range(end - 1, slowest - 1, -1):
                fly(links, latency, rows, i, at)
            cross(sender, nbytes, network, rows, i, medium, PathWait(i, 0.0, _NONE, _NONE))
            node = np.int64(nodes[i] + slowest - first)
        since = np.inf
    return rows.seconds[: rows.used[0]], rows.names[: rows.used[0]]


def copy(source: npt.NDArray[Any], target: npt.NDArray[Any], rows: Index) -> None:
    """Copy rows. Numba takes a second to compile an assignment of slices."""
    for row in range(rows):
        for column in range(source.shape[1]):
            target[row, column] = source[row, column]


# What fills the path.


def add(
    rows: PathRows,
    part: int,
    duration: float,
    i: Index,
    where: Index,
    amount: float,
    wait: PathWait,
    contended: bool,
) -> None:
    """One more segment."""
    row = rows.used[0]
    rows.seconds[row, 0], rows.seconds[row, 1] = duration, amount
    rows.names[row, 0], rows.names[row, 1], rows.names[row, 2] = part, i, where
    rows.names[row, 3], rows.names[row, 4] = wait.waiter, contended
    rows.names[row, 5], rows.names[row, 6] = wait.occupant, wait.node
    rows.used[0] += 1


def charge(
    sender: Ints,
    rows: PathRows,
    part: int,
    duration: float,
    i: Index,
    where: Index,
    amount: float,
    wait: PathWait,
) -> None:
    """What an operation did while another one waited for the last seconds of it, or for more."""
    contended = wait.occupant != _NONE and sender[wait.occupant] != sender[wait.node]
    alone = PathWait(i, 0.0, _NONE, _NONE)
    if not contended or wait.seconds >= duration:
        add(rows, part, duration, i, where, amount, wait, contended)
    elif wait.seconds <= 0.0:
        add(rows, part, duration, i, where, amount, alone, False)
    else:
        late = amount * (wait.seconds / duration)
        add(rows, part, wait.seconds, i, where, late, wait, True)
        add(rows, part, duration - wait.seconds, i, where, amount - late, alone, False)


def cross(
    sender: Ints,
    nbytes: Floats,
    network: Network,
    rows: PathRows,
    i: Index,
    medium: Index,
    wait: PathWait,
) -> None:
    """The bytes and the gap of a transfer on a medium."""
    taken = nbytes[i] / network.bandwidth[medium]
    rest = PathWait(wait.waiter, wait.seconds - taken, wait.occupant, wait.node)
    charge(sender, rows, SERIALISATION, taken, i, medium, nbytes[i], wait)
    charge(sender, rows, GAP, network.gap[medium], i, medium, 1.0, rest)


def fly(links: Ints, latency: Floats, rows: PathRows, i: Index, at: Index) -> None:
    """The latency of a link on the way."""
    add(rows, LATENCY, latency[links[at]], i, links[at], 1.0, PathWait(i, 0.0, _NONE, _NONE), False)


def serve(work: Work, sender: Ints, rows: PathRows, i: Index, wait: PathWait) -> None:
    """A computation, or the work at the end of a transfer."""
    operations, ranks = work.operations, work.ranks
    part, amount, where, cost = COMPUTATION, operations.seconds[i], operations.rank[i], 1.0
    if operations.kind[i] != COMPUTE:
        amount, where = operations.nbytes[i], operations.peer[i]
        part = REDUCTION if operations.reduces[i] else COPY
        cost = ranks.reduction[where] if operations.reduces[i] else ranks.copy[where]
    charge(sender, rows, part, amount * cost, i, where, amount, wait)


def flow(history: History, rows: PathRows, i: Index) -> None:
    """From the arrival of a flow to its beginning: its own bytes, those of others meanwhile, the
    gap."""
    operations, _, routes, network, _ = history.work
    times, sender, nbytes = history.times, history.sender, operations.nbytes[i]
    begin, end = routes.indptr[routes.route[i]], routes.indptr[routes.route[i] + 1]
    wait = PathWait(i, 0.0, _NONE, _NONE)
    slowest = widest = network.media[network.indptr[routes.links[begin]]]
    most = crossings(routes, network, sender, i, 0, slowest) * nbytes
    for at in range(end - 1, begin - 1, -1):
        link = routes.links[at]
        fly(routes.links, network.latency, rows, i, at)
        for k in range(network.indptr[link], network.indptr[link + 1]):
            m = network.media[k]
            crossed = crossings(routes, network, sender, i, at - begin, m) * nbytes
            seconds, longest_yet = crossed / network.bandwidth[m], most / network.bandwidth[slowest]
            if (seconds, -m) > (longest_yet, -slowest):
                slowest, most = m, crossed
            if (network.gap[m], -m) > (network.gap[widest], -widest):
                widest = m
    bandwidth = network.bandwidth[slowest]
    took = times.sent[i] - times.start[routes.nodes[i]]
    alone = min(took, most / bandwidth)
    contention = history.others[i] * (took - alone)
    behind = took - alone - contention
    add(rows, SERIALISATION, alone, i, slowest, most, wait, False)
    if behind > 0.0:
        add(rows, SERIALISATION, behind, i, slowest, behind * bandwidth, wait, False)
    if contention > 0.0:
        add(rows, SERIALISATION, contention, i, slowest, contention * bandwidth, wait, True)
    add(rows, GAP, network.gap[widest], i, widest, 1.0, wait, False)


# What the path is read from.


def hold_time(network: Network, medium: Index, nbytes: float) -> float:
    """How long a transfer holds a medium."""
    return network.gap[medium] + nbytes / network.bandwidth[medium] + network.grid - network.grid


def longest(network: Network, link: Index, nbytes: float) -> Index:
    """Of the media on a link: the one that a transfer holds longest."""
    slowest = network.media[network.indptr[link]]
    for k in range(network.indptr[link], network.indptr[link + 1]):
        if hold_time(network, network.media[k], nbytes) > hold_time(network, slowest, nbytes):
            slowest = network.media[k]
    return slowest


def last_hop(
    routes: Routes, network: Network, start: Floats, nbytes: float, i: Index
) -> tuple[Index, Index, float]:
    """The place on the route of the hop whose bytes arrive last, its medium, and when they
    arrive."""
    begin, end = routes.indptr[routes.route[i]], routes.indptr[routes.route[i] + 1]
    slowest, medium, arrival = begin, network.media[0], -1.0
    for at in range(begin, end):
        link = routes.links[at]
        narrowest = longest(network, link, nbytes)
        passed = start[routes.nodes[i] + at - begin] + hold_time(network, narrowest, nbytes)
        if passed > arrival:
            slowest, medium, arrival = at, narrowest, passed
        arrival += network.latency[link]
    return slowest, medium, arrival


def crossings(
    routes: Routes, network: Network, sender: Ints, i: Index, hop: Index, medium: Index
) -> int:
    """How often the route of a transfer crosses a medium that it crosses at a hop. In a folded
    schedule, a hop with another sender crosses another medium of the orbit."""
    times, first, begin = 0, routes.nodes[i], routes.indptr[routes.route[i]]
    for other in range(routes.indptr[routes.route[i] + 1] - begin):
        if sender[first + other] == sender[first + hop]:
            link = routes.links[begin + other]
            for k in range(network.indptr[link], network.indptr[link + 1]):
                times += network.media[k] == medium
    return times


def shared(
    network: Network, link: Index, other: Index, nbytes: float, busy: tuple[float, float]
) -> Index:
    """Of the media that two links share: the one that a transfer held from the first time until
    about the second."""
    medium, nearest = _NONE, np.inf
    for k in range(network.indptr[link], network.indptr[link + 1]):
        for n in range(network.indptr[other], network.indptr[other + 1]):
            m = network.media[k]
            if m == network.media[n]:
                off = abs(busy[0] + hold_time(network, m, nbytes) - busy[1])
                if (off, m) < (nearest, medium):
                    medium, nearest = m, off
    return medium


def owner(nodes: Ints, node: Index) -> Index:
    """The operation of a node, by halving. With `np.searchsorted`, Numba's array functions and
    scipy would be imported wherever the compiled walk is loaded."""
    low, high = 0, len(nodes)
    while low < high:
        middle = (low + high) // 2
        if nodes[middle] <= node:
            low = middle + 1
        else:
            high = middle
    return low - 1


def latest(predecessors: Csr, finish: Floats, nodes: Ints, i: Index) -> Index:
    """The predecessor that finished last, or -1: of several the one with most hops, then the first.

    In a folded schedule they may have another order, but they have as many hops.
    """
    last, most = _NONE, 0
    for p in range(predecessors.indptr[i], predecessors.indptr[i + 1]):
        before = predecessors.indices[p]
        hops = nodes[before + 1] - nodes[before]
        if last == _NONE or (finish[before], hops) > (finish[last], most):
            last, most = before, hops
    return last


def ready_at(
    routes: Routes,
    network: Network,
    times: Times,
    nbytes: float,
    i: Index,
    hop: Index,
    fair: bool,
    store_and_forward: bool,
) -> float:
    """When a node of an operation was ready to start."""
    begin, end = routes.indptr[routes.route[i]], routes.indptr[routes.route[i] + 1]
    if hop == 0:
        return times.ready[i]
    if hop == end - begin and fair:
        arrival = times.sent[i]
        for at in range(begin, end):
            arrival += network.latency[routes.links[at]]
        return arrival
    if hop == end - begin:
        return last_hop(routes, network, times.start, nbytes, i)[2]
    link, before = routes.links[begin + hop - 1], times.start[routes.nodes[i] + hop - 1]
    entered = (
        hold_time(network, longest(network, link, nbytes), nbytes) if store_and_forward else 0.0
    )
    return before + entered + network.latency[link]
