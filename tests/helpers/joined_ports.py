"""Bare ports joined by a network, and what is read off one."""

from collections.abc import Callable
from typing import Any

import numpy as np

from topologies.fabrics import Equipment
from topologies.link import Link
from topologies.topology import Topology
from topologies.topology_builder import TopologyBuilder

Join = Callable[..., None]
EQUIPMENT = Equipment(Link(4e9, 1.0), 0.25)


def built(
    join: Join, nodes: int, nics: int = 1, equipment: Equipment = EQUIPMENT, **sizes: Any
) -> Topology:
    """Bare ports joined by a network; rank r is port r."""
    builder = TopologyBuilder(join.__name__, paths="hash")
    names = [f"node{node}.nic{nic}" for node in range(nodes) for nic in range(nics)]
    ports = builder.devices(names, "nic", node=np.repeat(np.arange(nodes), nics))
    join(builder, ports.reshape(nodes, nics), equipment, **sizes)
    return builder.build(ports)


def switches(topology: Topology, word: str) -> list[str]:
    """The names of the switches of a sort, in order."""
    return [
        name
        for name in topology.device_names
        if name.rpartition(".")[2].rstrip("0123456789") == word
    ]


def across(topology: Topology, inside: set[str]) -> float:
    """Bytes/s of the links that lead out of a set of devices."""
    within = np.array([name in inside for name in topology.device_names])
    return float(topology.bandwidth[within[topology.source] & ~within[topology.target]].sum())


def below(topology: Topology, tops: list[str]) -> set[str]:
    """The switches given and the ports on them."""
    return {
        *tops,
        *(port for top in tops for port in topology.graph.successors(top) if "nic" in port),
    }


# Other nodes.


def switchless(**kinds: int) -> Topology:
    """A node of one GPU and ports of some kinds."""
    builder = TopologyBuilder("box")
    gpu = builder.device("gpu")
    for kind, count in kinds.items():
        for number in range(count):
            builder.connect(gpu, builder.device(f"{kind}{number}", kind), Link(100e9))
    return builder.build([gpu])
