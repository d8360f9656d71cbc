"""Machines that exist, one node at a time, and nodes joined by a network.

`machines.csv` describes the nodes. Each figure comes from the table of link kinds, or has its
source in a note. The devices of kind "nic", in order, are a node's ports to the network. The ranks
of a node are its GPUs. A hundred thousand GPUs take less than a second, since everything is built
as columns.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from math import inf
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from topologies.errors import InputError
from topologies.fabrics import (
    Equipment,
    join_dragonfly,
    join_fat_tree,
    join_leaf_spine,
    join_rails,
    whole,
)
from topologies.link import LINKS, NETWORKS, Link, link_kind
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder

Network = Literal["rails", "leaf_spine", "fat_tree", "dragonfly"]
MOST_DEVICES = 2**24
MOST_SPINES = 4096
PORT = "ndr"
"""The default network link of a NIC."""
SWITCH_LATENCY = 0.15e-6
"""α between two network switches: about one InfiniBand switch, port to port (130 ns, recalled, of
NVIDIA Quantum)."""
HALF = 32
"""Ports of a leaf, and routers of a dragonfly group: half of a 64-port switch."""
HOSTS = 16
"""Ports of a router, and its links to other groups. Slingshot's 64-port switch has (recalled) 16
and 17, and 31 within a group. Fewer routers share the 31."""
CUBE = {
    1: ((0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)),
    2: ((0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)),
}
"""Pairs of GPUs of a DGX-1 with V100 by the number of NVLinks between them."""


@dataclass(frozen=True)
class NodeKind:
    """A kind of node, and how several are joined by default."""

    name: str
    network: str
    """How its NICs are joined, a value of `network=`."""
    port: str
    """The kind of network link of its NICs."""
    nvlink: str
    """The kind of link between GPUs."""
    joint: Literal["none", "cube", "mesh", "nvswitch", "nvls"]
    """What joins the GPUs: links between every two, or NVSwitches, which with NVLS reduce and
    multicast."""
    links: int
    """Links of a GPU to each peer, or to all NVSwitches."""
    gpus: int
    nics: int
    sockets: int
    switches: int
    """PCIe switches."""
    pcie: str
    socket: str
    """The kind of link between CPUs, or nothing."""
    host: str
    """The kind of link between a GPU and its PCIe switch or CPU."""
    source: str
    """A note on figures of no link kind."""
    summary: str
    """A sentence that describes the machine."""

    def node(self, *, nics: int | None = None, p2p: bool = True) -> Topology:
        """A node with so many NICs, by default as many as the machine has.

        PCIe switches are shared out evenly and in order over the CPUs, and GPUs and NICs over the
        PCIe switches, or else over the CPUs. Without `p2p` GPUs and NICs do not read each other's
        memory: all goes up to a CPU and down again, and no NVLink is used.

        >>> machine = MACHINES["dgx1"].node()
        >>> [float(machine.bandwidth[machine.route(0, peer)[0]]) / 1e9 for peer in (1, 3)]
        [20.0, 40.0]
        """
        if nics is not None and (nics % 1 or not 0 <= nics <= 1024):
            raise InputError(f"nics is {nics}: a node has 0 to 1024 NICs")
        builder = TopologyBuilder(self.name, paths="rail")
        above = [builder.device(f"cpu{k}", "cpu", node=0) for k in range(self.sockets)]
        down = above
        for pair in combinations(above, 2) if self.socket else ():
            _connect(builder, *pair, self.socket)
        for stem, kind, link, count in (
            ("pcie", "pcie switch", self.pcie, self.switches),
            ("gpu", "gpu", self.host, self.gpus),
            ("nic", "nic", self.pcie, self.nics if nics is None else nics),
        ):
            below = [builder.device(f"{stem}{k}", kind, node=0) for k in range(count)]
            onto = below
            if stem == "pcie" and not p2p:
                # what comes up leaves a switch upwards alone
                onto = [builder.device(f"{name} down", kind, node=0) for name in below]
            for number, name in enumerate(below):
                place = number * len(above) // count
                _connect(builder, name, above[place], link, back=(down[place], onto[number]))
            if stem == "pcie" and below:
                above, down = below, onto
        gpus = [f"gpu{k}" for k in range(self.gpus)]
        if p2p:
            self._join(builder, gpus)
        elif self.switches:
            builder.notes.append("no peer access: a PCIe switch is two devices, one for each way")
        builder.notes += [self.source] * bool(self.source)
        return builder.build(gpus)

    def _join(self, builder: TopologyBuilder, gpus: list[str]) -> None:
        """Add the NVLinks between the GPUs of a node, and its NVSwitches."""
        mesh = {self.links: combinations(range(self.gpus), 2)} if self.joint == "mesh" else {}
        for links, pairs in (CUBE if self.joint == "cube" else mesh).items():
            for first, second in pairs:
                _connect(builder, gpus[first], gpus[second], self.nvlink, links)
        if self.joint in ("nvswitch", "nvls"):
            # All NVSwitches as one that does not block: every GPU has links to each of them.
            reduces = self.joint == "nvls"
            switch = builder.device("nvswitch", "nvswitch", node=0, in_network=reduces)
            for gpu in gpus:
                _connect(builder, gpu, switch, self.nvlink, self.links, hops=2)


def _connect(
    builder: TopologyBuilder,
    first: str,
    second: str,
    name: str,
    links: int = 1,
    hops: int = 1,
    back: tuple[str, str] | None = None,
) -> None:
    """`links` links as one; through a switch each of the `hops` takes its part of the latency.
    `back` are the ends of the way back, if they are not the same."""
    kind = link_kind(name)
    link = Link(links * kind.link.bandwidth, kind.link.latency / hops)
    for ends in ((first, second), back or (second, first)):
        builder.link(*ends, link, kind=kind.kind)
    note = f"{name}: {kind.source}"
    if note not in builder.notes:
        builder.notes.append(note)


_TABLE = Path(__file__).with_name("machines.csv").read_text(encoding="utf-8")
_ROWS: Iterable[dict[str, Any]] = csv.DictReader(_TABLE.splitlines())
_WHOLE = ("links", "gpus", "nics", "sockets", "switches")
MACHINES = {
    row["name"]: NodeKind(**row | {column: int(row[column]) for column in _WHOLE}) for row in _ROWS
}
"""The machines by name, as `--topology` takes them."""


def cluster(
    machine: str,
    nodes: int = 1,
    *,
    nics: int | None = None,
    p2p: bool = True,
    **network: Any,
) -> Topology:
    """`nodes` nodes of a machine. The options of `network` are those of :func:`joined`: what is
    None, or not there, is as is usual for the machine.

    >>> cluster("hgx_h100", 2).ranks
    16
    """
    if machine not in MACHINES:
        raise InputError(f"{machine!r} is no machine: there are {', '.join(MACHINES)}")
    known = MACHINES[machine]
    if nics == 0 and nodes > 1:
        raise InputError(
            f"{machine} has no NIC to join {nodes} nodes by: give nics=1 or more, or leave nics out"
        )
    given = {name: value for name, value in network.items() if value is not None}
    usual = {"network": known.network, "port": known.port}
    return joined(known.node(nics=nics, p2p=p2p), nodes, **usual | given)


def joined(
    node: Topology,
    nodes: int = 1,
    *,
    network: str = "leaf_spine",
    port: str | None = None,
    oversubscription: float = 1.0,
    spines: int | None = None,
    nodes_per_leaf: int | None = None,
    sharp: bool = False,
) -> Topology:
    """Copies of a node whose devices of kind "port", or else "nic", lead to the network. One node
    stays as it is.

    `network` is "rails" (NIC i of every node on the leaf of rail i, a leaf for 32 nodes; 0 spines:
    rail-only), "leaf_spine", "fat_tree" or "dragonfly"; `port` the kind of the NICs' network link
    (a name in :data:`topologies.link.LINKS`), where None assumes "ndr"; `oversubscription` by
    how much the uplinks of a leaf are slower together than its ports; with `sharp` the network's
    switches reduce and multicast. Several nodes have the paths "rail".
    """
    if network not in get_args(Network):
        raise InputError(f"network is {network!r}: it is one of {', '.join(get_args(Network))}")
    most = MOST_DEVICES // len(node.device_names)
    if nodes % 1 or not 1 <= nodes <= most:
        raise InputError(f"nodes is {nodes}: {node.name} comes 1 to {most} times")
    if not 0 < oversubscription < inf:
        raise InputError(f"oversubscription must be above 0, got {oversubscription}")
    if spines is not None and whole("spines", spines, 0) > MOST_SPINES:
        raise InputError(f"spines is {spines}: {MOST_SPINES} at most")
    if nodes_per_leaf is not None:
        whole("nodes_per_leaf", nodes_per_leaf)
    uplinked = oversubscription != 1 or spines is not None or nodes_per_leaf is not None
    if network in ("fat_tree", "dragonfly") and uplinked:
        raise InputError(
            f"a {network} takes no oversubscription, no spines and no nodes_per_leaf: leave them "
            f"out, or take rails or leaf_spine"
        )
    networks = [name for name, known in LINKS.items() if known.kind in NETWORKS]
    if port is not None and port not in networks:
        raise InputError(f"port is {port!r}: it is one of {', '.join(networks)}")
    figures = link_kind(port or PORT)
    equipment = Equipment(figures.link, SWITCH_LATENCY, figures.kind, port is None, sharp)
    if nodes == 1:
        return node
    if node.node.max(initial=0) > 0:
        raise InputError(
            f"{node.name} has {node.node.max() + 1} nodes already: it is not joined again"
        )
    kind = "port" if "port" in node.device_kinds.vocabulary else "nic"
    nics = np.flatnonzero(node.device_kinds.are(kind)).astype(np.int32)
    if not len(nics):
        add = "add a nic and its link to the file (simctl topo import writes YAML)"
        raise InputError(f"{node.name} has no NIC to join {nodes} nodes by: {add}")
    builder = TopologyBuilder(f"{nodes} x {node.name}", paths="rail")
    first = builder.copies(node, nodes)
    ports = first[:, None] + nics[None, :]
    uplinks: dict[str, Any] = {"spines": spines, "oversubscription": oversubscription}
    if network == "rails":
        join_rails(builder, ports, equipment, nodes_per_leaf=nodes_per_leaf, **uplinks)
    elif network == "leaf_spine":
        on_leaf = HALF if nodes_per_leaf is None else nodes_per_leaf * len(nics)
        join_leaf_spine(builder, ports, equipment, ports_per_leaf=on_leaf, **uplinks)
    elif network == "fat_tree":
        join_fat_tree(builder, ports, equipment)
    else:
        routers = min(HALF, -(-ports.size // HOSTS))
        trunk = (HALF - 1) // max(1, routers - 1)
        join_dragonfly(
            builder,
            ports,
            equipment,
            hosts=HOSTS,
            routers=routers,
            global_links=HOSTS,
            cables=None,
            trunk=trunk,
        )
    builder.notes += [
        *node.notes,
        f"{port}: {figures.source}"
        if port
        else f"{PORT} assumed for the network's links: name theirs with port= ({figures.source})",
        f"network: {network}; α between switches assumed",
    ]
    return builder.build((first[:, None] + node.placement[None, :]).ravel())
