"""What operations compute, on data."""

from __future__ import annotations

from simulator.kernels.records import Ints, Operations, Table

TRANSFER = 1


def execute(order: Ints, operations: Operations, data: Table) -> None:
    """Run the transfers on `data[rank, slot]`, in `order`."""
    kind, rank, peer = operations.kind, operations.rank, operations.peer
    source, target = operations.source, operations.target
    count, reduces = operations.count, operations.reduces
    for k in range(len(order)):
        i = order[k]
        if kind[i] == TRANSFER and source[i] >= 0 and target[i] >= 0:
            for j in range(count[i]):
                value = data[rank[i], source[i] + j]
                if reduces[i]:
                    data[peer[i], target[i] + j] += value
                else:
                    data[peer[i], target[i] + j] = value
