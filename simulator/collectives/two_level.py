"""Two-level all-reduce: round a ring inside each node, and round rings across the nodes."""

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from simulator.collectives.collective import ALL_REDUCE, Algorithm, Fitted
from simulator.cost_models import box_formulas
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
    levels = _Levels(ranks, nbytes, nodes, shifts)
    levels.inside(levels.builder.reduce)
    second = "all-reduce across nodes"
    levels.across(levels.builder.reduce, second)
    levels.across(levels.builder.copy, second)
    levels.inside(levels.builder.copy)
    return levels.builder.build()


def two_level_reduce_scatter(
    ranks: int, nbytes: float, nodes: Ranks | None = None, shifts: Shifts | None = None
) -> Schedule:
    """Reduce-scatter inside each node, then across the nodes.

    Rank j of node k owns chunk j x nodes + k. That is not the chunk of
    :data:`simulator.collectives.collective.REDUCE_SCATTER`.
    """
    levels = _Levels(ranks, nbytes, nodes, shifts)
    levels.inside(levels.builder.reduce)
    levels.across(levels.builder.reduce, "reduce-scatter across nodes")
    return levels.builder.build()


def two_level_all_gather(
    ranks: int, nbytes: float, nodes: Ranks | None = None, shifts: Shifts | None = None
) -> Schedule:
    """All-gather across the nodes, then inside each node, of the chunks that
    :func:`two_level_reduce_scatter` leaves."""
    levels = _Levels(ranks, nbytes, nodes, shifts)
    levels.across(levels.builder.copy, "all-gather across nodes")
    levels.inside(levels.builder.copy)
    return levels.builder.build()


class _Levels:
    """Writes the rings inside nodes and across them."""

    def __init__(
        self, ranks: int, nbytes: float, nodes: Ranks | None, shifts: Shifts | None
    ) -> None:
        self.nodes = equal_nodes(ranks) if nodes is None else nodes
        self.count, self.size = self.nodes.shape
        if shifts is not None and (
            shifts.shape != self.nodes.shape or (self.nodes.ravel() != np.arange(ranks)).any()
        ):
            raise NotSymmetric("nodes are shifted apart")
        part, chunk = Move(0, 0, 1, ranks), Move(1, 0, self.count, ranks)
        self.builder = ScheduleBuilder(fold(ranks, shifts, part, chunk), nbytes, slots=ranks)
        self.rank = self.builder.each()
        self.node, self.place = np.divmod(np.argsort(self.nodes, axis=None)[self.rank], self.size)

    def inside(self, call: Callable[..., Ints]) -> None:
        """Round the ring of each node: the chunks of all nodes at once."""
        reduces, size = call == self.builder.reduce, self.size
        self.builder.phase("reduce-scatter in nodes" if reduces else "all-gather in nodes")
        step = np.arange(size - 1)[:, None]
        slot = (self.place - step - reduces) % size * self.count
        peer = self.nodes[self.node, (self.place + 1) % size]
        call(self.rank, peer, slot=slot, count=self.count, steps=1)

    def across(self, call: Callable[..., Ints], phase: str) -> None:
        """Round the rings of the ranks with the same place in their nodes."""
        self.builder.phase(phase)
        reduces, count = call == self.builder.reduce, self.count
        far = np.arange(count - 1)[:, None]
        slot = self.place * count + (self.node - far - reduces) % count
        peer = self.nodes[(self.node + 1) % count, self.place]
        call(self.rank, peer, slot=slot, count=1, steps=1)


def equal_nodes(ranks: int, per_node: int = PER_NODE) -> Ranks:
    """Ranks in nodes of `per_node`, or of the largest divisor of `ranks` below that.

    >>> equal_nodes(6, per_node=4).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    size = next(size for size in range(per_node, 0, -1) if ranks % size == 0)
    return np.arange(ranks).reshape(-1, size)


def fit(
    write: Callable[..., Schedule],
    topology: Topology,
    ranks: int,
    nbytes: float,
    shifts: Shifts | None = None,
) -> Fitted:
    """What `write` makes of the nodes of the machine; ranks that are in no node are cut as without
    a machine."""
    nodes = nodes_of(topology, ranks)
    schedule = write(ranks, nbytes, nodes, shifts)
    words = f"{nodes.shape[0]} nodes of {nodes.shape[1]} ranks"
    return Fitted(schedule, topology, box_formulas.two_level(nodes.shape[1]), (words,))


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


def shifts_of_nodes(ranks: int) -> Shifts:
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
        box_formulas.two_level(),
        "rings inside each node, and across the nodes",
        fit=partial(fit, two_level_all_reduce),
        shifts=shifts_of_nodes,
        shifts_on=shifts_on,
        operations=lambda ranks: ranks * 2.0 * (sum(equal_nodes(ranks).shape) - 2),
    ),
)
