"""NVLS with trees across nodes, and an all-reduce that reads sums out of the switch.

NCCL calls the former NVLSTree. The latter is the one-shot form of multimem.ld_reduce: every rank
reads the sum of all buffers. The two-shot form is nvls.
"""

import numpy as np
import numpy.typing as npt

from simulator.collectives import in_network
from simulator.collectives.collective import ALL_REDUCE, Algorithm, Fitted
from simulator.collectives.double_tree import two_trees
from simulator.cost_models import in_network_formulas
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.errors import InputError
from topologies.topology import Topology

Ranks = npt.NDArray[np.integer]
SEGMENTS = in_network.NVLS_PIECES


def nvls_tree_all_reduce(
    ranks: int, nbytes: float, groups: Ranks | None = None, *, segments: int = SEGMENTS
) -> Schedule:
    """As nvls, but the owners of a chunk reduce it up a binary tree of the groups, and broadcast it
    down. Owners take turns with two trees."""
    group = np.arange(ranks)[None, :] if groups is None else groups
    return in_network.switched(ranks, nbytes, group, segments, across_trees)


def across_trees(nvls: ScheduleBuilder, group: Ranks, chunk: Ranks) -> None:
    """Every owner's chunk goes up its tree and down again."""
    nvls.phase("between groups")
    number, size = group.shape
    above = two_trees(number)
    for owner in range(size):
        parent, rank = above[owner % 2], group[:, owner]
        order = sorted(range(number), key=lambda node: _depth(parent, node), reverse=True)
        slot = {"slot": chunk[owner], "count": number, "channel": owner}
        for node in order[:-1]:
            nvls.reduce(rank[node], rank[parent[node]], **slot)
        for node in reversed(order[:-1]):
            nvls.copy(rank[parent[node]], rank[node], **slot)


def _depth(parent: Ranks, node: int) -> int:
    depth = 0
    while parent[node] >= 0:
        node, depth = int(parent[node]), depth + 1
    return depth


def multimem_one_shot_all_reduce(ranks: int, nbytes: float) -> Schedule:
    """Every rank reads the sum of all buffers: the switch fetches V from each rank for each reader.

    >>> multimem_one_shot_all_reduce(4, 4.0).volume
    80.0
    """
    shot = ScheduleBuilder(ranks, nbytes, scratch=ranks, switches=1, phase="reduce in the switch")
    rank = np.arange(ranks)
    for turn in range(ranks):
        shot.reduce(rank, ranks, slot=0, target=1 + (rank + turn) % ranks)
    shot.phase("read")
    shot.copy(ranks, rank, slot=1 + rank)
    shot.phase("unpack")
    shot.copy(rank, rank, slot=1 + rank, target=0)
    return shot.build()


def fit_nvls_tree(
    topology: Topology, ranks: int, nbytes: float, *, segments: int = SEGMENTS
) -> Fitted:
    """The groups of nvls."""
    groups, used = in_network.groups_of(topology, ranks)
    schedule = nvls_tree_all_reduce(ranks, nbytes, groups, segments=segments)
    cost = in_network_formulas.nvls_tree(segments, len(groups))
    return in_network.fitted(topology, ranks, schedule, cost, used)


def fit_multimem(topology: Topology, ranks: int, nbytes: float) -> Fitted:
    """The switch of a node; several nodes have none for all."""
    groups, used = in_network.groups_of(topology, ranks)
    if len(groups) > 1:
        raise InputError(
            f"multimem_one_shot: {len(groups)} switches have ranks, and it takes one: take one node"
        )
    schedule = multimem_one_shot_all_reduce(ranks, nbytes)
    return in_network.fitted(topology, ranks, schedule, in_network_formulas.MULTIMEM, used)


ALGORITHMS = (
    Algorithm(
        "nvls_tree",
        ALL_REDUCE,
        nvls_tree_all_reduce,
        in_network_formulas.nvls_tree,
        "as nvls, with trees across nodes",
        fit=fit_nvls_tree,
    ),
    Algorithm(
        "multimem_one_shot",
        ALL_REDUCE,
        multimem_one_shot_all_reduce,
        in_network_formulas.MULTIMEM,
        "every rank reads the sum of all buffers out of the NVSwitches",
        fit=fit_multimem,
    ),
)
