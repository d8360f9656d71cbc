"""What limits the plateau of bandwidth: the ports of a node, or the links of a GPU."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments.measurements import Curve
from experiments.measurements.collectives import bus_factor
from experiments.measurements.networks import INFINIBAND, SLINGSHOT
from experiments.output import counted
from topologies.topology import Topology
from topologies.units import format_bandwidth

FULL_SHARE = 0.7
"""A share of the line rate from which on links count as used."""
_PORTS = (1.25, 3.125, 12.5, 25.0, 50.0, 100.0)
"""GB/s of usual ports, one way."""
_GENERATIONS = {
    "": {12.5: "EDR", 25.0: "HDR, Slingshot-11", 50.0: "NDR", 100.0: "XDR"},
    INFINIBAND: {12.5: "EDR", 25.0: "HDR", 50.0: "NDR", 100.0: "XDR"},
    SLINGSHOT: {12.5: "Slingshot-10", 25.0: "Slingshot-11"},
}
"""What ports of each network are called; of one that nobody knows under ""."""
_GPUS = {
    "V100": ("NVLink 2", 6, 25.0),
    "A100": ("NVLink 3", 12, 25.0),
    "H100": ("NVLink 4", 18, 26.6),
    "H200": ("NVLink 4", 18, 26.6),
    "GB200": ("NVLink 5", 18, 50.0),
    "B200": ("NVLink 5", 18, 50.0),
    "MI300X": ("Infinity Fabric", 7, 64.0),
    "MI355X": ("Infinity Fabric", 7, 76.8),
    "RTX": ("PCIe x16", 1, 63.0),
}
"""Links of a GPU and GB/s of each on the wire, one way."""


class Links(NamedTuple):
    """Links that carry what leaves a node or a GPU."""

    name: str
    number: int
    rate: float
    """Bytes/s of one link in one direction."""
    place: str
    sure: bool = True
    """Whether a file or a machine names them."""
    guess: str = ""
    """How they were guessed, and what would give the same rate."""


class Plateau(NamedTuple):
    """The plateau of bandwidth of a curve."""

    rate: float
    """Bytes/s that leave each node or GPU at the best size."""
    links: Links | None
    """The links that carry them."""
    place: str
    host: bool = False
    """Whether the buffers are in the host's memory."""

    @property
    def text(self) -> str:
        """The plateau in words."""
        text = f"{format_bandwidth(self.rate)} a {self.place}"
        if not self.links:
            return text
        guess = f"; {self.links.guess}" if self.links.guess else ""
        return f"{text}: {_words(self.rate, self.links, self.host)}{guess}"

    def without_links(self) -> Plateau:
        """The same if the machine is not the expected one."""
        return self._replace(links=None)


def plateau(curve: Curve, algbw: float, topology: Topology | None) -> Plateau | None:
    """The plateau at the best algbw (bytes/s) of a curve, or None if the ranks are unknown."""
    if not curve.ranks or curve.ranks < 2:
        return None
    alone = nodes_of(curve, topology) == 1 or curve.single_node
    rate = leaving(curve, algbw)
    if topology:
        links = _links_of_topology(topology, alone)
    else:
        links = _links_of_gpu(curve) if alone else _links_of_network(curve, rate)
    if links and links.place == "node":
        links = _at_most_one_per_rank(links, curve, rate)
    place = links.place if links else "GPU" if alone else "node"
    return Plateau(rate, links, place, curve.on_host)


def nodes_of(curve: Curve, topology: Topology | None) -> int:
    """The number of nodes, by the file or else by where the machine puts the ranks."""
    if curve.nodes or topology is None:
        return curve.nodes or 1
    node = topology.node[topology.placement[: curve.ranks]]
    return max(len(np.unique(node[node >= 0])), 1)


def leaving(curve: Curve, algbw: float) -> float:
    """Bytes/s that leave a node if every byte crosses once, as rings and pairs do; a GPU where
    there is one node."""
    ranks, nodes = curve.ranks or 2, curve.nodes or 1
    if curve.collective == "all_to_all" and nodes > 1:
        inside = ranks / nodes
        return algbw * inside * (ranks - inside) / ranks
    return algbw * bus_factor(curve.collective, ranks)


def _at_most_one_per_rank(links: Links, curve: Curve, rate: float) -> Links:
    """No more links than a node has ranks, if so many carry the rate."""
    ranks = max((curve.ranks or 2) // (curve.nodes or 1), 1)
    if rate > 1.05 * ranks * links.rate:
        return links
    return links._replace(number=min(links.number, ranks))


def _words(rate: float, links: Links, host: bool) -> str:
    share = rate / (links.number * links.rate)
    ports = f"{links.number} x {links.name} at {format_bandwidth(links.rate)}"
    if share > 1.05:
        return f"more than {ports}: the library reduces or copies inside nodes first"
    if share >= FULL_SHARE:
        return f"{share:.0%} of {ports}, {'the limit' if links.sure else 'likely the limit'}"
    number = max(1, int(np.ceil(rate / links.rate / 1.03)))
    busy = rate / (number * links.rate) >= FULL_SHARE and number < links.number
    if links.sure and links.place == "node" and busy:
        return f"{share:.0%} of {ports}, as if {number} of {links.number} were used"
    limit = "copies and merging on the host" if host else "algorithm or protocol"
    return f"{share:.0%} of {ports}: {limit} may be the limit"


def _links_of_topology(topology: Topology, alone: bool) -> Links | None:
    home = int(topology.placement[0])
    node = int(topology.node[home])
    if alone or node < 0:
        out = np.flatnonzero(topology.source == home)
    else:
        out = np.flatnonzero(
            (topology.node[topology.source] == node) & (topology.node[topology.target] != node)
        )
    kinds = list(topology.device_kinds)
    peers = [
        link
        for link in out.tolist()
        if kinds[topology.target[link]] in ("gpu", "nvswitch", "switch")
    ] or out.tolist()
    if not peers:
        return None
    rate = float(topology.bandwidth[peers].max())
    fastest = [link for link in peers if topology.bandwidth[link] >= 0.99 * rate]
    kind = list(topology.link_kinds)[fastest[0]]
    return Links(f"{kind} link", len(fastest), rate, "GPU" if alone or node < 0 else "node")


def _links_of_gpu(curve: Curve) -> Links | None:
    for model, (name, number, rate) in _GPUS.items():
        if model in curve.device.upper():
            return Links(name, number, rate * 1e9, "GPU", sure=False)
    return None


def _links_of_network(curve: Curve, rate: float) -> Links:
    """The ports that an index names; else a guess."""
    ranks = (curve.ranks or 2) // (curve.nodes or 1)
    if curve.ports:
        name, bandwidth, number = curve.ports
        return Links(name, ranks if number is None else number, bandwidth, "node")
    return _guess(curve, rate, 1 if curve.on_host else curve.gpus_per_node or max(ranks, 1))


def _guess(curve: Curve, rate: float, gpus: int) -> Links:
    counts = sorted({1, 2, 4, 8, gpus})
    ports = [
        (count, speed) for speed in _PORTS for count in counts if count * speed * 1e9 * 1.03 >= rate
    ]
    ports = ports or [(counts[-1], _PORTS[-1])]

    def unlikely(port: tuple[int, float]) -> tuple[bool, bool, float, float]:
        count, speed = port
        return (
            rate < FULL_SHARE * count * speed * 1e9,
            count > gpus,
            abs(np.log2(count / gpus)),
            speed,
        )

    count, speed = min(ports, key=unlikely)
    equals = [f"{n} x {8 * s:g} Gbit/s" for n, s in ports if n * s == count * speed and n != count]
    words = " or ".join([*([", ".join(equals[:-1])] if equals[1:] else []), *equals[-1:]])
    remark = f"; {words} would give the same" if equals else ""
    method = "a guess" if curve.on_host else f"a guess by {counted(gpus, 'GPU')} a node"
    generation = _GENERATIONS.get(curve.network, {}).get(speed, "")
    name = f"port of {8 * speed:g} Gbit/s{f' ({generation})' if generation else ''}"
    return Links(name, count, speed * 1e9, "node", sure=False, guess=method + remark)
