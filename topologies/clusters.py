"""Nodes joined by a network. Everything is built as columns, so a hundred thousand GPUs take less
than a second."""

from __future__ import annotations

from math import inf
from typing import Literal, get_args

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
from topologies.link_kinds import LINKS, NETWORKS, SWITCH_LATENCY, link_kind
from topologies.machines import MACHINES
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder

Network = Literal["rails", "leaf_spine", "fat_tree", "dragonfly"]
MOST_DEVICES = 2**24
MOST_SPINES = 4096
PORT = "ndr"
"""The default network link of a NIC."""
HALF = 32
"""Ports of a leaf, and routers of a dragonfly group: half of a 64-port switch."""
HOSTS = 16
"""Ports of a router, and its links to other groups. Slingshot's 64-port switch has (recalled) 16
and 17, and 31 within a group. Fewer routers share the 31."""


def cluster(
    machine: str,
    nodes: int = 1,
    *,
    network: str | None = None,
    nics: int | None = None,
    port: str | None = None,
    oversubscription: float = 1.0,
    spines: int | None = None,
    sharp: bool = False,
) -> Topology:
    """`nodes` nodes of a machine, joined as is usual for it or by another network: see
    :func:`joined`.

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
    return joined(
        known.node(nics=nics),
        nodes,
        network=known.network if network is None else network,
        port=known.port if port is None else port,
        oversubscription=oversubscription,
        spines=spines,
        sharp=sharp,
    )


def joined(
    node: Topology,
    nodes: int = 1,
    *,
    network: str = "leaf_spine",
    port: str | None = None,
    oversubscription: float = 1.0,
    spines: int | None = None,
    sharp: bool = False,
) -> Topology:
    """Copies of a node whose devices of kind "port", or else "nic", lead to the network. One node
    stays as it is.

    `network` is "rails" (NIC i of every node on the leaf of rail i, a leaf for 32 nodes; 0 spines:
    rail-only), "leaf_spine", "fat_tree" or "dragonfly"; `port` the kind of the NICs' network link
    (a name in :data:`topologies.link_kinds.LINKS`), where None assumes "ndr"; `oversubscription` by
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
    if network in ("fat_tree", "dragonfly") and (oversubscription != 1 or spines is not None):
        raise InputError(
            f"a {network} takes no oversubscription and no spines: leave them out, or take rails "
            f"or leaf_spine"
        )
    equipment = _equipment(port, sharp)
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
    if network == "rails":
        join_rails(
            builder,
            ports,
            equipment,
            spines=spines,
            oversubscription=oversubscription,
        )
    elif network == "leaf_spine":
        join_leaf_spine(
            builder,
            ports,
            equipment,
            ports_per_leaf=HALF,
            spines=spines,
            oversubscription=oversubscription,
        )
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
        f"{PORT} assumed for the network's links: name theirs with port= ({link_kind(PORT).source})"
        if port is None
        else f"{port}: {link_kind(port).source}",
        f"network: {network}; α between switches assumed",
    ]
    return builder.build((first[:, None] + node.placement[None, :]).ravel())


def _equipment(port: str | None, sharp: bool) -> Equipment:
    networks = [name for name, known in LINKS.items() if known.kind in NETWORKS]
    if port is not None and port not in networks:
        raise InputError(f"port is {port!r}: it is one of {', '.join(networks)}")
    kind = link_kind(port or PORT)
    return Equipment(kind.link, SWITCH_LATENCY, kind.kind, port is None, sharp)
