"""All-reduce in switches that reduce and multicast: SHARP in network switches, NVLS in NVSwitches.

NVLS has a variant with trees across nodes, which NCCL calls NVLSTree, and the one-shot form of
multimem.ld_reduce, in which every rank reads the sum of all buffers. Its two-shot form is nvls."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from simulator.collectives.collective import ALL_REDUCE, Fitted, declare
from simulator.collectives.double_tree import depths, two_trees
from simulator.cost_models import CostModel, machine_formulas
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from topologies.errors import InputError
from topologies.routing import distances, rails
from topologies.topology import Floats, Ints, Numbers, Topology

SHARP_PIECES = 16
NVLS_PIECES = 8
"""Few enough to keep the number of operations small: with 64 pieces, an HGX H100 is 13% faster at
1 GiB."""
Across = Callable[[ScheduleBuilder, Numbers, Numbers], None]


def switched(
    ranks: int, nbytes: float, group: Numbers, segments: int, across: Across, above: int = 0
) -> Schedule:
    """The switches of the groups reduce and multicast, and `across` joins the owners of each chunk,
    with the help of so many switches `above`."""
    number, size = group.shape
    slots = segments * size * number
    nvls = ScheduleBuilder(ranks, nbytes, slots=slots, switches=number + above)
    switch, owner = ranks + np.arange(number)[:, None], np.arange(size)
    # the chunk of each owner after the first, as each owner takes them in turn
    others = (owner[1:, None, None] + owner) % size
    none, results = np.zeros((number * size, 0), dtype=np.int64), list[Ints]()
    for piece in range(segments):
        chunk = (piece * size + owner) * number
        nvls.phase("reduce in the switches")
        waits = (
            results[piece - machine_formulas.BUFFERS].reshape(-1, 1)
            if piece >= machine_formulas.BUFFERS
            else none
        )
        slot, after = chunk[:, None, None], np.tile(waits, (size, 1))
        nvls.reduce(group, switch, slot=slot, count=number, after=after, steps=1)
        results.append(nvls.copy(switch, group, slot=chunk[None, :], count=number))
        if number > 1:
            across(nvls, group, chunk)
        nvls.phase("multicast")
        nvls.copy(group, switch, slot=chunk[None, :], count=number)
        if size > 1:
            nvls.copy(switch, group, slot=chunk[others], count=number, steps=1)
    return nvls.build()


def _across_rings(nvls: ScheduleBuilder, group: Numbers, chunk: Numbers) -> None:
    """The owners of each chunk reduce and scatter, then gather it, round a ring of the groups."""
    nvls.phase("between groups")
    number, size = group.shape
    place, after = np.arange(number)[:, None], np.roll(group, -1, axis=0)
    channel = np.arange(size)[None, :]
    for step in range(number - 1):
        nvls.reduce(group, after, slot=chunk + (place - step - 1) % number, channel=channel)
    for step in range(number - 1):
        nvls.copy(group, after, slot=chunk + (place - step) % number, channel=channel)


def _across_switches(nvls: ScheduleBuilder, group: Numbers, chunk: Numbers) -> None:
    """The owners of each chunk push it into the switch of their rail, and receive the sum."""
    nvls.phase("between groups")
    number, size = group.shape
    above = nvls.workers + number + np.arange(size)[None, :]
    nvls.reduce(group, above, slot=chunk[None, :], count=number)
    nvls.copy(above, group, slot=chunk[None, :], count=number)


def fit_sharp(
    topology: Topology, ranks: int, nbytes: float, *, segments: int = SHARP_PIECES
) -> Fitted:
    """Every worker's nearest network switch that reduces, and one switch that joins these."""
    switches = _reducing(topology, network=True)
    latency = _latencies(topology, switches, ranks)
    used, leaves = np.unique(_nearest(topology, latency), return_inverse=True)
    chosen = switches[used]
    if len(used) > 1:
        chosen = np.append(chosen, _joining(topology, switches, used))
    schedule = sharp_all_reduce(ranks, nbytes, leaves, segments=segments)
    cost = machine_formulas.sharp(segments, len(used))
    return fitted(topology, ranks, schedule, cost, chosen)


@declare("sharp", ALL_REDUCE, machine_formulas.sharp, fit=fit_sharp)
def sharp_all_reduce(
    ranks: int, nbytes: float, leaves: Numbers | None = None, *, segments: int = SHARP_PIECES
) -> Schedule:
    """Network switches add up and multicast. Every worker pushes V, in pieces, into its switch. The
    switch at the top sends each sum back down.

    `leaves[r]` is the number of worker r's switch, 0, 1, ... If there are several, one more switch
    joins them. The default is one switch for all.

    >>> sharp_all_reduce(4, 4096.0).volume
    32768.0
    """
    leaf = np.zeros(ranks, dtype=np.int64) if leaves is None else leaves
    count = int(leaf.max()) + 1
    tree = ScheduleBuilder(
        ranks, nbytes, slots=segments, switches=count + (count > 1), phase="reduce in the switches"
    )
    worker, piece = np.tile(np.arange(ranks), segments), np.repeat(np.arange(segments), ranks)
    below, part = np.tile(ranks + np.arange(count), segments), np.repeat(np.arange(segments), count)
    tree.reduce(worker, ranks + leaf[worker], slot=piece)
    if count > 1:
        tree.reduce(below, ranks + count, slot=part)
    tree.phase("multicast")
    if count > 1:
        tree.copy(ranks + count, below, slot=part)
    tree.copy(ranks + leaf[worker], worker, slot=piece)
    return tree.build()


def fit_nvls(
    topology: Topology, ranks: int, nbytes: float, *, segments: int = NVLS_PIECES
) -> Fitted:
    """Groups of workers by the NVSwitch that they share.

    Between groups, the owners of each chunk share a reducing network switch if there is one for
    each chunk. Otherwise they form rings.
    """
    groups, used = groups_of(topology, ranks)
    rails = _rail_switches(topology, groups, ranks) if len(used) > 1 else None
    chosen = used if rails is None else np.concatenate((used, rails))
    above = rails is not None
    schedule = nvls_all_reduce(ranks, nbytes, groups, above=above, segments=segments)
    cost = machine_formulas.nvls(segments, len(used), in_network=above)
    return fitted(topology, ranks, schedule, cost, chosen)


@declare("nvls", ALL_REDUCE, machine_formulas.nvls, fit=fit_nvls)
def nvls_all_reduce(
    ranks: int,
    nbytes: float,
    groups: Numbers | None = None,
    *,
    above: bool = False,
    segments: int = NVLS_PIECES,
) -> Schedule:
    """NVSwitches add up each chunk for its owner, and multicast it. Worker c of a group owns chunk
    c of V. The owners of all groups all-reduce it, round a ring or in one further switch for each
    chunk.

    `groups[g]` lists the workers on switch g, shape (groups, workers of a group). The default is
    one group of all. A worker pushes its part of one of the `segments` when it has the sum of the
    segment two before.
    """
    group = np.arange(ranks)[None, :] if groups is None else groups
    if above:
        return switched(ranks, nbytes, group, segments, _across_switches, group.shape[1])
    return switched(ranks, nbytes, group, segments, _across_rings)


def groups_of(topology: Topology, ranks: int) -> tuple[Numbers, Ints]:
    """The workers on each NVSwitch, shape (groups, workers of a group), and the switches."""
    switches = _reducing(topology, network=False)
    latency = _latencies(topology, switches, ranks)
    used, group = np.unique(latency.argmin(axis=1), return_inverse=True)
    sizes = np.bincount(group)
    if np.ptp(sizes):
        raise InputError(
            f"nvls: {sizes.max()} ranks on one switch and {sizes.min()} on another: take as many "
            f"on each"
        )
    return np.argsort(group, kind="stable").reshape(len(used), -1), switches[used]


def fitted(
    topology: Topology, ranks: int, schedule: Schedule, cost: CostModel, switches: Ints
) -> Fitted:
    """A schedule with the chosen switches behind the workers."""
    placement = np.concatenate((topology.placement[:ranks], switches)).astype(np.int32)
    names = ", ".join(topology.device_names[switch] for switch in switches[:8].tolist())
    count = len(switches)
    words = f"switches that reduce: {names}{' ...' if count > 8 else ''} ({count})"
    return Fitted(schedule, replace(topology, placement=placement), cost, (words,))


def multicasts(topology: Topology) -> bool:
    """Whether switches in the nodes reduce and multicast, as nvls needs.

    >>> from topologies.clusters import cluster
    >>> multicasts(cluster("hgx_h100")), multicasts(cluster("dgx_a100"))
    (True, False)
    """
    return bool((topology.in_network & (topology.node >= 0)).any())


def _reducing(topology: Topology, *, network: bool) -> Ints:
    chosen = topology.in_network & ((topology.node < 0) == network)
    if not chosen.any():
        name, switches = (
            ("sharp", "switches between nodes") if network else ("nvls", "switches in a node")
        )
        hint = (
            "two nodes or more with sharp=yes" if network else "hgx_h100, hgx_h200, b200 or nvl72"
        )
        raise InputError(
            f"{name} needs {switches} that reduce, and topology {topology.name!r} has none: take "
            f"{hint}"
        )
    return np.flatnonzero(chosen).astype(np.int32)


def _latencies(topology: Topology, switches: Ints, ranks: int) -> Floats:
    machine = replace(topology, placement=np.concatenate((topology.placement[:ranks], switches)))
    latency = distances(machine, np.arange(ranks, dtype=np.int32))[:, ranks:]
    if np.isinf(latency.min(axis=1)).any():
        raise InputError(
            f"{topology.name}: rank {int(np.isinf(latency.min(axis=1)).argmax())} reaches no "
            "switch that reduces"
        )
    return np.asarray(np.round(latency, 15))


def _nearest(topology: Topology, latency: Floats) -> npt.NDArray[np.intp]:
    """The number of the nearest switch of each worker. Of several it is that of the worker's rail,
    by which its NIC is chosen."""
    equal = latency == latency.min(axis=1, keepdims=True)
    place = rails(topology)[: len(latency)] % equal.sum(axis=1)
    return np.asarray((np.cumsum(equal, axis=1) > place[:, None]).argmax(axis=1))


def _joining(topology: Topology, switches: Ints, used: npt.NDArray[np.intp]) -> np.int32:
    """The reducing switch that is nearest to all switches in use, and is none of them."""
    machine = replace(topology, placement=switches)
    latency = distances(machine, used.astype(np.int32)).max(axis=0)
    latency[used] = np.inf
    if not np.isfinite(latency.min()):
        raise InputError(
            f"{topology.name} has no reducing switch above {len(used)} others: put the ranks on one"
        )
    return np.int32(switches[int(latency.argmin())])


def _rail_switches(topology: Topology, groups: Numbers, ranks: int) -> Ints | None:
    """For every chunk the reducing network switch that is nearest to all its owners. None if a
    chunk has no such switch."""
    if not (topology.in_network & (topology.node < 0)).any():
        return None
    switches = _reducing(topology, network=True)
    nearest = _nearest(topology, _latencies(topology, switches, ranks))[groups]
    return None if np.ptp(nearest, axis=0).any() else switches[nearest[0]]


def _across_trees(nvls: ScheduleBuilder, group: Numbers, chunk: Numbers) -> None:
    """Every owner's chunk goes up its tree and down again."""
    nvls.phase("between groups")
    number, size = group.shape
    above, owner = two_trees(number), np.arange(size)[:, None]
    # from the leaves up, without the root
    up = np.argsort(-depths(above), axis=1, kind="stable")[owner[:, 0] % 2, :-1]
    node, parent = group[up, owner], group[above[owner % 2, up], owner]
    slot, down = chunk[:, None], np.s_[:, ::-1]
    nvls.reduce(node, parent, slot=slot, count=number, channel=owner, steps=2)
    nvls.copy(parent[down], node[down], slot=slot, count=number, channel=owner, steps=2)


def fit_nvls_tree(
    topology: Topology, ranks: int, nbytes: float, *, segments: int = NVLS_PIECES
) -> Fitted:
    """The groups of nvls."""
    groups, used = groups_of(topology, ranks)
    schedule = nvls_tree_all_reduce(ranks, nbytes, groups, segments=segments)
    cost = machine_formulas.nvls_tree(segments, len(groups))
    return fitted(topology, ranks, schedule, cost, used)


@declare("nvls_tree", ALL_REDUCE, machine_formulas.nvls_tree, fit=fit_nvls_tree)
def nvls_tree_all_reduce(
    ranks: int, nbytes: float, groups: Numbers | None = None, *, segments: int = NVLS_PIECES
) -> Schedule:
    """As nvls, with trees across nodes. The owners of a chunk reduce it up a binary tree of the
    groups, and broadcast it down. Owners take turns with two trees."""
    group = np.arange(ranks)[None, :] if groups is None else groups
    return switched(ranks, nbytes, group, segments, _across_trees)


def fit_multimem(topology: Topology, ranks: int, nbytes: float) -> Fitted:
    """The switch of a node; several nodes have none for all."""
    groups, used = groups_of(topology, ranks)
    if len(groups) > 1:
        raise InputError(
            f"multimem_one_shot: {len(groups)} switches have ranks, and it takes one: take one node"
        )
    schedule = multimem_one_shot_all_reduce(ranks, nbytes)
    return fitted(topology, ranks, schedule, machine_formulas.MULTIMEM, used)


@declare("multimem_one_shot", ALL_REDUCE, machine_formulas.MULTIMEM, fit=fit_multimem)
def multimem_one_shot_all_reduce(ranks: int, nbytes: float) -> Schedule:
    """Every rank reads the sum of all buffers out of the NVSwitches. The switch fetches V from each
    rank for each reader.

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
