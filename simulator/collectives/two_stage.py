"""All-to-all in two stages over nodes: inside a node and across, on rails.

A rail is the ranks with the same place in their nodes. Messages across nodes stay on their rail,
and each has the blocks of a whole node. PXN of NCCL goes to the rail inside the node first; DeepEP
crosses the network first.
"""

from functools import partial

import numpy as np
import numpy.typing as npt

from simulator.collectives.collective import ALL_TO_ALL, Algorithm, Fitted
from simulator.collectives.two_level import equal_nodes, nodes_of, shifts_of_nodes, shifts_on
from simulator.cost_models import box_formulas
from simulator.schedules.folded_routes import NotSymmetric
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, SlotMove, fold
from topologies.topology import Topology

Ranks = npt.NDArray[np.integer]


def two_stages(
    ranks: int,
    nbytes: float,
    nodes: Ranks | None = None,
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
        (own + far) % extent
        for own, far, extent in zip((node, place), away, nodes.shape, strict=True)
    )

    def slots(part: int, node: Ranks, place: Ranks) -> Ranks:
        inner = layouts[part - 1]
        return np.asarray(part * ranks + node * inner[0] + place * inner[1])

    def local(slot: Ranks, target: Ranks) -> None:
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


rail_all_to_all = partial(two_stages, inside_first=True)
forwarded_all_to_all = partial(two_stages, inside_first=False)


def fit(
    topology: Topology,
    ranks: int,
    nbytes: float,
    shifts: Shifts | None = None,
    *,
    inside_first: bool,
) -> Fitted:
    """The nodes of the machine; ranks that are in no node are cut as without a machine."""
    nodes = nodes_of(topology, ranks)
    schedule = two_stages(ranks, nbytes, nodes, shifts, inside_first=inside_first)
    words = f"{nodes.shape[0]} nodes of {nodes.shape[1]} ranks"
    return Fitted(schedule, topology, box_formulas.two_stages(nodes.shape[1]), (words,))


def _operations(ranks: int) -> float:
    """Three copies of every block, and a message to every place and every node. A rank sends itself
    none of single blocks."""
    count, size = equal_nodes(ranks).shape
    return float(ranks * (3 * (ranks - 1) + size - (count == 1) + count - (size == 1)))


ALGORITHMS = (
    Algorithm(
        "rail_all_to_all",
        ALL_TO_ALL,
        rail_all_to_all,
        box_formulas.two_stages(),
        "to the rail inside the node, then along the rail, as NCCL's PXN",
        fit=partial(fit, inside_first=True),
        shifts=shifts_of_nodes,
        shifts_on=shifts_on,
        operations=_operations,
    ),
    Algorithm(
        "forwarded_all_to_all",
        ALL_TO_ALL,
        forwarded_all_to_all,
        box_formulas.two_stages(),
        "along the rail, then inside the node, as DeepEP",
        fit=partial(fit, inside_first=False),
        shifts=shifts_of_nodes,
        shifts_on=shifts_on,
        operations=_operations,
    ),
)
