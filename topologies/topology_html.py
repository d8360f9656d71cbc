"""A topology as HTML, for notebooks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from topologies.html_tables import facts, table
from topologies.units import format_bandwidth, format_seconds

if TYPE_CHECKING:
    from topologies.topology import Floats, Topology


def topology_html(topology: Topology) -> str:
    """Its devices, and its links by kind."""
    kinds = Counter(topology.device_kinds)
    nodes = len(np.unique(topology.node[topology.node >= 0]))
    devices = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    values = [("ranks", topology.ranks), ("nodes", nodes or "none"), ("devices", devices)]
    values += [("links", f"{topology.links}, each in one direction")] * (topology.links > 0)
    links = (_links(topology, kind) for kind in dict.fromkeys(topology.link_kinds))
    header = ("links of kind", "number", "bandwidth β", "latency α")
    return facts(topology.name, values) + table(header, links)


def _links(topology: Topology, kind: str) -> tuple[str, int, str, str]:
    chosen = topology.link_kinds.are(kind)
    ends = _ends(topology.bandwidth[chosen]), _ends(topology.latency[chosen])
    rates, delays = map(format_bandwidth, ends[0]), map(format_seconds, ends[1])
    return kind, int(chosen.sum()), " to ".join(rates), " to ".join(delays)


def _ends(values: Floats) -> list[float]:
    """The least and the greatest value, once if they are equal."""
    return sorted({float(values.min()), float(values.max())})
