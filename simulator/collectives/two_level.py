"""Two-level all-reduce: round a ring inside each node, and round rings across the nodes."""

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from simulator.collectives.collective import ALL_REDUCE, Algorithm, Fitted
from simulator.cost_models import box_formulas
from simulator.schedules.folded_routes import NotSymmetric
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, SlotMove, fold
from topologies.errors import InputError
from topologies.topology import Topology

Ranks = npt.NDArray[np.integer]


def two_levels(
    ranks: int,
    nbytes: float,
    nodes: Ranks | None = None,
    shifts: Shifts | None = None,
    *,
    scatters: bool = True,
    gathers: bool = True,
) -> Schedule:
    """Reduce-scatter inside each node, all-reduce across the nodes, all-gather inside each node; or
    one half of it.

    `nodes[k]` lists the ranks of node k, shape (nodes, ranks of a node); the default is
    :func:`equal_nodes`. Rank j of every node owns chunk j of V. The owners of a chunk all-reduce it
    round a ring of their own. If it only `scatters`, rank j of node k ends with chunk j x nodes +
    k, from which it begins if it only `gathers`. That is not the chunk of
    :data:`simulator.collectives.collective.REDUCE_SCATTER`.

    >>> two_levels(4, 4096.0, equal_nodes(4, per_node=2)).sent().tolist()
    [6144.0, 6144.0, 6144.0, 6144.0]
    """
    nodes = equal_nodes(ranks) if nodes is None else nodes
    count, size = nodes.shape
    if shifts is not None and (
        shifts.shape != nodes.shape or (nodes.ravel() != np.arange(ranks)).any()
    ):
        raise NotSymmetric("nodes are shifted apart")
    part, chunk = SlotMove(0, 0, 1, ranks), SlotMove(1, 0, count, ranks)
    levels = ScheduleBuilder(fold(ranks, shifts, part, chunk), nbytes, slots=ranks)
    rank = levels.each()
    node, place = np.divmod(np.argsort(nodes, axis=None)[rank], size)
    step, far = np.arange(size - 1)[:, None], np.arange(count - 1)[:, None]
    near, next_node = nodes[node, (place + 1) % size], nodes[(node + 1) % count, place]
    across = "reduce-scatter" if not gathers else "all-reduce" if scatters else "all-gather"
    if scatters:
        levels.phase("reduce-scatter in nodes")
        slot = (place - step - 1) % size * count
        levels.reduce(rank, near, slot=slot, count=count, steps=1)
        levels.phase(f"{across} across nodes")
        slot = place * count + (node - far - 1) % count
        levels.reduce(rank, next_node, slot=slot, steps=1)
    if gathers:
        levels.phase(f"{across} across nodes")
        slot = place * count + (node - far) % count
        levels.copy(rank, next_node, slot=slot, steps=1)
        levels.phase("all-gather in nodes")
        slot = (place - step) % size * count
        levels.copy(rank, near, slot=slot, count=count, steps=1)
    return levels.build()


two_level_all_reduce = two_levels
two_level_reduce_scatter = partial(two_levels, gathers=False)
two_level_all_gather = partial(two_levels, scatters=False)


def equal_nodes(ranks: int, per_node: int = 8) -> Ranks:
    """Ranks in nodes of `per_node`, or of the largest divisor of `ranks` below that; 8 is usual for
    machines.

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
