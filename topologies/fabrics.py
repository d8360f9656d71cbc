"""Networks of a cluster: how switches join its ports.

Each function adds switches and links to a builder that already has the ports. `ports` are numbers
of devices, shape (nodes, ports of a node), or (nodes,) if every node has one. Most pairs of ports
have several equally short routes. With `TopologyBuilder(name, paths="hash")` senders, receivers and
channels spread over them. With "first" they all queue on the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from math import ceil, inf

import numpy as np
import numpy.typing as npt

from topologies.columns import Numbered
from topologies.errors import InputError
from topologies.link import Link
from topologies.topology import Ints
from topologies.topology_builder import TopologyBuilder

MOST = 2**24
"""The most ranks, ports or links of a machine."""


@dataclass(frozen=True)
class Equipment:
    """The links and switches of a network."""

    link: Link
    """A link from a port to its switch. Links between switches have its bandwidth and gap."""
    switch_latency: float = 0.0
    """α between two switches in seconds."""
    kind: str = "ib"
    """The kind of the links."""
    assumed: bool = False
    """Whether the figures come from a table and not from the machine."""
    in_network: bool = False
    """Whether the switches reduce and multicast (SHARP)."""
    global_latency: float | None = None
    """α between two groups of a dragonfly. None: as between other switches."""


def join_leaf_spine(
    builder: TopologyBuilder,
    ports: npt.ArrayLike,
    equipment: Equipment,
    *,
    ports_per_leaf: int | None = None,
    spines: int | None = None,
    oversubscription: float = 1.0,
) -> None:
    """Ports on leaves in order, node after node, and a link from every leaf to every spine.

    Each of the n uplinks of a leaf carries `ports_per_leaf` * β / (`oversubscription` * n), even if
    the last leaf has free ports. Together they carry what the ports of a full leaf carry, over the
    oversubscription. The default is the smallest switches that join so many ports, without a node
    on two leaves. It has so many spines that no uplink is faster than a port.

    Raises InputError for numbers that are not positive.
    """
    table = _table(ports)
    least, nics = _smallest(lambda half: 2 * half**2, table.size), table.shape[1]
    usual = nics * -(-least // nics)
    size = whole("ports_per_leaf", usual if ports_per_leaf is None else ports_per_leaf)
    leaf = np.arange(table.size) // size
    leaves = _switches(builder, equipment, Numbered(int(leaf[-1]) + 1, ("leaf", "")))
    _to_ports(builder, equipment, table.ravel(), leaves[leaf])
    _to_spines(builder, equipment, leaves, size, spines, oversubscription)


def join_rails(
    builder: TopologyBuilder,
    ports: npt.ArrayLike,
    equipment: Equipment,
    *,
    nodes_per_leaf: int | None = None,
    spines: int | None = None,
    oversubscription: float = 1.0,
) -> None:
    """Port i of every `nodes_per_leaf` nodes on leaf i of their group, so that a rail needs no
    spine within a group.

    Leaves and spines are joined as by :func:`join_leaf_spine`. With `spines=0` (rail-only) there is
    one group, and only the nodes can join ports of different rails. By default a group has up to 32
    nodes, a scalable unit of NVIDIA's DGX SuperPOD. W. Wang and others, "Rail-only: a low-cost
    high-performance network for training LLMs with trillion parameters", 2023.

    Raises InputError for numbers that are not positive, and for several groups without spines.
    """
    table = _table(ports)
    nodes, rails = table.shape
    rail_only = spines is not None and whole("spines", spines, 0) == 0
    # In NVIDIA's DGX SuperPOD the NICs with the same number of 32 nodes share a leaf.
    unit = nodes if rail_only else min(nodes, 32)
    size = whole("nodes_per_leaf", unit if nodes_per_leaf is None else nodes_per_leaf)
    group = np.arange(nodes) // size
    if rail_only and nodes > size:
        raise InputError(
            f"without spines a rail is one leaf: nodes_per_leaf is at least {nodes}, got {size}"
        )
    heads = [(f"rail{rail}.leaf", "") for rail in range(rails)]
    names = Numbered((int(group[-1]) + 1) * rails, *heads)
    leaves = _switches(builder, equipment, names)
    _to_ports(builder, equipment, table, leaves.reshape(-1, rails)[group])
    if not rail_only:
        _to_spines(builder, equipment, leaves, size, spines, oversubscription)


def join_fat_tree(
    builder: TopologyBuilder,
    ports: npt.ArrayLike,
    equipment: Equipment,
    *,
    k: int | None = None,
) -> None:
    """Three stages of switches of k ports, by default of the least k: any half of the ports can
    send to the other at β.

    A pod has k/2 edge switches of k/2 ports, and k/2 aggregation switches. Each edge switch has a
    link to each aggregation switch of its pod. Aggregation switch j of a pod has a link to each of
    the core switches j * k/2, ..., (j + 1) * k/2 - 1. All k pods have k^3/4 ports. Pods and edge
    switches without a port are left out. M. Al-Fares, A. Loukissas, A. Vahdat, "A scalable,
    commodity data center network architecture", SIGCOMM 2008.

    Raises InputError if k is odd or too small.
    """
    flat = _table(ports).ravel()
    least = 2 * _smallest(lambda half: 2 * half**3, len(flat))
    chosen = least if k is None else whole("k", k, 2)
    if chosen % 2 or chosen < least:
        raise InputError(
            f"a fat tree of {len(flat)} ports takes an even k of at least {least}, got {chosen}"
        )
    half = chosen // 2
    edge = np.arange(len(flat)) // half
    pod = np.arange(edge[-1] + 1) // half
    pods = int(pod[-1]) + 1
    _check_links((len(pod) + pods * half) * half)
    edges = _switches(builder, equipment, _placed(len(pod), half, "pod", "edge"))
    names = _placed(pods * half, half, "pod", "aggregation")
    aggregation = _switches(builder, equipment, names).reshape(pods, half)
    core = _switches(builder, equipment, Numbered(half**2, ("core", ""))).reshape(half, half)
    _to_ports(builder, equipment, flat, edges[edge])
    _between(builder, equipment, edges[:, None], aggregation[pod])
    _between(builder, equipment, aggregation[:, :, None], core)


def join_dragonfly(
    builder: TopologyBuilder,
    ports: npt.ArrayLike,
    equipment: Equipment,
    *,
    hosts: int | None = None,
    routers: int | None = None,
    global_links: int | None = None,
    cables: int | None = 1,
    trunk: int = 1,
) -> None:
    """Groups of `routers` with `hosts` ports each. There is a link between every two routers of a
    group, and between every two groups.

    The links of a group to the next group, the one after it, and so on lie on its routers in order.
    Each router has equally many, at most `global_links`. So there are at most routers *
    global_links + 1 groups. Two groups have `cables`; None means as many as `global_links` allow.
    Cables between the same two routers are one link. A link within a group stands for `trunk`
    cables.

    The default is the smallest dragonfly that fits and is balanced: routers = 2 * hosts = 2 *
    global_links. J. Kim, W. J. Dally, S. Scott, D. Abts, "Technology-driven, highly-scalable
    dragonfly topology", ISCA 2008.

    Raises InputError for numbers that are not positive or too small for the ports.
    """
    flat = _table(ports).ravel()
    usual = _smallest(lambda size: 2 * size**2 * (2 * size**2 + 1), len(flat))
    per_router = usual if hosts is None else hosts
    router = np.arange(len(flat)) // whole("hosts", per_router)
    per_group = whole("routers", 2 * per_router if routers is None else routers)
    outside = per_router if global_links is None else global_links
    outside = per_group * whole("global_links", outside)
    groups = int(router[-1]) // per_group + 1
    between = _cables(cables, outside, groups)
    _check_links(groups * per_group * (per_group - 1) // 2 + between * groups * (groups - 1) // 2)
    names = _placed(groups * per_group, per_group, "group", "router")
    table = _switches(builder, equipment, names).reshape(groups, per_group)
    _to_ports(builder, equipment, flat, table.ravel()[router])
    first, second = np.triu_indices(per_group, 1)
    _between(builder, equipment, table[:, first], table[:, second], cables=whole("trunk", trunk))
    ends, together = np.unique(_gateways(table, between), axis=1, return_counts=True)
    latency = equipment.global_latency
    outer = equipment if latency is None else replace(equipment, switch_latency=latency)
    _between(builder, outer, *ends, cables=together)


def whole(what: str, value: int, low: int = 1) -> int:
    """The value. Raises InputError if it is not a whole number from `low` to 2^24."""
    if not isinstance(value, int | np.integer):
        raise InputError(f"{what} must be a whole number, got {value!r}")
    if not low <= value <= MOST:
        raise InputError(
            f"{what} must be at {f'least {low}' if value < low else f'most {MOST}'}, got {value}"
        )
    return int(value)


def _check_links(links: int) -> None:
    if links > MOST:
        raise InputError(
            f"a network of {links} links between switches is too large: {MOST} at most"
        )


def _smallest(capacity: Callable[[int], int], ports: int) -> int:
    return next(size for size in count(1) if capacity(size) >= ports)


def _table(ports: npt.ArrayLike) -> Ints:
    table = np.atleast_1d(np.asarray(ports, dtype=np.int32))
    if not table.size:
        raise InputError("there are no ports to join: a network has at least one")
    return table.reshape(len(table), -1)


def _cables(cables: int | None, outside: int, groups: int) -> int:
    """The number of cables of two groups, if each group has `outside` ports for cables."""
    most = outside // max(1, groups - 1)
    if not most:
        raise InputError(
            f"the ports make {groups} groups, with {outside} global links each at most "
            f"{outside + 1}"
        )
    if cables is not None and whole("cables", cables) > most:
        raise InputError(
            f"cables must be at most {most} with {groups} groups of {outside} global links, got "
            f"{cables}"
        )
    return cables or most


def _gateways(table: Ints, cables: int) -> Ints:
    """The routers at both ends of every cable between two groups, shape (2, cables)."""
    groups, routers = table.shape
    pair, cable = np.triu_indices(groups, 1), np.arange(cables)[:, None]
    distance = pair[1] - pair[0]
    places = [
        ((offset - 1) * cables + cable) * routers // (cables * max(1, groups - 1))
        for offset in (distance, groups - distance)
    ]
    return np.stack(
        [np.ravel(table[group, place]) for group, place in zip(pair, places, strict=True)]
    )


def _placed(count: int, places: int, group: str, switch: str) -> Numbered:
    """Names like "pod0.edge1": a group's number, and the place of a switch in it."""
    return Numbered(count, *((group, f".{switch}{place}") for place in range(places)))


def _switches(builder: TopologyBuilder, equipment: Equipment, names: Numbered) -> Ints:
    return builder.devices(names, "switch", in_network=equipment.in_network)


def _to_ports(builder: TopologyBuilder, equipment: Equipment, ports: Ints, switches: Ints) -> None:
    builder.wire(ports, switches, equipment.link, kind=equipment.kind, assumed=equipment.assumed)


def _between(
    builder: TopologyBuilder,
    equipment: Equipment,
    ends: Ints,
    targets: Ints,
    *,
    cables: npt.ArrayLike = 1,
) -> None:
    """Links between switches, each of some cables. A cable is as fast as a port."""
    link = replace(equipment.link, latency=equipment.switch_latency)
    kind, assumed = equipment.kind, equipment.assumed
    builder.wire(ends, targets, link, cables=cables, kind=kind, assumed=assumed)


def _to_spines(
    builder: TopologyBuilder,
    equipment: Equipment,
    leaves: Ints,
    ports_per_leaf: int,
    spines: int | None,
    oversubscription: float,
) -> None:
    """A link from every leaf to every spine. The uplinks of a leaf together are as fast as its
    ports, or slower.

    A single leaf has spines only if the caller wants them.
    """
    if not 0 < oversubscription < inf:
        raise InputError(f"oversubscription must be above 0, got {oversubscription}")
    if len(leaves) == 1 and spines is None:
        return
    uplinks = ports_per_leaf / oversubscription
    number = whole("spines", ceil(min(uplinks, MOST)) if spines is None else spines)
    _check_links(len(leaves) * number)
    top = _switches(builder, equipment, Numbered(number, ("spine", "")))
    uplink = replace(equipment.link, bandwidth=equipment.link.bandwidth * uplinks / number)
    _between(builder, replace(equipment, link=uplink), leaves[:, None], top)
