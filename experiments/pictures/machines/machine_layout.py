"""What of a machine is drawn, and where: by level from the ranks up to the network, or by the
structure of its ring, grid, tree or star."""

from __future__ import annotations

import numpy as np

from experiments.pictures.machines.level_layout import level_layout
from experiments.pictures.machines.shape_layout import shape_layout
from experiments.pictures.machines.sketch import Layout, Numbers, Sketch, ends
from topologies.errors import InputError
from topologies.topology import Flags, Floats, Topology

MOST_DEVICES, MOST_LINKS = 256, 5_000
"""What a picture of a plain shape shows: beyond, it is a grey spot."""
MOST_RANKS, MOST_OF_ONE = 32, 40
"""Ranks in a row, of several nodes and of one: of more, the first and the last are drawn."""
MOST_NODES = 4


def machine_layout(topology: Topology) -> Layout:
    """Where everything goes. Raises InputError for a plain shape with more than
    :data:`MOST_DEVICES` devices."""
    ranks = _rank_devices(topology)
    unranked = len(topology.device_names) - len(ranks)
    large = len(topology.device_names) > MOST_DEVICES or topology.links > 2 * MOST_LINKS
    if topology.node.max() >= 0 or unranked > 1 or (unranked and (large or topology.shared_names)):
        drawn, left_out = _some(topology, ranks)
        layout = level_layout(sketch(topology, drawn, ranks))
        return layout._replace(left_out=left_out + layout.left_out)
    if large:
        size = f"{len(topology.device_names)} devices and {topology.links} links"
        raise InputError(
            f"{topology.name} has {size}: a picture of it shows at most {MOST_DEVICES} and "
            f"{2 * MOST_LINKS}"
        )
    return shape_layout(
        sketch(topology, np.ones(len(topology.device_names), dtype=np.bool_), ranks)
    )


def sketch(topology: Topology, drawn: Flags, ranks: Numbers) -> Sketch:
    """The drawn devices of a topology and the links between them, each pair once."""
    devices = np.flatnonzero(drawn)
    number = np.cumsum(drawn) - 1
    links = drawn[topology.source] & drawn[topology.target]
    ends = np.sort(
        number[np.stack((topology.source[links], topology.target[links]), axis=1)], axis=1
    )
    return Sketch(
        devices,
        [topology.device_kinds[device] for device in devices.tolist()],
        topology.node[devices].tolist(),
        _place(devices, ranks),
        [(first, second) for first, second in np.unique(ends, axis=0).tolist()],
    )


def _place(devices: Numbers, ranks: Numbers) -> list[int]:
    place = {device: number for number, device in enumerate(ranks.tolist())}
    return [place.get(device, -1) for device in devices.tolist()]


def _rank_devices(topology: Topology) -> Numbers:
    """The devices with ranks and those of the same kind, by node."""
    kinds = {topology.device_kinds[device] for device in np.unique(topology.placement).tolist()}
    alike = np.flatnonzero(topology.device_kinds.are(*kinds))
    return alike[np.argsort(topology.node[alike], kind="stable")]


def _some(topology: Topology, ranks: Numbers) -> tuple[Flags, tuple[str, ...]]:
    """Which devices are drawn: some ranks and what is as near to one of them as to any, and what is
    left out."""
    selection, left_out = _some_ranks(topology, ranks)
    drawn = distances(topology, selection) == distances(topology, ranks)
    drawn[np.setdiff1d(ranks, selection)] = False
    return drawn, left_out


def _some_ranks(topology: Topology, ranks: Numbers) -> tuple[Numbers, tuple[str, ...]]:
    """As many as fit: whole nodes if they do, and never fewer than the first and the last node."""
    node = topology.node[ranks]
    nodes, size = np.unique(node, return_counts=True)
    if len(ranks) <= (MOST_RANKS if len(nodes) > 1 else MOST_OF_ONE):
        return ranks, ()
    count = min(len(nodes), MOST_NODES, max(2, MOST_RANKS // int(size.max())))
    chosen = ends(nodes.tolist(), count)
    selection = [ends(ranks[node == number].tolist(), MOST_RANKS // count) for number in chosen]
    left_out = _missing("node", nodes.tolist(), chosen)
    if len(selection[0]) < size[0]:
        places, where = list(range(size[0])), " of a node" if len(nodes) > 1 else ""
        left_out += _missing("rank", places, ends(places, MOST_RANKS // count), where)
    return np.concatenate(selection), left_out


def _missing(noun: str, every: list[int], chosen: list[int], where: str = "") -> tuple[str, ...]:
    gone = sorted(set(every) - set(chosen))
    if not gone:
        return ()
    label = f"{noun} {gone[0]}" if len(gone) == 1 else f"{noun}s {gone[0]} to {gone[-1]}"
    return (f"{label} of {len(every)}{where} not drawn",)


def distances(topology: Topology, start: Numbers) -> Floats:
    """Links from the nearest of some devices to every device; infinite where there is no way."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    count = len(topology.device_names)
    graph = csr_array(
        (np.ones(topology.links), (topology.source, topology.target)), shape=(count, count)
    )
    return np.asarray(dijkstra(graph, indices=start, unweighted=True, min_only=True))
