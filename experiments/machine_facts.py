"""Facts about a machine: counts, distances and bounds, as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from simulator.analysis.bounds import best_bound
from simulator.collectives import collective
from topologies.columns import distinct_rows, plain_rows
from topologies.topology import Flags, Ints, Longs, Topology

SIZE = 2.0**30
"""V of the bounds, in bytes."""
COLLECTIVES = (
    collective.ALL_REDUCE,
    collective.REDUCE_SCATTER,
    collective.ALL_GATHER,
    collective.ALL_TO_ALL,
    collective.BROADCAST,
    collective.REDUCE,
)
PAIRS, BOUNDS = 1024, 16_384
"""Up to this many ranks, distances and rings are computed, and collectives are bounded. Beyond, it
takes more than seconds."""


class LinkGroup(NamedTuple):
    """Links of one kind with the same figures."""

    kind: str
    bandwidth_Bps: float
    latency_s: float
    gap_s: float
    assumed: bool
    """Whether the figures come from the table of link kinds."""
    duplex: bool
    """Whether a link stands for both directions of a full-duplex link."""
    number: int
    """The number of links."""


def facts(topology: Topology) -> dict[str, Any]:
    """All facts about a topology that can be computed within seconds. Others are None or empty:
    `skipped` says why."""
    from topologies.cuts import bisection, diameter
    from topologies.ring_search import find_rings

    skipped = _skipped(topology)
    far = None if "diameter" in skipped else diameter(topology)
    half = None if "bisection" in skipped else bisection(topology)
    rings = None if "rings" in skipped else find_rings(topology, topology.ranks)
    return {
        "name": topology.name,
        "ranks": topology.ranks,
        "nodes": len(np.unique(topology.node[topology.node >= 0])),
        "paths": topology.paths,
        "devices": _kinds(topology, np.ones(len(topology.device_names), dtype=np.bool_)),
        "in_network": _kinds(topology, topology.in_network),
        "links": [group._asdict() for group in link_groups(topology)[0]],
        "media": _media(topology),
        "diameter_hops": far and far.hops,
        "diameter_s": far and far.latency,
        "bisection_Bps": half and half.bandwidth,
        "bisection_exact": half and half.exact,
        "rings": rings.orders.tolist() if rings else [],
        "rings_Bps": rings and rings.bandwidth,
        "bounds": [] if "bounds" in skipped else [*_bounds(topology)],
        "skipped": skipped,
        "notes": list(topology.notes),
    }


def link_groups(topology: Topology) -> tuple[list[LinkGroup], Ints]:
    """The links by kind and figures, fastest first, and the group of each link.

    The group is -1 for the second direction of a full-duplex link.

    >>> from topologies.shapes import ring
    >>> [group.number for group in link_groups(ring(5, bandwidth=1e9))[0]]
    [5]
    """
    figures = topology.bandwidth, topology.latency, topology.medium_gap[: topology.links]
    alike = distinct_rows(*figures, topology.link_kinds.codes, topology.assumed)[1]
    twin = _ways_back(topology)
    duplex = (twin >= 0) & (alike[twin] == alike)
    counted = np.flatnonzero(~duplex | (topology.source < topology.target))
    first, number = distinct_rows(alike[counted], duplex[counted])
    groups = [
        LinkGroup(
            topology.link_kinds[link],
            float(topology.bandwidth[link]),
            float(topology.latency[link]),
            float(topology.medium_gap[link]),
            bool(topology.assumed[link]),
            bool(duplex[link]),
            n,
        )
        for link, n in plain_rows(counted[first], np.bincount(number))
    ]
    order = sorted(range(len(groups)), key=lambda k: (-groups[k].bandwidth_Bps, groups[k]))
    group = np.full(topology.links, -1, dtype=np.int32)
    group[counted] = np.argsort(order)[number]
    return [groups[k] for k in order], group


def _skipped(topology: Topology) -> dict[str, str]:
    ranks = topology.ranks
    if ranks < 2:
        return dict.fromkeys(("diameter", "bisection", "rings", "bounds"), "there are no two ranks")
    skipped: dict[str, str] = {}
    if ranks > PAIRS:
        skipped |= dict.fromkeys(("diameter", "rings"), f"not looked for beyond {PAIRS} ranks")
    if ranks > BOUNDS:
        skipped["bounds"] = f"not looked for beyond {BOUNDS} ranks"
    return skipped


def _kinds(topology: Topology, chosen: Flags) -> dict[str, int]:
    kinds = topology.device_kinds
    counts = {kind: int((kinds.are(kind) & chosen).sum()) for kind in kinds.vocabulary}
    return {kind: count for kind, count in counts.items() if count}


def _media(topology: Topology) -> list[dict[str, Any]]:
    """The media that several links share, and how many do."""
    users = np.bincount(topology.link_media, minlength=len(topology.medium_bandwidth))
    return [
        {
            "name": name,
            "bandwidth_Bps": float(topology.medium_bandwidth[medium]),
            "gap_s": float(topology.medium_gap[medium]),
            "links": int(users[medium]),
        }
        for medium, name in enumerate(topology.shared_names, topology.links)
    ]


def _bounds(topology: Topology) -> Iterator[dict[str, Any]]:
    """The best lower bound on the time of each collective."""
    for each in COLLECTIVES:
        bound = best_bound(each, topology, topology.ranks, SIZE)
        about = {"collective": each.name, "size_B": SIZE}
        yield {**about, "time_s": bound.seconds, "bound": bound.name}


def _ways_back(topology: Topology) -> Longs:
    """The link in the other direction of every link, -1 if there is none."""
    devices = len(topology.device_names)
    forth = topology.source.astype(np.int64) * devices + topology.target
    back = topology.target.astype(np.int64) * devices + topology.source
    if not len(forth):
        return forth
    order = np.argsort(forth)
    place = order[np.minimum(np.searchsorted(forth, back, sorter=order), len(order) - 1)]
    return np.where(forth[place] == back, place, -1)
