"""A machine with the ranks of a job on its hosts, which share leaves or racks."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from topologies.catalogue import Blueprint
from topologies.columns import places_in_groups
from topologies.errors import InputError
from topologies.readers.placements import Hosts

TRAY = 4
"""GPUs of a host of a rack of NVLink, if nobody says."""


class Room(NamedTuple):
    """What a machine has for hosts."""

    node: int
    """The GPUs of a node of the machine: of a host, or of a rack."""
    gpus: int
    """The GPUs of a host."""
    hosts: int
    """The hosts of a leaf or rack."""


def room(machine: Blueprint, hosts: Hosts) -> Room:
    """What a machine has for these hosts. Raises InputError if they are no hosts of it."""
    if machine.kind == "shape":
        raise InputError(f"{machine.name} is a shape: hosts are those of a machine or a file")
    one = replace(machine.with_options(nodes=1), placement="node", prefix=False)
    node = one.whole().ranks
    if machine.is_rack:
        gpus = hosts.gpus or TRAY
        return Room(node, gpus, node // gpus)
    if hosts.noun == "rack":
        raise InputError(
            f"{machine.text} has nodes of {node} GPUs, and the hosts are in racks of NVLink, with "
            f"{hosts.gpus} GPUs each: take a machine like nvl72"
        )
    return Room(node, node, hosts.size)


def on_hosts(machine: Blueprint, hosts: Hosts) -> Blueprint:
    """The machine with leaves or racks for these hosts, and its ranks on their GPUs in order.

    A machine whose nodes are racks has a node for each group of hosts. Another one has a node for
    each host, and full leaves. Raises InputError for hosts that the machine cannot have.
    """
    node, gpus, size = room(machine, hosts)
    numbers = places_in_groups(hosts.group)
    if numbers.max() >= size:
        raise InputError(
            f"{numbers.max() + 1} hosts of {gpus} GPUs are in one {hosts.noun}: {machine.text} has "
            f"room for {size}"
        )
    groups = np.unique(hosts.group, return_inverse=True)[1]
    count = int(groups.max()) + 1
    if machine.is_rack:
        grown, first = machine.with_options(nodes=count), groups * node + numbers * gpus
    else:
        grown = machine.with_options(nodes=count * size, nodes_per_leaf=size)
        first = (groups * size + numbers) * gpus
    places = (first[:, None] + np.arange(gpus)).ravel()
    return replace(grown, placement=tuple(places.tolist()), prefix=True)
