"""Plain shapes of a machine. Each takes the number of ranks and, per link, β in bytes/s, α and g in seconds."""

from collections.abc import Callable
from itertools import permutations
from typing import Literal

from topologies.builder import TopologyBuilder
from topologies.errors import InputError
from topologies.topology import Topology


def line(ranks: int, *, bandwidth: float, latency: float = 0.0, gap: float = 0.0, reduction: float = 0.0) -> Topology:
    """A wire between neighbours, in both directions.

    >>> line(3, bandwidth=1e9).graph.number_of_edges()
    4
    """
    return tree(ranks, bandwidth=bandwidth, latency=latency, gap=gap, reduction=reduction, branching=1, name="line")


def ring(ranks: int, *, bandwidth: float, latency: float = 0.0, gap: float = 0.0, reduction: float = 0.0) -> Topology:
    """A wire between neighbours and from the last to the first, in both directions; `ring(2)` is `line(2)`.

    >>> ring(5, bandwidth=1e9).graph.number_of_edges()
    10
    """
    builder, gpus = _gpus("ring", ranks, reduction)
    for rank in range(ranks if ranks > 2 else 1):
        builder.connect(gpus[rank], gpus[(rank + 1) % ranks], bandwidth=bandwidth, latency=latency, gap=gap)
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
        builder.connect(gpus[(rank - 1) // branching], gpus[rank], bandwidth=bandwidth, latency=latency, gap=gap)
    return builder.build(gpus)


def star(ranks: int, *, bandwidth: float, latency: float = 0.0, gap: float = 0.0, reduction: float = 0.0) -> Topology:
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
    """A wire between every two ranks: with a port a peer, or behind one injection and one ejection port a rank.

    >>> full_mesh(4, bandwidth=1e9, ports="one").medium_names[-2:]
    ('gpu3 out', 'gpu3 in')
    """
    if ports not in ("peer", "one"):
        raise InputError(f"ports is {ports!r}: it is 'peer' or 'one'")
    builder, gpus = _gpus("full_mesh" if ports == "peer" else "full_mesh_one_port", ranks, reduction)
    shared = {
        gpu: (builder.medium(f"{gpu} out", bandwidth, gap), builder.medium(f"{gpu} in", bandwidth, gap))
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
    return full_mesh(ranks, bandwidth=bandwidth, latency=latency, gap=gap, reduction=reduction, ports="one")


def bus(ranks: int, *, bandwidth: float, latency: float = 0.0, gap: float = 0.0, reduction: float = 0.0) -> Topology:
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


SHAPES: dict[str, Callable[..., Topology]] = {
    function.__name__: function for function in (ring, star, full_mesh, full_mesh_one_port, bus, line, tree)
}
"""The shapes by name, as `--topology` takes them."""


def _gpus(name: str, ranks: int, reduction: float) -> tuple[TopologyBuilder, list[str]]:
    if ranks < 2:
        raise InputError(f"ranks must be at least 2, got {ranks}")
    builder = TopologyBuilder(name)
    return builder, [builder.device(f"gpu{rank}", reduction=reduction) for rank in range(ranks)]
