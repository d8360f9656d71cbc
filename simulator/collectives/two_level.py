"""Two-level all-reduce: round a ring inside each node, and round rings across the nodes."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from simulator.collectives.collective import ALL_REDUCE, Algorithm, Fitted
from simulator.cost_models import neighbors
from simulator.schedules.orbits import NotSymmetric
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Move, Shifts, fold
from topologies.errors import InputError
from topologies.topology import Ints, Topology

PER_NODE = 8
"""The most ranks of a node where no machine says how many it has."""
Ranks = npt.NDArray[np.integer]


def two_level_all_reduce(
    ranks: int, nbytes: float, nodes: Ranks | None = None, shifts: Shifts | None = None
) -> Schedule:
    """Reduce-scatter inside each node, all-reduce across the nodes, all-gather inside each node.

    `nodes[k]` lists the ranks of node k, shape (nodes, ranks of a node); the default is
    :func:`equal_nodes`. Rank j of every node owns chunk j of V. The owners of a chunk all-reduce it
    round a ring of their own.

    >>> two_level_all_reduce(4, 4096.0, equal_nodes(4, per_node=2)).sent().tolist()
    [6144.0, 6144.0, 6144.0, 6144.0]
    """
    nodes = equal_nodes(ranks) if nodes is None else nodes
    count, size = nodes.shape
    if shifts is not None and (
        shifts.shape != nodes.shape or (nodes.ravel() != np.arange(ranks)).any()
    ):
        raise NotSymmetric("nodes are shifted apart")
    part, chunk = Move(0, 0, 1, ranks), Move(1, 0, count, ranks)
    levels = ScheduleBuilder(fold(ranks, shifts, part, chunk), nbytes, slots=ranks)
    rank = levels.each()
    node, place = np.divmod(np.argsort(nodes, axis=None)[rank], size)
    inside, across = nodes[node, (place + 1) % size], nodes[(node + 1) % count, place]
    step, far = np.arange(size - 1)[:, None], np.arange(count - 1)[:, None]

    def send(phase: str, call: Callable[..., Ints], peer: Ranks, slot: Ranks, slots: int) -> None:
        levels.phase(phase)
        call(rank, peer, slot=slot, count=slots, steps=1)

    first, owned = "reduce-scatter in nodes", place * count
    send(first, levels.reduce, inside, (place - step - 1) % size * count, count)
    second = "all-reduce across nodes"
    send(second, levels.reduce, across, owned + (node - far - 1) % count, 1)
    send(second, levels.copy, across, owned + (node - far) % count, 1)
    send("all-gather in nodes", levels.copy, inside, (place - step) % size * count, count)
    return levels.build()


def equal_nodes(ranks: int, per_node: int = PER_NODE) -> Ranks:
    """Ranks in nodes of `per_node`, or of the largest divisor of `ranks` below that.

    >>> equal_nodes(6, per_node=4).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    size = next(size for size in range(per_node, 0, -1) if ranks % size == 0)
    return np.arange(ranks).reshape(-1, size)


def fit(topology: Topology, ranks: int, nbytes: float, shifts: Shifts | None = None) -> Fitted:
    """The nodes of the machine; ranks that are in no node are cut as without a machine."""
    nodes = nodes_of(topology, ranks)
    schedule = two_level_all_reduce(ranks, nbytes, nodes, shifts)
    words = f"{nodes.shape[0]} nodes of {nodes.shape[1]} ranks"
    return Fitted(schedule, topology, neighbors.two_level(nodes.shape[1]), (words,))


def nodes_of(topology: Topology, ranks: int) -> Ranks:
    """The ranks of each node of a machine. Raises InputError if some nodes have more ranks."""
    node = topology.node[topology.placement[:ranks]]
    if (node < 0).any():
        return equal_nodes(ranks)
    sizes = np.bincount(node)
    sizes = sizes[sizes > 0]
    if np.ptp(sizes):
        raise InputError(
            f"two_level: {sizes.max()} ranks in a node and {sizes.min()} in another: take as many "
            f"in each"
        )
    return np.argsort(node, kind="stable").reshape(len(sizes), -1)


def shifts(ranks: int) -> Shifts:
    """The shifts of nodes, and of places in them."""
    return Shifts(equal_nodes(ranks).shape, (1, 1))


def shifts_on(topology: Topology, ranks: int) -> Shifts:
    """The same of the nodes of a machine."""
    return Shifts(nodes_of(topology, ranks).shape, (1, 1))


ALGORITHMS = (
    Algorithm(
        "two_level",
        ALL_REDUCE,
        two_level_all_reduce,
        neighbors.two_level(),
        "rings inside each node, and across the nodes",
        fit=fit,
        shifts=shifts,
        shifts_on=shifts_on,
        operations=lambda ranks: ranks * 2.0 * (sum(equal_nodes(ranks).shape) - 2),
    ),
)
