"""Plain shapes of a machine: a number of ranks, and links that are all alike.

A shape is a function of the ranks, the link and its options. Callers write the link's figures as
keywords: β in bytes/s, α and g in seconds. `reduction` is γ of every rank in seconds a byte.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, signature
from math import inf, isqrt, prod
from typing import Any, Concatenate, Literal, Protocol

import numpy as np

from topologies.columns import Numbered
from topologies.errors import InputError
from topologies.fabrics import Equipment, join_dragonfly, join_fat_tree, join_leaf_spine, whole
from topologies.link import Link
from topologies.topology import Ints, Paths, Topology
from topologies.topology_builder import TopologyBuilder


class Shape(Protocol):
    """What callers see of a shape."""

    __name__: str

    def __call__(
        self,
        ranks: int,
        *,
        bandwidth: float,
        latency: float = 0.0,
        gap: float = 0.0,
        reduction: float = 0.0,
        **options: Any,
    ) -> Topology:
        """The shape of so many ranks."""


SHAPES: dict[str, Shape] = {}
"""The shapes by name, as `--topology` takes them."""


def shape(build: Callable[Concatenate[int, Link, float, ...], Topology]) -> Shape:
    """Register a function of the ranks, the link, γ and options, and let callers write the link as
    keywords."""

    @wraps(build)
    def front(
        ranks: int,
        *,
        bandwidth: float,
        latency: float = 0.0,
        gap: float = 0.0,
        reduction: float = 0.0,
        **options: Any,
    ) -> Topology:
        return build(ranks, Link(bandwidth, latency, gap), reduction, **options)

    figures = [*signature(Shape.__call__).parameters.values()][1:-1]
    options = [*signature(build).parameters.values()][3:]
    keywords = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in options]
    shown = signature(build).replace(parameters=[*figures, *keywords])
    front.__signature__ = shown  # type: ignore[attr-defined]
    SHAPES[build.__name__] = front
    return front


@shape
def ring(ranks: int, link: Link, reduction: float) -> Topology:
    """A wire between neighbours and from the last to the first, in both directions; `ring(2)` is
    `line(2)`.

    >>> ring(5, bandwidth=1e9).graph.number_of_edges()
    10
    """
    builder, gpus = _gpus("ring", ranks, reduction)
    wires = ranks if ranks > 2 else 1
    builder.wire(gpus[:wires], np.roll(gpus, -1)[:wires], link)
    return builder.build(gpus)


@shape
def star(ranks: int, link: Link, reduction: float) -> Topology:
    """Every rank on one non-blocking switch: a route is two links, 2α.

    >>> star(4, bandwidth=1e9, latency=1e-6).route(0, 3)
    (0, 7)
    """
    builder, gpus = _gpus("star", ranks, reduction)
    builder.wire(gpus, builder.devices(["switch"], "switch"), link)
    return builder.build(gpus)


@shape
def full_mesh(
    ranks: int, link: Link, reduction: float, ports: Literal["peer", "one"] = "peer"
) -> Topology:
    """A wire between every two ranks: with a port a peer, or behind one injection and one ejection
    port a rank.

    >>> full_mesh(4, bandwidth=1e9, ports="one").medium_names[-2:]
    ('gpu3 out', 'gpu3 in')
    """
    if ports not in ("peer", "one"):
        raise InputError(f"ports is {ports!r}: it is 'peer' or 'one'")
    name = "full_mesh" if ports == "peer" else "full_mesh_one_port"
    builder, gpus = _gpus(name, ranks, reduction)
    source, target = np.divmod(np.flatnonzero(~np.eye(ranks, dtype=np.bool_)), ranks)
    media = np.zeros((len(source), 0), dtype=np.int32)
    if ports == "one":
        for rank in range(ranks):
            for way in ("out", "in"):
                builder.medium(f"gpu{rank} {way}", link.bandwidth, link.gap)
        media = np.stack((2 * source, 2 * target + 1), axis=1).astype(np.int32)
    builder.arrows(source, target, link, media=media)
    return builder.build(gpus)


@shape
def full_mesh_one_port(ranks: int, link: Link, reduction: float) -> Topology:
    """A wire between every two ranks behind one injection and one ejection port a rank."""
    return full_mesh(ranks, **vars(link), reduction=reduction, ports="one")


@shape
def bus(ranks: int, link: Link, reduction: float) -> Topology:
    """One shared medium: only one transfer at a time, whoever sends. A route costs one α.

    >>> bus(4, bandwidth=1e9).medium_names[-1]
    'bus'
    """
    builder, gpus = _gpus("bus", ranks, reduction)
    wire = builder.medium("bus", link.bandwidth, link.gap)
    tap = builder.device("bus", "switch")
    for gpu in Numbered(ranks, ("gpu", "")):
        builder.link(gpu, tap, Link(inf, link.latency), kind="bus", media=(wire,))
        builder.link(tap, gpu, Link(inf), kind="bus")
    return builder.build(gpus)


@shape
def line(ranks: int, link: Link, reduction: float) -> Topology:
    """A wire between neighbours, in both directions.

    >>> line(3, bandwidth=1e9).graph.number_of_edges()
    4
    """
    return _tree("line", ranks, link, reduction, branching=1)


@shape
def tree(ranks: int, link: Link, reduction: float, branching: int = 2) -> Topology:
    """A wire from every rank r > 0 to its parent (r - 1) // branching; branching 1 is a line.

    >>> sorted(dict(tree(7, bandwidth=1e9).graph.out_degree()).values())
    [1, 1, 1, 1, 2, 3, 3]
    """
    return _tree("tree", ranks, link, reduction, branching)


@shape
def grid(
    ranks: int,
    link: Link,
    reduction: float,
    dims: Sequence[int] | None = None,
    periodic: bool = False,
) -> Topology:
    """A wire between neighbours in every dimension of a box, and from end to end if `periodic`.
    Routes take the first dimension first.

    `dims` multiply to the ranks, which lie in row-major order: neighbours in the last dimension are
    1 apart. A dimension of 2 has one wire, not two, and one of 1 has none. By default there are
    two, as nearly square as can be.

    >>> sorted(set(dict(grid(27, bandwidth=1e9, dims=(3, 3, 3)).graph.out_degree).values()))
    [3, 4, 5, 6]
    """
    return _grid("grid", ranks, link, reduction, dims, periodic)


@shape
def torus(ranks: int, link: Link, reduction: float, dims: Sequence[int] | None = None) -> Topology:
    """A grid whose every dimension is a ring; in one dimension it is the ring.

    >>> set(dict(torus(64, bandwidth=1e9, dims=(4, 4, 4)).graph.out_degree).values())
    {6}
    """
    return _grid("torus", ranks, link, reduction, dims, periodic=True)


@shape
def hypercube(ranks: int, link: Link, reduction: float) -> Topology:
    """A grid, or torus, of two ranks in every dimension: neighbours differ in one bit of their
    rank.

    >>> hypercube(8, bandwidth=1e9).graph.number_of_edges()
    24
    """
    dimensions = whole("ranks", ranks, 2).bit_length() - 1
    if ranks != 2**dimensions:
        raise InputError(f"hypercube takes a power of two, got {ranks}")
    return _grid("hypercube", ranks, link, reduction, (2,) * dimensions)


@shape
def nodes(
    ranks: int, link: Link, reduction: float, per_node: int = 8, multicast: bool = False
) -> Topology:
    """Nodes of 8 ranks, or of `per_node`: each rank has a link of kind "node" to its node's
    switch, and each node a way out and a way in, which all its ranks reach at no cost, with links
    of kind "network" to the switch of all. One rank a node is a star. With `multicast`, the
    switches in nodes reduce and multicast.

    >>> top = nodes(8, bandwidth=1e9, latency=1e-6, per_node=4)
    >>> [len(top.route(0, rank)) for rank in (1, 4)]
    [2, 4]
    """
    per_node = min(whole("per_node", per_node, 1), whole("ranks", ranks, 2))
    number = np.arange(ranks, dtype=np.int32) // np.int32(per_node)
    builder = TopologyBuilder("nodes")
    gpus = builder.devices(Numbered(ranks, ("gpu", "")), "gpu", reduction=reduction, node=number)
    count = int(number[-1]) + 1
    if per_node == 1:
        builder.wire(gpus, builder.devices(["network"], "switch"), link, kind="network")
        return builder.build(gpus)
    names = Numbered(count, ("node", ""))
    switches = builder.devices(names, "switch", node=np.arange(count), in_network=multicast)
    builder.wire(gpus, switches[number], link, kind="node")
    if count > 1:
        _ports(builder, gpus, number, link)
    return builder.build(gpus)


@shape
def leaf_spine(
    ranks: int,
    link: Link,
    reduction: float,
    ports_per_leaf: int | None = None,
    spines: int | None = None,
    oversubscription: float = 1.0,
) -> Topology:
    """Two stages of switches: 2α within a leaf, else 4α. :func:`topologies.fabrics.join_leaf_spine`
    joins them.

    >>> len(leaf_spine(8, bandwidth=1e9, ports_per_leaf=4, spines=2).route(0, 7))
    4
    """
    builder, gpus = _gpus("leaf_spine", ranks, reduction, "hash")
    equipment = Equipment(link, link.latency, "link")
    uplinks: dict[str, Any] = {"spines": spines, "oversubscription": oversubscription}
    join_leaf_spine(builder, np.arange(ranks), equipment, ports_per_leaf=ports_per_leaf, **uplinks)
    return builder.build(gpus)


@shape
def fat_tree(ranks: int, link: Link, reduction: float, k: int | None = None) -> Topology:
    """Three stages of switches of k ports: 2α, 4α or 6α. :func:`topologies.fabrics.join_fat_tree`
    joins them.

    >>> [len(fat_tree(16, bandwidth=1e9).route(0, rank)) for rank in (1, 2, 4)]
    [2, 4, 6]
    """
    builder, gpus = _gpus("fat_tree", ranks, reduction, "hash")
    join_fat_tree(builder, np.arange(ranks), Equipment(link, link.latency, "link"), k=k)
    return builder.build(gpus)


@shape
def dragonfly(
    ranks: int,
    link: Link,
    reduction: float,
    hosts: int | None = None,
    routers: int | None = None,
    global_links: int | None = None,
    cables: int | None = 1,
) -> Topology:
    """Groups of routers: 3α within a group, at most 5α. :func:`topologies.fabrics.join_dragonfly`
    joins them.

    >>> max(len(dragonfly(72, bandwidth=1e9).route(0, rank)) for rank in range(72))
    5
    """
    builder, gpus = _gpus("dragonfly", ranks, reduction, "hash")
    join_dragonfly(
        builder,
        np.arange(ranks),
        Equipment(link, link.latency, "link"),
        hosts=hosts,
        routers=routers,
        global_links=global_links,
        cables=cables,
    )
    return builder.build(gpus)


def _tree(name: str, ranks: int, link: Link, reduction: float, branching: int) -> Topology:
    if branching < 1:
        raise InputError(f"branching is {branching}: it is at least 1")
    builder, gpus = _gpus(name, ranks, reduction)
    builder.wire(gpus[(gpus[1:] - 1) // min(branching, ranks)], gpus[1:], link)
    return builder.build(gpus)


def _grid(
    name: str,
    ranks: int,
    link: Link,
    reduction: float,
    dims: Sequence[int] | None,
    periodic: bool = False,
) -> Topology:
    builder, gpus = _gpus(name, ranks, reduction, "link")
    cells = gpus.reshape(_dims(ranks, dims))
    for axis, width in enumerate(cells.shape):
        row = np.moveaxis(cells, axis, 0)
        builder.wire(row[:-1], row[1:], link)
        if periodic and width > 2:
            builder.wire(row[-1], row[0], link)
    return builder.build(cells.ravel())


def _ports(builder: TopologyBuilder, gpus: Ints, number: Ints, link: Link) -> None:
    """A way out of every node and one into it. No route between two ranks of a node takes them."""
    count = int(number[-1]) + 1
    network = builder.devices(["network"], "switch")
    names = Numbered(2 * count, ("out", ""), ("in", ""))
    ways = builder.devices(names, "switch", node=np.repeat(np.arange(count), 2))
    out, into = ways[::2], ways[1::2]
    ends = _in_turn(out, network), _in_turn(network, into)
    builder.arrows(*ends, link, kind="network")
    ends = _in_turn(gpus, into[number]), _in_turn(out[number], gpus)
    builder.arrows(*ends, Link(inf), kind="port")


def _in_turn(first: Ints, other: Ints) -> Ints:
    """The first of `first`, the first of `other`, the second of `first` and so on."""
    return np.stack(np.broadcast_arrays(first, other), axis=1).ravel()


def _gpus(
    name: str, ranks: int, reduction: float, paths: Paths = "first"
) -> tuple[TopologyBuilder, Ints]:
    builder = TopologyBuilder(name, paths=paths)
    names = Numbered(whole("ranks", ranks, 2), ("gpu", ""))
    return builder, builder.devices(names, "gpu", reduction=reduction)


def _dims(ranks: int, dims: Sequence[int] | None) -> tuple[int, ...]:
    """The widths asked for, or the two nearest to each other; without those of 1."""
    if dims is None:
        dims = (next(width for width in range(isqrt(ranks), 0, -1) if ranks % width == 0),)
        dims = (*dims, ranks // dims[0])
    widths = tuple(whole("a dimension", width) for width in dims)
    if prod(widths) != ranks:
        raise InputError(
            f"dims must multiply to {ranks} ranks, got {' x '.join(map(str, widths)) or 'none'}"
        )
    return tuple(width for width in widths if width > 1)
