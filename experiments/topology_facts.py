"""What a topology is, counted: its links by kind and figures, each full-duplex pair as one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from topologies.topology import Ints, Topology


class LinkGroup(NamedTuple):
    """`number` links that are alike: β in bytes/s, α and g in seconds; if `duplex`, one stands for both directions."""

    kind: str
    bandwidth: float
    latency: float
    gap: float
    assumed: bool
    duplex: bool
    number: int


def link_groups(topology: Topology) -> tuple[list[LinkGroup], Ints]:
    """The links by kind and figures, fastest first, and the group of every link; -1 for the way back of a pair.

    >>> from topologies.shapes import ring
    >>> [group.number for group in link_groups(ring(5, bandwidth=1e9))[0]]
    [5]
    """
    columns = (
        *(topology.bandwidth, topology.latency, topology.medium_gap[: topology.links]),
        *(topology.link_kinds.codes, topology.assumed),
    )
    alike = _number(columns)
    twin = _ways_back(topology)
    duplex = (twin >= 0) & (alike[twin] == alike)
    counted = np.flatnonzero(~duplex | (topology.source < topology.target))
    number = _number((alike[counted], duplex[counted]))
    first, count = np.unique(number, return_index=True, return_counts=True)[1:]
    groups = [
        _group(topology, link, bool(duplex[link]), n) for link, n in zip(counted[first], count.tolist(), strict=True)
    ]
    order = sorted(range(len(groups)), key=lambda k: (-groups[k].bandwidth, groups[k]))
    group = np.full(topology.links, -1, dtype=np.int32)
    group[counted] = np.argsort(order)[number]
    return [groups[k] for k in order], group


def _group(topology: Topology, link: int, duplex: bool, count: int) -> LinkGroup:
    return LinkGroup(
        topology.link_kinds[link],
        float(topology.bandwidth[link]),
        float(topology.latency[link]),
        float(topology.medium_gap[link]),
        bool(topology.assumed[link]),
        duplex,
        count,
    )


def _number(columns: tuple[npt.NDArray[np.generic], ...]) -> npt.NDArray[np.int64]:
    """Equal numbers for equal rows."""
    number = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values, code = np.unique(column, return_inverse=True)
        number = np.unique(number * len(values) + code, return_inverse=True)[1]
    return number


def _ways_back(topology: Topology) -> npt.NDArray[np.int64]:
    """The link in the other direction of every link, -1 if there is none."""
    devices = len(topology.device_names)
    there = topology.source.astype(np.int64) * devices + topology.target
    back = topology.target.astype(np.int64) * devices + topology.source
    order = np.argsort(there)
    found = order[np.minimum(np.searchsorted(there, back, sorter=order), len(order) - 1)]
    return np.where(there[found] == back, found, -1)
