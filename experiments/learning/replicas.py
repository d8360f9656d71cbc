"""The weights of data-parallel ranks: a copy at each rank, or a shard at each rank."""

from __future__ import annotations

import numpy as np

from experiments.learning.moves import Moves, moves_in
from experiments.learning.network import Perceptron
from simulator.collectives import find
from topologies.topology import Floats


class Replicas:
    """Each rank keeps all weights. A ring all-reduce adds up the gradients."""

    def __init__(self, initial: Floats, ranks: int) -> None:
        self.weights = np.tile(initial, (ranks, 1))
        self.all_reduce = _moves("ring", ranks)

    def whole(self) -> Floats:
        """The weights with which each rank computes, shape (ranks, weights)."""
        return self.weights

    def subtract(self, gradients: Floats, rate: float) -> None:
        """Subtract `rate` times the sum of the gradients of all ranks."""
        self.weights = self.weights - rate * self.all_reduce.run(gradients)


class Shards:
    """Each rank keeps a shard of each layer, as fully sharded data parallelism does.

    Ranks gather the shards of a layer to compute with it. They scatter the sum of its gradients,
    and each rank updates its shard.
    """

    def __init__(self, network: Perceptron, initial: Floats, ranks: int) -> None:
        self.ranks = ranks
        sizes = [matrix.size for matrix in network.matrices(initial)]
        self.units = np.split(np.arange(len(initial)), np.cumsum(sizes)[:-1])
        self.all_gather = _moves("ring_all_gather", ranks)
        self.reduce_scatter = _moves("ring_reduce_scatter", ranks)
        self.shards = self._at_owners(np.tile(initial, (ranks, 1)))

    def whole(self) -> Floats:
        """The weights with which each rank computes, shape (ranks, weights)."""
        result = np.empty_like(self.shards)
        for unit in self.units:
            result[:, unit] = self.all_gather.run(self.shards[:, unit])
        return result

    def subtract(self, gradients: Floats, rate: float) -> None:
        """Subtract `rate` times the sum of the gradients of all ranks."""
        total = np.empty_like(gradients)
        for unit in self.units:
            total[:, unit] = self.reduce_scatter.run(gradients[:, unit])
        self.shards = self.shards - rate * self._at_owners(total)

    def _at_owners(self, weights: Floats) -> Floats:
        """`weights`, of shape (ranks, weights), without those of shards of other ranks. Rank r
        keeps part r of each layer."""
        result = np.zeros_like(weights)
        for unit in self.units:
            width = -(-len(unit) // self.ranks)
            for rank in range(self.ranks):
                owned = unit[rank * width : (rank + 1) * width]
                result[rank, owned] = weights[rank, owned]
        return result


def _moves(algorithm: str, ranks: int) -> Moves:
    return moves_in(find(algorithm).build(ranks, 1.0))
