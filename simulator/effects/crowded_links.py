"""How links between nodes slow down as a job grows."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from simulator.effects.parameter_units import Count, Power
from topologies.topology import Floats

ALIKE_NODES = 16.0
"""The factor in nodes over which corrections of single numbers of nodes are shared by 1/e."""


class NodeCorrection(NamedTuple):
    """A correction for one number of nodes, which was measured in another allocation."""

    nodes: Count
    """The number of nodes."""
    latency: Power = 0.0
    """The logarithm of the factor by which α is longer."""
    bandwidth: Power = 0.0
    """The logarithm of the factor by which 1/β is longer."""


class Crowding(NamedTuple):
    """How links of a kind slow down as a job grows."""

    nodes: float = 1.0
    """The number of nodes at which α and 1/β are as measured."""
    latency: float = 0.0
    """α grows with the number of nodes to this power."""
    bandwidth: float = 0.0
    """1/β grows with the number of nodes to this power."""
    corrections: tuple[NodeCorrection, ...] = ()
    """Corrections of single numbers of nodes. Another number gets a mix of them, which fades with
    the distance in log(nodes)."""
    per_node: float = 1.0
    """The ranks a node at which 1/β is as measured."""
    shared: float = 0.0
    """1/β grows with the ranks a node to this power: -1 where each rank has a port of its own."""
    most: float = inf
    """The most nodes that were measured: both powers end there."""
    protocol: str = ""
    """The only protocol whose 1/β depends on the number of nodes. Empty: all do."""

    def slows(self, protocol: str) -> bool:
        """Whether 1/β of a protocol depends on the number of nodes."""
        return self.protocol in ("", protocol)

    def slower(self, nodes: Floats | float) -> Floats:
        """The factors by which α and 1/β are longer on `nodes` nodes, shape (2, ...)."""
        size = np.asarray(nodes, dtype=np.float64)
        growth = np.log(np.minimum(size, self.most) / self.nodes)
        latency, bandwidth = growth * self.latency, growth * self.bandwidth
        if self.corrections:
            counts = np.array([correction.nodes for correction in self.corrections])
            weights = alike(size, counts) @ np.linalg.inv(alike(counts, counts))
            for k, correction in enumerate(self.corrections):
                latency = latency + weights[..., k] * correction.latency
                bandwidth = bandwidth + weights[..., k] * correction.bandwidth
        return np.exp(np.stack((latency, bandwidth)))

    def sharing(self, per_node: Floats | float) -> Floats:
        """The factor by which 1/β is longer where so many ranks of a node share its ports."""
        return np.asarray((np.asarray(per_node) / self.per_node) ** self.shared)


def alike(nodes: Floats, reference_nodes: Floats) -> Floats:
    """The share of a correction that two numbers of nodes have in common: 1 for the same number,
    1/e for a factor ALIKE_NODES. The shape is that of `nodes`, then that of `others`."""
    distance = np.log(nodes)[..., None] - np.log(reference_nodes)
    return np.asarray(np.exp(-np.abs(distance) / np.log(ALIKE_NODES)))
