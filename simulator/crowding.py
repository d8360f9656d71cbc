"""How links between nodes slow down as a job grows."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from topologies.topology import Floats

ALIKE = 16.0
"""The factor in nodes over which what single numbers of nodes have of their own is shared by
1/e."""


class Apart(NamedTuple):
    """What jobs on `nodes` nodes have of their own: logarithms of by how much α and 1/β are
    longer."""

    nodes: float
    latency: float
    bandwidth: float


class Crowding(NamedTuple):
    """How links of a kind slow down as a job grows.

    α and 1/β are as measured at `nodes` nodes. They grow with the number of nodes to the power of
    `latency` and of `bandwidth`. Both powers end at `most` nodes, the most that were measured.
    `apart` corrects single numbers of nodes that were measured in another allocation. A number in
    between, or beyond, gets a mix of these corrections, which fades with the distance in
    log(nodes). 1/β is that of jobs of `per_node` ranks a node. It grows with their number to the
    power of `shared`: -1 where each rank has a port of its own.
    """

    nodes: float = 1.0
    latency: float = 0.0
    bandwidth: float = 0.0
    apart: tuple[Apart, ...] = ()
    per_node: float = 1.0
    shared: float = 0.0
    most: float = inf

    def slower(self, size: float) -> Floats:
        """By how much α and 1/β are longer on `size` nodes, shape (2,)."""
        powers = np.array([self.latency, self.bandwidth])
        return np.asarray(
            np.exp(np.log(min(size, self.most) / self.nodes) * powers + self._own(size))
        )

    def sharing(self, per_node: float) -> float:
        """By how much 1/β is longer where so many ranks of a node share its ports."""
        return float((per_node / self.per_node) ** self.shared)

    def _own(self, size: float) -> Floats:
        if not self.apart:
            return np.zeros(2)
        known = np.array(self.apart)
        like = alike(np.append(known[:, 0], size))
        return np.asarray(like[-1, :-1] @ np.linalg.solve(like[:-1, :-1], known[:, 1:]))


def alike(nodes: Floats) -> Floats:
    """How much of their own any two numbers of nodes share, shape (n, n): 1 of itself, 1/e a factor
    ALIKE away."""
    size = np.log(nodes)
    return np.asarray(np.exp(-np.abs(size[:, None] - size) / np.log(ALIKE)))
