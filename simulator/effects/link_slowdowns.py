"""How links slow down: in a large job, in long exchanges, and with few channels."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from simulator.effects.jobs import Jobs
from simulator.effects.parameter_units import Bytes, Count, Power, Seconds, Word
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


class Exchanges(NamedTuple):
    """Two ranks on two nodes send each other a message in one step. A long exchange does not move
    both ways at full rate."""

    slowness: Seconds = 0.0
    """Seconds that each byte after the first `beyond` of a message takes longer."""
    beyond: Bytes = 2.0**22
    """The bytes of a message that move at full rate."""

    def excess(self, messages: Floats) -> float:
        """The bytes after the first `beyond`, of one message a step, shape (steps,)."""
        return float(np.maximum(0.0, messages - self.beyond).sum())


class PeerChannels(NamedTuple):
    """NCCL divides its channels among all peers, whether they send or not. It opens more for one
    peer when a channel has many bytes (`addP2pToPlan` in src/enqueue.cc)."""

    kind: Word
    """The kind of link that the channels fill together."""
    slowness: Seconds
    """1/β of one channel in seconds a byte."""
    total: Count = 32
    """The channels of all peers together, a power of two."""
    nbytes: Bytes = 2.0**24
    """A message has more channels if one of them had more bytes than this."""

    def of(self, ranks: Floats | float, nbytes: Floats | float) -> Floats:
        """The channels of a message of `nbytes` among `ranks` on one node.

        >>> few = PeerChannels("node", 1 / 20.4e9)
        >>> few.of(8, np.array([1.0, 2.0**26, 2.0**27, 2.0**34])).tolist()
        [4.0, 4.0, 8.0, 32.0]
        """
        doublings = np.floor(np.log2(self.total / np.asarray(ranks)))
        least = 2.0 ** np.maximum(doublings, 0.0)
        more = np.ceil(np.log2(np.maximum(nbytes / (least * self.nbytes), 1.0)))
        return np.asarray(np.minimum(least * 2.0**more, self.total))

    def excess(self, jobs: Jobs, nbytes: Floats | float, slowness: Floats | float) -> Floats:
        """Seconds that a message of `nbytes` takes more than with all channels, whose 1/β is
        `slowness`, in the shape of `jobs`. Jobs on several nodes have none."""
        slower = np.maximum(self.slowness / self.of(jobs.ranks, nbytes) - slowness, 0.0)
        return np.asarray(np.where(jobs.nodes == 1, nbytes * slower, 0.0))
