"""Algorithms over nodes: rings inside nodes and across them, and all-to-alls in two stages.

A rail is the ranks with the same place in their nodes. Messages of an all-to-all across nodes stay
on their rail, and each has the blocks of a whole node. PXN of NCCL goes to the rail inside the node
first; DeepEP crosses the network first.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from simulator.collectives.collective import ALL_REDUCE, ALL_TO_ALL, Collective, Fitted, declare
from simulator.cost_models import CostModel, machine_formulas
from simulator.schedules.folded_routes import NotSymmetric
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, SlotMove, fold
from topologies.errors import InputError
from topologies.topology import Ints, Numbers, Topology


def along_axes(
    box: Numbers,
    nbytes: float,
    shifts: Shifts | None,
    scatters: Sequence[str],
    gathers: Sequence[str],
    *,
    orders: int = 1,
    ways: int = 1,
) -> Schedule:
    """Reduce-scatters round the rings along one axis of a box of ranks after the other, the last
    axis first, and all-gathers backwards. `scatters` and `gathers` name the phases, one for each
    axis, or are empty for none.

    V has `orders` x `ways` parts. Part k has its axes in the k-th order, and is sent round the
    other way behind them.
    """
    dims, ranks = box.shape, box.size
    in_order = (box.ravel() == np.arange(ranks)).all()
    if shifts is not None and (shifts.shape != dims or not in_order):
        raise NotSymmetric("ranks are shifted along other axes")
    size, moves = np.array(dims), list[SlotMove]()
    parts: list[tuple[list[int], list[int], int]] = []
    for part in range(orders * ways):
        axes = np.roll(np.arange(len(dims))[::-1], -(part % orders)).tolist()
        # Chunks below each place on an axis: those of a rank's place are neighbours.
        counts = (ranks // np.cumprod(size[axes])).tolist()
        parts.append((axes, counts, 1 if part < orders else -1))
        first, end = part * ranks, (part + 1) * ranks
        moves += [SlotMove(axis, first, counts[turn], end) for turn, axis in enumerate(axes)]
    builder = ScheduleBuilder(fold(ranks, shifts, *moves), nbytes, slots=ranks * len(parts))
    rank = builder.each()
    place = np.unravel_index(rank if in_order else np.argsort(box, axis=None)[rank], dims)

    def once_round(send: Callable[..., Ints], turn: int, ahead: int) -> None:
        """Every part goes once round all rings along the axis of its turn."""
        for number, (axes, counts, way) in enumerate(parts):
            axis, count = axes[turn], counts[turn]
            step = np.arange(dims[axis] - 1)[:, None]
            kept = sum(place[a] * c for a, c in zip(axes[:turn], counts, strict=False))
            chunk = (place[axis] - way * (step + ahead)) % dims[axis]
            after = (place[axis] + way) % dims[axis]
            peer = box[*place[:axis], after, *place[axis + 1 :]]
            slot = number * ranks + kept + chunk * count
            send(rank, peer, slot=slot, count=count, steps=True)

    for turn, phase in enumerate(scatters):
        builder.phase(phase)
        once_round(builder.reduce, turn, 1)
    for turn, phase in reversed([*enumerate(gathers)]):
        builder.phase(phase)
        once_round(builder.copy, turn, 0)
    return builder.build()


def two_levels(
    ranks: int,
    nbytes: float,
    nodes: Numbers | None = None,
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
    across = "reduce-scatter" if not gathers else "all-reduce" if scatters else "all-gather"
    scattering = ["reduce-scatter in nodes", f"{across} across nodes"] if scatters else []
    gathering = ["all-gather in nodes", f"{across} across nodes"] if gathers else []
    nodes = equal_nodes(ranks) if nodes is None else nodes
    return along_axes(nodes, nbytes, shifts, scattering, gathering)


two_level_reduce_scatter = partial(two_levels, gathers=False)
two_level_all_gather = partial(two_levels, scatters=False)


def equal_nodes(ranks: int, per_node: int = 8) -> Numbers:
    """Ranks in nodes of `per_node`, or of the largest divisor of `ranks` below that; 8 is usual for
    machines.

    >>> equal_nodes(6, per_node=4).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    size = next(size for size in range(per_node, 0, -1) if ranks % size == 0)
    return np.arange(ranks).reshape(-1, size)


def fit(
    write: Callable[..., Schedule],
    formula: Callable[[int], CostModel],
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
    return Fitted(schedule, topology, formula(nodes.shape[1]), (words,))


def nodes_of(topology: Topology, ranks: int) -> Numbers:
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


def two_stages(
    ranks: int,
    nbytes: float,
    nodes: Numbers | None = None,
    shifts: Shifts | None = None,
    *,
    inside_first: bool,
) -> Schedule:
    """Inside nodes first: rank j of a node collects the blocks for rank j of every node. Or across
    nodes first: a rank forwards the blocks that arrive to the ranks of its node.

    >>> two_stages(4, 4.0, equal_nodes(4, per_node=2), inside_first=True).sent().tolist()
    [4.0, 4.0, 4.0, 4.0]
    """
    nodes = equal_nodes(ranks) if nodes is None else nodes
    count, size = nodes.shape
    order = nodes.ravel()
    if shifts is not None and (shifts.shape != nodes.shape or (order != np.arange(ranks)).any()):
        raise NotSymmetric("nodes are shifted apart")
    # Scratch in four parts: packed and received in the first stage, and in the second.
    moves = [SlotMove(axis, 0, (size, 1)[axis], ranks) for axis in (0, 1)]
    by_node, by_place = (size, 1), (1, count)
    layouts = (by_place, by_place, by_node, by_node)
    if not inside_first:
        layouts = (by_node, by_node, by_place, by_place)
    for part, inner in enumerate(layouts, start=1):
        moves += [SlotMove(axis, part * ranks, inner[axis], (part + 1) * ranks) for axis in (0, 1)]
    stages = ScheduleBuilder(fold(ranks, shifts, *moves), nbytes, slots=ranks, scratch=4 * ranks)
    rank = stages.each()
    node, place = np.divmod(np.argsort(order)[rank], size)
    away = (axis.ravel()[1:, None] for axis in np.mgrid[:count, :size])
    n, j = (
        (coordinate + far) % extent
        for coordinate, far, extent in zip((node, place), away, nodes.shape, strict=True)
    )

    def slots(part: int, node: Numbers, place: Numbers) -> Numbers:
        inner = layouts[part - 1]
        return np.asarray(part * ranks + node * inner[0] + place * inner[1])

    def local(slot: Numbers, target: Numbers) -> None:
        stages.copy(rank, rank, slot=slot, target=target, steps=True)

    def send(part: int, inside: bool) -> None:
        """Blocks go from scratch `part` to the next part of the peers inside or across."""
        stages.phase("inside nodes" if inside else "across nodes")
        start, groups = (place, size) if inside else (node, count)
        length = ranks // groups
        for turn in range(0 if length > 1 else 1, groups):
            peer_group = (start + turn) % groups
            peer = nodes[node, peer_group] if inside else nodes[peer_group, place]
            first, target = part * ranks + peer_group * length, (part + 1) * ranks + start * length
            stages.copy(rank, peer, slot=first, target=target, count=length)

    stages.phase("pack")
    local(order[n * size + j], slots(1, n, j))
    send(1, inside_first)
    stages.phase("pack")
    local(slots(2, n, j), slots(3, n, j))
    send(3, not inside_first)
    stages.phase("unpack")
    local(slots(4, n, j), order[n * size + j])
    return stages.build()


def _operations(ranks: int) -> float:
    """Three copies of every block, and a message to every place and every node. A rank sends itself
    none of single blocks."""
    count, size = equal_nodes(ranks).shape
    return float(ranks * (3 * (ranks - 1) + size - (count == 1) + count - (size == 1)))


def _over_nodes(
    name: str,
    collective: Collective,
    write: Callable[..., Schedule],
    formula: Callable[..., CostModel],
    summary: str,
    operations: Callable[[int], float] = _operations,
) -> Callable[..., Schedule]:
    return declare(
        name,
        collective,
        formula(),
        summary,
        fit=partial(fit, write, formula),
        shifts=shifts_of_nodes,
        shifts_on=shifts_on,
        operations=operations,
    )(write)


two_level_all_reduce = _over_nodes(
    "two_level",
    ALL_REDUCE,
    two_levels,
    machine_formulas.two_level,
    "Rings inside each node, and across the nodes",
    operations=lambda ranks: ranks * 2.0 * (sum(equal_nodes(ranks).shape) - 2),
)
rail_all_to_all = _over_nodes(
    "rail_all_to_all",
    ALL_TO_ALL,
    partial(two_stages, inside_first=True),
    machine_formulas.two_stages,
    "To the rail inside the node, then along the rail, as NCCL's PXN",
)
forwarded_all_to_all = _over_nodes(
    "forwarded_all_to_all",
    ALL_TO_ALL,
    partial(two_stages, inside_first=False),
    machine_formulas.two_stages,
    "Along the rail, then inside the node, as DeepEP",
)
