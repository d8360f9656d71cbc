"""The links that a step of a library takes on a machine: inside a node, and to another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from experiments.calibration.effects.link_effects import BETWEEN
from experiments.calibration.effects.software_effects import USUAL_MEMORY
from experiments.calibration.libraries import MULTICAST
from simulator.cost_models import nccl
from simulator.effects.jobs import nodes_of
from simulator.profile import Profile, Protocol
from topologies.link import NETWORKS, Link
from topologies.topology import Flags, Topology

MEMORY = {"volta": 0.9e12, "ampere": 2.0e12, "hopper": 3.35e12, "blackwell": 8e12}
"""β in bytes/s of the memory of a usual GPU with NVLinks, by its generation."""


class Kind(NamedTuple):
    """Links of one kind in a topology."""

    name: str
    where: str
    """Whether they are inside a "node" or in the "network" between nodes."""
    bandwidth: float
    """The usual β in bytes/s."""
    latency: float
    """The usual α in seconds: what links of the machine have in proportion."""


class Steps:
    """The links of a step from a rank to the next one: inside a "node", and in the "network"."""

    def __init__(self, topology: Topology, memory: float | None = None) -> None:
        nodes = nodes_of(topology)
        inside = _crossed(topology, (nodes == nodes[0]) & (np.arange(len(nodes)) > 0))
        between = _crossed(topology, nodes != nodes[0])
        self.kinds = tuple(_kinds(topology, inside, between))
        self.node = int((nodes == nodes[0]).sum())
        """The ranks of a node."""
        self.over_pcie = "pcie" in inside
        """Whether GPUs of a node meet over PCIe."""
        self.fastest = max(self.kinds, key=lambda kind: kind.bandwidth)
        usual = MEMORY[nccl.generation_of(self.fastest.bandwidth)]
        self.memory = memory or (usual if self.fastest.name == "nvlink" else USUAL_MEMORY)
        """β of a GPU's memory in bytes/s."""
        where = {kind.name: kind.where for kind in self.kinds}
        self.where = where
        """Whether links of a kind are inside a "node" or in the "network"."""
        self.interconnect = next((kind for kind in NETWORKS if kind in where), "")
        """The kind of link that connects the nodes. Empty if it is no known one."""
        self.continues = any(where.get(name) == "node" for name in between) or not inside
        """Whether a step to another node takes the links inside nodes too."""
        self.whole = {
            "node": sum(kind.latency * inside.count(kind.name) for kind in self.kinds),
            "network": sum(
                kind.latency * between.count(kind.name)
                for kind in self.kinds
                if kind.where == "network"
            ),
        }

    def protocol(self, number: int, by_kind: Mapping[str, Profile]) -> Protocol:
        """A protocol of a library, by its number; `by_kind` has the library on machines all of
        whose links have the β of a kind."""
        sources = {kind: by_kind[kind.name].protocols[number] for kind in self.kinds}
        links = {
            kind.name: replace(source.links[kind.where], latency=self._latency(kind, source.links))
            for kind, source in sources.items()
        }
        source = next(iter(sources.values()))
        rows = source.factors.items()
        factors = {name: self.of_kinds(row) for name, row in rows if name not in MULTICAST}
        return Protocol(source.name, links, factors)

    def _latency(self, kind: Kind, links: Mapping[str, Link]) -> float:
        """α of a link of a kind, if a step crosses two of `links` inside a node, and two more on
        its way to another node."""
        step = 2 * links[kind.where].latency
        if kind.where == "network" and not self.continues:
            step += 2 * links["node"].latency
        whole = self.whole[kind.where]
        return step * (kind.latency / whole if whole else 0.5)

    def of_kinds(self, row: Mapping[str, float]) -> dict[str, float]:
        """A value of each kind of link, by values in a "node" and in the "network"."""
        return {kind.name: row[kind.where] for kind in self.kinds if kind.where in row}


def _crossed(topology: Topology, peers: Flags) -> list[str]:
    if not peers.any():
        return []
    return [str(topology.link_kinds[link]) for link in topology.route(0, int(peers.argmax()))]


def _kinds(topology: Topology, inside: Sequence[str], between: Sequence[str]) -> Iterator[Kind]:
    for name in topology.link_kinds.vocabulary:
        links = np.flatnonzero(topology.link_kinds.are(name))
        links = links[np.isfinite(topology.bandwidth[links])]
        if len(links):
            elsewhere = name in between or name in BETWEEN
            where = "network" if elsewhere and name not in inside else "node"
            bandwidth = float(np.median(topology.bandwidth[links]))
            latency = float(np.median(topology.latency[links]))
            # no link has less α in proportion, in seconds
            yield Kind(name, where, bandwidth, max(latency, 1e-9))
