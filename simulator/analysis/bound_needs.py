"""What lower bounds need: the bytes that a collective must move between groups of devices, the
latency between the farthest ranks, and what two halves of the ranks can send each other."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from simulator.collectives.collective import Collective, Pairs
from topologies.capacity import congestion, max_flow
from topologies.columns import owners, sums
from topologies.errors import InputError
from topologies.routing import distances
from topologies.topology import Flags, Floats, Ints, Longs, Topology

Shares = Floats | Longs | Flags
EXACT_WORKERS = 256
"""Up to so many workers, the latency is that of the farthest two. Beyond, a few sweeps look for
them."""
_ROWS: WeakKeyDictionary[Topology, dict[int, Floats]] = WeakKeyDictionary()
"""The distances from some ranks, as long as their topology is in use."""
_FLOWS: WeakKeyDictionary[Topology, dict[tuple[int, bool], float]] = WeakKeyDictionary()
"""The flows between halves of ranks, as long as their topology is in use."""


class Needs(NamedTuple):
    """Bytes that must leave and enter each group of devices, and all that must go from group to
    group. The unit is V."""

    leave: Floats
    enter: Floats
    total: float


def needs(collective: Collective, group: Ints, groups: int) -> Needs:
    """The bytes that `collective` must move between groups of devices. Worker r is in `group[r]`.

    A group of k of p workers must get the data that it lacks, and must send the data that others
    lack:

    - All-gather: k/p of V leave the group, and (p - k)/p enter it.
    - Reduce-scatter: the reverse, since a group may merge data before it sends them.
    - All-reduce: V leaves and enters each of m groups, and 2(m - 1)V move in all. Until some group
      knows the sum of a byte, each other group has sent something. After that, each other group
      receives something.
    """
    workers = np.bincount(group, minlength=groups)
    occupied = workers > 0
    if collective.pairs is not None:
        leave, enter = _of_pairs(collective.pairs(len(group)), collective.merges, group, groups)
    else:
        share = weights(collective, group, groups)
        root = np.arange(groups) == group[0]
        leave, enter = _leave_and_enter(collective.family, group, share, occupied, root)
    split = float(np.count_nonzero(occupied) > 1)
    total = (
        2.0 * (np.count_nonzero(occupied) - 1)
        if collective.name == "all_reduce"
        else max(leave.sum(), enter.sum())
    )
    out, into = (np.asarray(split * column, dtype=np.float64) for column in (leave, enter))
    return Needs(out, into, split * float(total))


def weights(collective: Collective, group: Ints, groups: int) -> Floats:
    """The chunks of the ranks of each group, as shares of V."""
    if collective.shares is None:
        return np.bincount(group, minlength=groups) / len(group)
    return sums(group, collective.shares(len(group)), groups)


def _of_pairs(pairs: Pairs, merges: bool, group: Ints, groups: int) -> tuple[Shares, Shares]:
    """What pairs send between groups: all of it, or a single sum if messages may be merged."""
    crossing = group[pairs.source] != group[pairs.target]
    leave, enter = (
        np.bincount(group[end[crossing]], pairs.share[crossing], groups)
        for end in (pairs.source, pairs.target)
    )
    return (leave > 0, enter > 0) if merges else (leave, enter)


def _leave_and_enter(
    name: str, group: Ints, share: Floats, occupied: Flags, root: Flags
) -> tuple[Shares, Shares]:
    """The bytes that leave and enter each group, if there are several. `share` has the chunks of
    each group."""
    match name:
        case "all_reduce":
            return occupied, occupied
        case "reduce":
            return occupied & ~root, root
        case "broadcast":
            return root, occupied & ~root
        case "scatter":
            return root * (1.0 - share), share * ~root
        case "gather":
            return share * ~root, root * (1.0 - share)
        case "all_gather":
            return share, occupied * (1.0 - share)
        case "reduce_scatter":
            return occupied * (1.0 - share), share
        case "all_to_all":
            moved = share * len(group) * (occupied * (1.0 - share))
            return moved, moved
        case "ring_exchange":
            blocks = share * len(group)
            return blocks, occupied * (len(group) - blocks)
        case "send_recv":
            later = np.roll(group, -1)
            leave, enter = (
                np.bincount(end[group != later], minlength=len(share)) for end in (group, later)
            )
            return leave, enter
    return np.zeros(len(share)), np.zeros(len(share))


def farthest(collective: Collective, topology: Topology, workers: int) -> float:
    """The latency in seconds between the farthest two of the first `workers` ranks of which one
    must receive data of the other."""
    near = np.arange(min(workers, EXACT_WORKERS), dtype=np.int32)
    if collective.pairs is not None:
        source, target, _ = collective.pairs(workers)
        return _longest_of(topology, source, target)
    match collective.family:
        case "broadcast" | "scatter":
            return float(_row(topology, 0)[:workers].max())
        case "reduce" | "gather":
            return _apart(topology, near, np.zeros_like(near))
        case "send_recv":
            return _apart(topology, near, (near + 1) % workers)
        case "all_reduce" | "reduce_scatter" | "all_gather" | "all_to_all":
            return _diameter(topology, workers)
        case "barrier" | "ring_exchange":
            return _diameter(topology, workers)
    return 0.0


def is_exact(collective: Collective, workers: int) -> bool:
    """Whether :func:`farthest` looks at all ranks."""
    return workers <= EXACT_WORKERS or collective.family in ("broadcast", "scatter")


def _longest_of(topology: Topology, source: Longs, target: Longs) -> float:
    """The longest distance of pairs, of which the first `EXACT` senders are looked at."""
    sources, place = np.unique(source, return_inverse=True)
    near = np.flatnonzero(place < EXACT_WORKERS)
    if not len(near):
        return 0.0
    rows = distances(topology, sources[:EXACT_WORKERS].astype(np.int32))
    return float(rows[place[near], target[near]].max())


def _diameter(topology: Topology, workers: int) -> float:
    if workers <= EXACT_WORKERS:
        return float(distances(topology, np.arange(workers, dtype=np.int32))[:, :workers].max())
    latency, source = 0.0, 0
    for _ in range(4):
        row = _row(topology, source)[:workers]
        latency, source = max(latency, float(row.max())), int(row.argmax())
    return latency


def _row(topology: Topology, source: int) -> Floats:
    rows = _ROWS.setdefault(topology, {})
    if source not in rows:
        rows[source] = distances(topology, np.array([source], dtype=np.int32))[0]
    return rows[source]


def _apart(topology: Topology, sources: Ints, targets: Ints) -> float:
    # All distances of many devices take long: there the latencies of routes are added up.
    if len(topology.device_names) * len(sources) <= 2**18:
        return float(distances(topology, sources)[np.arange(len(sources)), targets].max())
    try:
        indptr, links = topology.routes(sources, targets)
    except InputError:
        return np.inf
    return float(np.bincount(owners(indptr), topology.latency[links], len(sources)).max())


def flow_between_halves(topology: Topology, workers: int, back: bool) -> float:
    """The most bytes/s from the first half of the ranks to the second, or back."""
    known = _FLOWS.setdefault(topology, {})
    if (workers, back) not in known:
        devices = topology.placement[:workers]
        ends = devices[: workers // 2], devices[workers // 2 :]
        known[workers, back] = max_flow(topology, *(ends[::-1] if back else ends)).bandwidth
    return known[workers, back]


def routes_between_halves(topology: Topology, workers: int, back: bool) -> float:
    """The bytes/s of rank k of the first half to rank k of the second, or back, for all k at once,
    along their routes: not more than the flow.

    It is 0 on machines without nodes, where routes may be long.
    """
    if topology.node.max(initial=-1) < 0:
        return 0.0
    half = np.arange(workers // 2)
    ends = half, half + workers // 2
    seconds = congestion(topology, *(ends[::-1] if back else ends))
    return len(half) / seconds if seconds > 0 else np.inf
