"""What of a machine is drawn, and where: by level from the ranks up to the network, or by the
structure of a shape: a circle for rings, stars and meshes, coordinates for grids, generations for
trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from experiments.pictures.machines.level_layout import (
    Layout,
    Pair,
    Sketch,
    bends,
    ends,
    level_layout,
)
from topologies.errors import InputError
from topologies.topology import Flags, Floats, Ints, Longs, Topology

if TYPE_CHECKING:
    import networkx as nx

MOST_DEVICES, MOST_LINKS = 256, 5_000
"""What a picture of a plain shape shows: beyond, it is a grey spot."""
MOST_RANKS, MOST_OF_ONE = 32, 40
"""Ranks in a row, of several nodes and of one: of more, the first and the last are drawn."""
ACROSS, UP = 1.9, 1.5
"""Between the columns and the rows of a grid."""
ASLANT = np.array([0.8, 0.85])
"""From one layer of a third dimension to the next."""


def machine_layout(topology: Topology) -> Layout:
    """Where everything goes. Raises InputError for a plain shape with more than
    :data:`MOST_DEVICES` devices."""
    # The devices with ranks and those of the same kind, by node.
    kinds = {topology.device_kinds[device] for device in np.unique(topology.placement).tolist()}
    ranks = np.flatnonzero(topology.device_kinds.are(*kinds))
    ranks = ranks[np.argsort(topology.node[ranks], kind="stable")]
    devices = len(topology.device_names)
    unranked = devices - len(ranks)
    large = devices > MOST_DEVICES or topology.links > 2 * MOST_LINKS
    if topology.node.max() >= 0 or unranked > 1 or (unranked and (large or topology.shared_names)):
        selection, left_out = _some_ranks(topology, ranks)
        drawn = np.ones(devices, dtype=np.bool_)
        if left_out:
            drawn, missing = _near(topology, ranks, selection)
            left_out += missing
        return level_layout(_sketch(topology, drawn, ranks))._replace(left_out=left_out)
    if large:
        raise InputError(
            f"{topology.name} has {devices} devices and {topology.links} links: a picture of it "
            f"shows at most {MOST_DEVICES} and {2 * MOST_LINKS}"
        )
    return _shape_layout(_sketch(topology, np.ones(devices, dtype=np.bool_), ranks))


def _near(topology: Topology, ranks: Longs, selection: Longs) -> tuple[Flags, tuple[str, ...]]:
    """What is drawn with some of the ranks, and what is not of the network: in nodes what is as
    near to these ranks as to any, and beyond all that messages from the first of them cross."""
    drawn = distances(topology, selection) == distances(topology, ranks)
    drawn[np.setdiff1d(ranks, selection)] = False
    chosen = np.flatnonzero(np.isin(topology.placement, selection))
    _, links = topology.routes(np.full(len(chosen), chosen[0]), chosen)
    network = topology.node < 0
    network[ranks] = False
    crossed = np.isin(np.arange(len(drawn)), topology.target[links])
    number, most = int((network & crossed).sum()), int(network.sum())
    missing = (f"{most - number} of {most} devices of the network not drawn",) * (number < most)
    return np.where(network, crossed, drawn), missing


def _sketch(topology: Topology, drawn: Flags, ranks: Longs) -> Sketch:
    """The drawn devices of a topology and the links between them, each pair once."""
    devices, number = np.flatnonzero(drawn), np.cumsum(drawn) - 1
    links = drawn[topology.source] & drawn[topology.target]
    pairs = number[np.stack((topology.source[links], topology.target[links]), axis=1)]
    place = {device: k for k, device in enumerate(ranks.tolist())}
    return Sketch(
        devices,
        [topology.device_kinds[device] for device in devices.tolist()],
        topology.node[devices].tolist(),
        [place.get(device, -1) for device in devices.tolist()],
        [(first, second) for first, second in np.unique(np.sort(pairs), axis=0).tolist()],
    )


def _some_ranks(topology: Topology, ranks: Longs) -> tuple[Longs, tuple[str, ...]]:
    """As many as fit: whole nodes if they do, and never fewer than the first and the last node."""
    node = topology.node[ranks]
    nodes, size = np.unique(node, return_counts=True)
    if len(ranks) <= (MOST_RANKS if len(nodes) > 1 else MOST_OF_ONE):
        return ranks, ()
    count = min(len(nodes), 4, max(2, MOST_RANKS // int(size.max())))
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


def distances(topology: Topology, start: Longs) -> Floats:
    """Links from the nearest of some devices to every device; infinite where there is no way."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    count = len(topology.device_names)
    graph = csr_array(
        (np.ones(topology.links), (topology.source, topology.target)), shape=(count, count)
    )
    return np.asarray(dijkstra(graph, indices=start, unweighted=True, min_only=True))


def _shape_layout(sketch: Sketch) -> Layout:
    """Place the devices of a graph without levels by its structure.

    A device above the lowest row is the hub: it goes to the middle.
    """
    hubs = [k for k, place in enumerate(sketch.place) if place < 0]
    if hubs:
        places = _with_hub(len(sketch.kinds), hubs[0])
    else:
        places = _places(sketch.graph, _cells(sketch.pairs, len(sketch.kinds)))
    widths = np.full(len(places), 0.9)
    return Layout(sketch.devices, places, widths, bends(sketch.pairs, places, widths, aside=0.55))


def _places(graph: nx.Graph[int], cells: Ints | None) -> Floats:
    import networkx

    count, degrees = len(graph), {degree for _, degree in graph.degree}
    if degrees == {2} and networkx.is_connected(graph):
        return _circle(list(networkx.dfs_preorder_nodes(graph, 0)))
    if count > 1 and networkx.is_tree(graph):
        return _line(graph) if max(degrees) <= 2 else _generations(graph)
    if cells is not None:
        return _flat(cells)
    if len(degrees) == 1 and degrees == {count - 1}:
        return _circle(list(range(count)))
    return _fitted(graph)


def _circle(order: list[int]) -> Floats:
    places, angle = np.empty((len(order), 2)), 2 * np.pi * np.arange(len(order)) / len(order)
    radius = max(1.8, 1.3 * len(order) / (2 * np.pi))
    places[order] = radius * np.stack((np.sin(angle), np.cos(angle)), axis=1)
    return places


def _with_hub(count: int, hub: int) -> Floats:
    places = np.zeros((count, 2))
    rim = [k for k in range(count) if k != hub]
    places[rim] = _circle(list(range(count - 1))) * (1.0 if count > 6 else 1.2)
    return places


def _line(graph: nx.Graph[int]) -> Floats:
    """From left to right, or round a circle with a gap where that would be too long."""
    import networkx

    start = min(k for k, degree in graph.degree if degree == 1)
    order = list(networkx.dfs_preorder_nodes(graph, start))
    if len(order) > 16:
        return _circle(order)
    places = np.zeros((len(order), 2))
    places[order, 0] = ACROSS * np.arange(len(order))
    return places


def _generations(graph: nx.Graph[int]) -> Floats:
    """Device 0 on top, children below their parent, which stands over the middle of them."""
    import networkx

    places, children = np.zeros((len(graph), 2)), networkx.dfs_successors(graph, 0)
    leaves = [k for k in networkx.dfs_preorder_nodes(graph, 0) if k not in children]
    places[leaves, 0] = 1.2 * np.arange(len(leaves))
    for k in networkx.dfs_postorder_nodes(graph, 0):
        if k in children:
            places[k, 0] = places[children[k], 0].mean()
    for k, depth in networkx.single_source_shortest_path_length(graph, 0).items():
        places[k, 1] = -UP * depth * 1.2
    return places


def _cells(pairs: list[Pair], count: int) -> Ints | None:
    """The coordinates of a grid or torus in row-major order, shape (devices, dimensions), if that
    is what it is."""
    first, second = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    for widths in sorted(_factors(count), key=len)[1:]:
        cells = np.stack(np.unravel_index(np.arange(count), widths), axis=1)
        distance = np.abs(cells[first] - cells[second])
        steps = (distance == 1) | (distance == np.array(widths) - 1)
        if ((distance > 0).sum(axis=1) == 1).all() and steps[distance > 0].all():
            return cells.astype(np.int32)
    return None


def _factors(count: int) -> Iterator[tuple[int, ...]]:
    """The ways to write a number as a product of numbers of 2 or more, in every order."""
    for first in range(2, count + 1):
        if count % first == 0:
            yield from (
                ((first, *rest) for rest in _factors(count // first))
                if first < count
                else [(first,)]
            )


def _flat(cells: Ints) -> Floats:
    """Coordinates on paper: the last dimension across, the one before down, a third aslant, further
    ones apart."""
    size = (cells.max(axis=0) + 1)[::-1]
    layers = float(size[2]) if len(size) > 2 else 0.0
    steps = [np.array([ACROSS, 0.0]), np.array([0.0, -max(UP, ASLANT[1] * layers + 0.35)]), ASLANT][
        : len(size)
    ]
    extent = sum(abs(step) * width for step, width in zip(steps, size, strict=False))
    for number in range(3, len(size)):
        steps.append((extent + 0.8) * ([1, 0] if number % 2 else [0, -1]))
        extent = extent + abs(steps[-1])
    return np.asarray(cells[:, ::-1] @ np.array(steps), dtype=np.float64)


def _fitted(graph: nx.Graph[int]) -> Floats:
    """Neighbours near each other, as far apart as names need."""
    import networkx

    # Fitting the distances of more devices takes too long: their links are springs.
    small = len(graph) <= 100
    positions = (
        networkx.kamada_kawai_layout(graph) if small else networkx.spring_layout(graph, seed=0)
    )
    places = np.array([positions[k] for k in range(len(graph))])
    away = np.linalg.norm(places[:, None] - places[None], axis=2)
    return np.asarray(places * 1.4 / max(1e-3, float(np.partition(away, 1, axis=1)[:, 1].min())))
