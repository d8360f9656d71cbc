"""Where a collective runs: what its time depends on besides its schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from topologies.topology import Floats, Ints, Longs, Topology

Index = slice | None | Longs | npt.NDArray[np.bool_]
LONE_SENDERS = ("shift",)
"""Algorithms in which one rank of a node sends to another node, and does not share its ports."""


class Jobs(NamedTuple):
    """Collectives by algorithm, ranks and nodes. The arrays have one shape."""

    names: tuple[str, ...]
    """The algorithms, each once."""
    collectives: tuple[str, ...]
    """The collective of each of `names`."""
    algorithm: Longs
    """The index of a job's algorithm in `names`."""
    ranks: Floats
    """The ranks of the collective."""
    nodes: Floats
    """The nodes that these ranks are in."""
    per_node: Floats
    """The ranks of a node."""

    @property
    def reduces(self) -> Floats:
        """1 for a collective that reduces, else 0."""
        return np.array([reduces(collective) for collective in self.collectives])[self.algorithm]

    def at(self, index: Index) -> Jobs:
        """The jobs at `index`, in the shape of `index`; at None, a job in the shape (1,)."""
        columns = (column[index] for column in self[3:])
        return Jobs(self.names, self.collectives, self.algorithm[index], *columns)

    def by_algorithm(self, values: Mapping[str, float], default: float) -> Floats:
        """The value of each job's algorithm."""
        if values.keys().isdisjoint(self.names):
            return np.asarray(default)
        chosen = [values.get(name, default) for name in self.names]
        if all(isinstance(value, float) for value in chosen):
            # of a single profile: 8% of the time of a calibration
            return np.array(chosen)[self.algorithm]
        rows = np.broadcast_arrays(*chosen)
        columns = np.concatenate([np.atleast_1d(row) for row in rows], axis=-1)
        return np.asarray(columns[..., self.algorithm])

    def sharers(self) -> Floats:
        """How many ranks of a node share its ports."""
        alone = np.array([name in LONE_SENDERS for name in self.names])[self.algorithm]
        return np.asarray(np.where(alone, 1.0, self.per_node))


def jobs(
    algorithms: Sequence[str],
    ranks: Sequence[float],
    nodes: Sequence[float],
    per_node: Sequence[float],
    collectives: Sequence[str],
) -> Jobs:
    """The jobs of the given columns."""
    by_name = dict(zip(algorithms, collectives, strict=True))
    names = tuple(by_name)
    columns = (np.array(column, dtype=np.float64) for column in (ranks, nodes, per_node))
    indices = np.array([names.index(name) for name in algorithms])
    return Jobs(names, tuple(by_name.values()), indices, *columns)


def job(algorithm: str, topology: Topology, collective: str = "") -> Jobs:
    """The job of an algorithm on all ranks of a machine, in arrays of shape ()."""
    works = _works(topology)
    ranks = float(np.count_nonzero(works))
    nodes = float(len(np.unique(nodes_of(topology)[works])))
    columns = (ranks, nodes, -(-ranks // nodes))
    return Jobs((algorithm,), (collective,), np.array(0), *map(np.array, columns))


def reduces(collective: str) -> float:
    """1 for a collective that reduces, else 0."""
    return float("reduce" in collective)


def nodes_of(topology: Topology) -> Ints:
    """The node of every rank, shape (ranks,). A rank outside of any node is one."""
    node = topology.node[topology.placement]
    return np.where(node < 0, len(topology.node) + np.arange(len(node)), node).astype(np.int32)


def used_nodes(topology: Topology) -> float:
    """How many nodes the ranks are in, without switches that reduce."""
    return float(len(np.unique(nodes_of(topology)[_works(topology)])))


def _works(topology: Topology) -> npt.NDArray[np.bool_]:
    return np.asarray(~topology.in_network[topology.placement].astype(np.bool_))
