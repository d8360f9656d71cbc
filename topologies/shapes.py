"""Plain shapes of a machine. Each takes the number of ranks and, per link, β in bytes/s, α and g in
seconds."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import permutations
from math import inf, isqrt, prod
from typing import Literal

import numpy as np

from topologies.builder import TopologyBuilder
from topologies.errors import InputError
from topologies.fabrics import Wires, join_dragonfly, join_fat_tree, join_leaf_spine, whole
from topologies.topology import Ints, Paths, Topology


def line(
    ranks: int, *, bandwidth: float, latency: float = 0.0, gap: float = 0.0, reduction: float = 0.0
) -> Topology:
    """A wire between neighbours, in both directions.

    >>> line(3, bandwidth=1e9).graph.number_of_edges()
    4
    """
    return tree(
        ranks,
        bandwidth=bandwidth,
        latency=latency,
        gap=gap,
        reduction=reduction,
        branching=1,
        name="line",
    )


def ring(
    ranks: int, *, bandwidth: float, latency: float = 0.0, gap: float = 0.0, reduction: float = 0.0
) -> Topology:
    """A wire between neighbours and from the last to the first, in both directions; `ring(2)` is
    `line(2)`.

    >>> ring(5, bandwidth=1e9).graph.number_of_edges()
    10
    """
    builder, gpus = _gpus("ring", ranks, reduction)
    for rank in range(ranks if ranks > 2 else 1):
        builder.connect(
            gpus[rank], gpus[(rank + 1) % ranks], bandwidth=bandwidth, latency=latency, gap=gap
        )
    return builder.build(gpus)


def tree(
    ranks: int,
    *,
    bandwidth: float,
    latency: float = 0.0,
    gap: float = 0.0,
    reduction: float = 0.0,
    branching: int = 2,
    name: str = "tree",
) -> Topology:
    """A wire from every rank r > 0 to its parent (r - 1) // branching; branching 1 is a line.

    >>> sorted(dict(tree(7, bandwidth=1e9).graph.out_degree()).values())
    [1, 1, 1, 1, 2, 3, 3]
    """
    if branching < 1:
        raise InputError(f"branching is {branching}: it is at least 1")
    builder, gpus = _gpus(name, ranks, reduction)
    for rank in range(1, ranks):
        builder.connect(
            gpus[(rank - 1) // branching], gpus[rank], bandwidth=bandwidth, latency=latency, gap=gap
        )
    return builder.build(gpus)


def star(
    ranks: int, *, bandwidth: float, latency: float = 0.0, gap: float = 0.0, reduction: float = 0.0
) -> Topology:
    """Every rank on one non-blocking switch: a route is two links, 2α.

    >>> star(4, bandwidth=1e9, latency=1e-6).route(0, 3)
    (0, 7)
    """
    builder, gpus = _gpus("star", ranks, reduction)
    switch = builder.device("switch", "switch")
    for gpu in gpus:
        builder.connect(gpu, switch, bandwidth=bandwidth, latency=latency, gap=gap)
    return builder.build(gpus)


def full_mesh(
    ranks: int,
    *,
    bandwidth: float,
    latency: float = 0.0,
    gap: float = 0.0,
    reduction: float = 0.0,
    ports: Literal["peer", "one"] = "peer",
) -> Topology:
    """A wire between every two ranks: with a port a peer, or behind one injection and one ejection
    port a rank.

    >>> full_mesh(4, bandwidth=1e9, ports="one").medium_names[-2:]
    ('gpu3 out', 'gpu3 in')
    """
    if ports not in ("peer", "one"):
        raise InputError(f"ports is {ports!r}: it is 'peer' or 'one'")
    builder, gpus = _gpus(
        "full_mesh" if ports == "peer" else "full_mesh_one_port", ranks, reduction
    )
    shared = {
        gpu: (
            builder.medium(f"{gpu} out", bandwidth, gap),
            builder.medium(f"{gpu} in", bandwidth, gap),
        )
        for gpu in (gpus if ports == "one" else ())
    }
    for one, other in permutations(gpus, 2):
        media = (shared[one][0], shared[other][1]) if shared else ()
        builder.link(one, other, bandwidth=bandwidth, latency=latency, gap=gap, media=media)
    return builder.build(gpus)


def full_mesh_one_port(
    ranks: int, *, bandwidth: float, latency: float = 0.0, gap: float = 0.0, reduction: float = 0.0
) -> Topology:
    """A wire between every two ranks behind one injection and one ejection port a rank."""
    return full_mesh(
        ranks, bandwidth=bandwidth, latency=latency, gap=gap, reduction=reduction, ports="one"
    )


def bus(
    ranks: int, *, bandwidth: float, latency: float = 0.0, gap: float = 0.0, reduction: float = 0.0
) -> Topology:
    """One shared medium: only one transfer at a time, whoever sends. A route costs one α.

    >>> bus(4, bandwidth=1e9).medium_names[-1]
    'bus'
    """
    builder, gpus = _gpus("bus", ranks, reduction)
    wire = builder.medium("bus", bandwidth, gap)
    tap = builder.device("bus", "switch")
    for gpu in gpus:
        builder.link(gpu, tap, bandwidth=float("inf"), latency=latency, kind="bus", media=(wire,))
        builder.link(tap, gpu, bandwidth=float("inf"), kind="bus")
    return builder.build(gpus)


def grid(
    ranks: int,
    *,
    bandwidth: float,
    latency: float = 0.0,
    gap: float = 0.0,
    reduction: float = 0.0,
    dims: Sequence[int] | None = None,
    periodic: bool = False,
    name: str = "grid",
) -> Topology:
    """A wire between neighbours in every dimension of a box, and from end to end if `periodic`.
    Routes take the first dimension first.

    `dims` multiply to the ranks, which lie in row-major order: neighbours in the last dimension are
    1 apart. A dimension of 2 has one wire, not two, and one of 1 has none. By default there are
    two, as nearly square as can be.

    >>> sorted(set(dict(grid(27, bandwidth=1e9, dims=(3, 3, 3)).graph.out_degree).values()))
    [3, 4, 5, 6]
    """
    builder, _ = _gpus(name, ranks, reduction)
    cells = np.arange(ranks, dtype=np.int32).reshape(_dims(ranks, dims))
    for axis, width in enumerate(cells.shape):
        row = np.moveaxis(cells, axis, 0)
        builder.wire(row[:-1], row[1:], bandwidth=bandwidth, latency=latency, gap=gap)
        if periodic and width > 2:
            builder.wire(row[-1], row[0], bandwidth=bandwidth, latency=latency, gap=gap)
    builder.paths = "link"
    return builder.build(cells.ravel())


def torus(
    ranks: int,
    *,
    bandwidth: float,
    latency: float = 0.0,
    gap: float = 0.0,
    reduction: float = 0.0,
    dims: Sequence[int] | None = None,
) -> Topology:
    """A grid whose every dimension is a ring; in one dimension it is the ring.

    >>> set(dict(torus(64, bandwidth=1e9, dims=(4, 4, 4)).graph.out_degree).values())
    {6}
    """
    return grid(
        ranks,
        bandwidth=bandwidth,
        latency=latency,
        gap=gap,
        reduction=reduction,
        dims=dims,
        periodic=True,
        name="torus",
    )


def hypercube(
    ranks: int, *, bandwidth: float, latency: float = 0.0, gap: float = 0.0, reduction: float = 0.0
) -> Topology:
    """A grid, or torus, of two ranks in every dimension: neighbours differ in one bit of their
    rank.

    >>> hypercube(8, bandwidth=1e9).graph.number_of_edges()
    24
    """
    dimensions = whole("ranks", ranks, 2).bit_length() - 1
    if ranks != 2**dimensions:
        raise InputError(f"hypercube takes a power of two, got {ranks}")
    return grid(
        ranks,
        bandwidth=bandwidth,
        latency=latency,
        gap=gap,
        reduction=reduction,
        dims=(2,) * dimensions,
        name="hypercube",
    )


def leaf_spine(
    ranks: int,
    *,
    bandwidth: float,
    latency: float = 0.0,
    gap: float = 0.0,
    reduction: float = 0.0,
    ports_per_leaf: int | None = None,
    spines: int | None = None,
    oversubscription: float = 1.0,
) -> Topology:
    """Two stages of switches, as :func:`topologies.fabrics.join_leaf_spine` joins them: 2α within a
    leaf, else 4α.

    >>> len(leaf_spine(8, bandwidth=1e9, ports_per_leaf=4, spines=2).route(0, 7))
    4
    """
    builder, gpus = _gpus("leaf_spine", ranks, reduction, "hash")
    join_leaf_spine(
        builder,
        np.arange(ranks),
        Wires(bandwidth, latency, latency, "link", gap),
        ports_per_leaf=ports_per_leaf,
        spines=spines,
        oversubscription=oversubscription,
    )
    return builder.build(gpus)


def nodes(
    ranks: int,
    *,
    bandwidth: float,
    latency: float = 0.0,
    gap: float = 0.0,
    reduction: float = 0.0,
    per_node: int = 8,
) -> Topology:
    """Nodes of `per_node` ranks: each rank has a link of kind "node" to its node's switch, and each
    node a way out and a way in, which all its ranks reach at no cost, with links of kind "network"
    to the switch of all. One rank a node is a star.

    >>> top = nodes(8, bandwidth=1e9, latency=1e-6, per_node=4)
    >>> [len(top.route(0, rank)) for rank in (1, 4)]
    [2, 4]
    """
    per_node = min(whole("per_node", per_node, 1), whole("ranks", ranks, 2))
    number = np.arange(ranks, dtype=np.int32) // np.int32(per_node)
    builder = TopologyBuilder("nodes")
    gpus = builder.devices(
        [f"gpu{rank}" for rank in range(ranks)], "gpu", reduction=reduction, node=number
    )
    wire = partial(builder.wire, bandwidth=bandwidth, latency=latency, gap=gap)
    count = int(number[-1]) + 1
    if per_node == 1:
        wire(gpus, builder.devices(["network"], "switch"), kind="network")
        return builder.build(gpus)
    switches = builder.devices([f"node{n}" for n in range(count)], "switch", node=np.arange(count))
    wire(gpus, switches[number], kind="node")
    if count > 1:
        _ports(builder, number, bandwidth, latency, gap)
    return builder.build(gpus)


def _ports(
    builder: TopologyBuilder, number: Ints, bandwidth: float, latency: float, gap: float
) -> None:
    """A way out of every node and one into it, so that no route between its own ranks is through
    them."""
    builder.device("network", "switch")
    for n in range(int(number[-1]) + 1):
        builder.device(f"out{n}", "switch", node=n)
        builder.device(f"in{n}", "switch", node=n)
        builder.link(
            f"out{n}", "network", bandwidth=bandwidth, latency=latency, gap=gap, kind="network"
        )
        builder.link(
            "network", f"in{n}", bandwidth=bandwidth, latency=latency, gap=gap, kind="network"
        )
    for rank, n in enumerate(number.tolist()):
        builder.link(f"gpu{rank}", f"out{n}", bandwidth=inf, kind="port")
        builder.link(f"in{n}", f"gpu{rank}", bandwidth=inf, kind="port")


def fat_tree(
    ranks: int,
    *,
    bandwidth: float,
    latency: float = 0.0,
    gap: float = 0.0,
    reduction: float = 0.0,
    k: int | None = None,
) -> Topology:
    """Three stages of switches of k ports, as :func:`topologies.fabrics.join_fat_tree` joins them:
    2α, 4α or 6α.

    >>> [len(fat_tree(16, bandwidth=1e9).route(0, rank)) for rank in (1, 2, 4)]
    [2, 4, 6]
    """
    builder, gpus = _gpus("fat_tree", ranks, reduction, "hash")
    join_fat_tree(builder, np.arange(ranks), Wires(bandwidth, latency, latency, "link", gap), k=k)
    return builder.build(gpus)


def dragonfly(
    ranks: int,
    *,
    bandwidth: float,
    latency: float = 0.0,
    gap: float = 0.0,
    reduction: float = 0.0,
    hosts: int | None = None,
    routers: int | None = None,
    global_links: int | None = None,
    cables: int | None = 1,
) -> Topology:
    """Groups of routers, as :func:`topologies.fabrics.join_dragonfly` joins them: 3α within a
    group, at most 5α.

    >>> max(len(dragonfly(72, bandwidth=1e9).route(0, rank)) for rank in range(72))
    5
    """
    builder, gpus = _gpus("dragonfly", ranks, reduction, "hash")
    join_dragonfly(
        builder,
        np.arange(ranks),
        Wires(bandwidth, latency, latency, "link", gap),
        hosts=hosts,
        routers=routers,
        global_links=global_links,
        cables=cables,
    )
    return builder.build(gpus)


SHAPES: dict[str, Callable[..., Topology]] = {
    function.__name__: function
    for function in (
        *(ring, star, full_mesh, full_mesh_one_port, bus, line, tree),
        *(grid, torus, hypercube, nodes, leaf_spine, fat_tree, dragonfly),
    )
}
"""The shapes by name, as `--topology` takes them."""


def _gpus(
    name: str, ranks: int, reduction: float, paths: Paths = "first"
) -> tuple[TopologyBuilder, list[str]]:
    names = [f"gpu{rank}" for rank in range(whole("ranks", ranks, 2))]
    builder = TopologyBuilder(name, paths=paths)
    builder.device(names[0], reduction=reduction)  # which checks the reduction of all
    builder.devices(names[1:], "gpu", reduction=reduction)
    return builder, names


def _dims(ranks: int, dims: Sequence[int] | None) -> tuple[int, ...]:
    """The widths asked for, or the two nearest to each other; without those of 1."""
    short = next(width for width in range(isqrt(ranks), 0, -1) if ranks % width == 0)
    widths = (
        (short, ranks // short)
        if dims is None
        else tuple(whole("a dimension", width) for width in dims)
    )
    if prod(widths) != ranks:
        raise InputError(
            f"dims must multiply to {ranks} ranks, got {' x '.join(map(str, widths)) or 'none'}"
        )
    return tuple(width for width in widths if width > 1)
