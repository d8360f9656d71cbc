"""Formulas of binomial, k-nomial, binary and double trees, and of recursive doubling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simulator.cost_models.cost_model import (
    ASSUMES,
    THAKUR,
    CostModel,
    is_power_of_two,
    linear,
    log2_ceil,
    log2_floor,
)
from simulator.cost_models.fabric import Fabric

FOLDS = "q = 2^⌊log2 p⌋; f = 0 if p = q, else 1"


def _folds(p: int) -> int:
    return 0 if is_power_of_two(p) else 1


def _doubled(p: int) -> int:
    """Chunks on the longest way through log2 q exchanges. The lowest p - q ranks have the chunks of
    two ranks."""
    return sum(
        (1 << level) + min(1 << level, p - (1 << log2_floor(p))) for level in range(log2_floor(p))
    )


TREE_REDUCE = linear(
    latex=r"\lceil\log_2 p\rceil\left(\alpha + g + \frac{V}{\beta} + V\gamma\right)",
    assumes=f"{ASSUMES}; highest ranks fold first",
    source=THAKUR,
    steps=log2_ceil,
    moved=log2_ceil,
    merged=log2_ceil,
    peak=lambda p: 2,
)

TREE_BROADCAST = linear(
    latex=r"\lceil\log_2 p\rceil\left(\alpha + g + \frac{V}{\beta}\right)",
    assumes=f"{ASSUMES}; highest ranks unfold last",
    source=THAKUR,
    steps=log2_ceil,
    moved=log2_ceil,
)

TREE_ALL_REDUCE = linear(
    latex=r"\lceil\log_2 p\rceil\left(2\alpha + 2g + \frac{2V}{\beta} + V\gamma\right)",
    assumes=f"{ASSUMES}; a reduce, then a broadcast",
    source=THAKUR,
    steps=lambda p: 2 * log2_ceil(p),
    moved=lambda p: 2 * log2_ceil(p),
    merged=log2_ceil,
    volume=lambda p: 2 * (p - 1),
    peak=lambda p: 2,
)

RECURSIVE_DOUBLING = linear(
    latex=r"(\log_2 q + 2f)\left(\alpha + g + \frac{V}{\beta}\right) + (\log_2 q + f)V\gamma",
    assumes=f"{ASSUMES}; {FOLDS}",
    source=THAKUR,
    steps=lambda p: log2_floor(p) + 2 * _folds(p),
    moved=lambda p: log2_floor(p) + 2 * _folds(p),
    merged=lambda p: log2_floor(p) + _folds(p),
    volume=lambda p: (1 << log2_floor(p)) * log2_floor(p) + 2 * (p - (1 << log2_floor(p))),
    peak=lambda p: 2,
    redundant=lambda p: p + (1 << log2_floor(p)) - 2,
)

HALVING_DOUBLING = linear(
    latex=r"2(\log_2 q + f)(\alpha + g) + \left(2\frac{q-1}{q} + 2f\right)\frac{V}{\beta}"
    r" + \left(\frac{q-1}{q} + f\right)V\gamma",
    assumes=f"{ASSUMES}; {FOLDS}",
    source=f"Rabenseifner, ICCS 2004; {THAKUR}",
    steps=lambda p: 2 * (log2_floor(p) + _folds(p)),
    moved=lambda p: 2 * (1 - 0.5 ** log2_floor(p) + _folds(p)),
    merged=lambda p: 1 - 0.5 ** log2_floor(p) + _folds(p),
    volume=lambda p: 2 * (p - 1),
    peak=lambda p: 2 if _folds(p) else 1.5,
)

RECURSIVE_DOUBLING_ALL_GATHER = linear(
    latex=r"(\log_2 q + 2f)(\alpha + g) + \frac{s + f(p+1)}{p}\frac{V}{\beta},"
    r"\ s = \sum_{2^k < q}\left(2^k + \min(2^k, p-q)\right)",
    assumes=f"{ASSUMES}; {FOLDS}",
    source=f"{THAKUR}; off powers of two folded in pairs",
    steps=lambda p: log2_floor(p) + 2 * _folds(p),
    moved=lambda p: (_doubled(p) + _folds(p) * (p + 1)) / p,
    volume=lambda p: (p - 1) + (p - (1 << log2_floor(p))) / p,
)

RECURSIVE_HALVING_REDUCE_SCATTER = linear(
    latex=r"(\log_2 q + 2f)(\alpha + g) + \frac{s + f(p+1)}{p}\frac{V}{\beta}"
    r" + \frac{s + fp}{p}V\gamma,\ s = \sum_{2^k < q}\left(2^k + \min(2^k, p-q)\right)",
    assumes=RECURSIVE_DOUBLING_ALL_GATHER.assumes,
    source=RECURSIVE_DOUBLING_ALL_GATHER.source,
    steps=RECURSIVE_DOUBLING_ALL_GATHER.steps,
    moved=lambda p: (_doubled(p) + _folds(p) * (p + 1)) / p,
    merged=lambda p: _doubled(p) / p + _folds(p),
    volume=RECURSIVE_DOUBLING_ALL_GATHER.volume,
    peak=lambda p: 2 if _folds(p) else 1.5,
)


def binary_tree_broadcast(segments: int) -> CostModel:
    """V goes in `segments` down a tree in which rank r has children 2r + 1 and 2r + 2. Each piece
    goes to one child, then to the other."""

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        parents = [((rank - 1) // 2, 2 - rank % 2) for rank in range(1, p)]
        return _down(parents, fabric, nbytes, segments)

    return CostModel(
        latex=r"2(m-1)x + \max_r(t_r x + d_r\alpha),\ x = g + \frac{V}{m\beta}",
        assumes=f"{ASSUMES}; m = {segments} pieces; d_r: depth; t_r: sends, 1 to a first "
        "child, 2 to a second",
        source="Pjesivac-Grbovic et al., Performance analysis of MPI collective operations, "
        "Cluster Comp. 10(2), 2007",
        time=time,
        steps=log2_floor,
    )


def split_binary_broadcast(segments: int) -> CostModel:
    """Halves of V go in `segments` each down the halves of a binary tree, then pairs of ranks
    exchange their halves. Rank 0 of two ranks has one port for both halves."""

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        if p == 1:
            return 0.0
        piece, levels = fabric.send(nbytes / 2 / segments), log2_ceil(p)
        pieces = (segments + max(0, levels - 2)) * piece
        return pieces + levels * fabric.latency + fabric.send(nbytes / 2)

    return replace(
        binary_tree_broadcast(segments),
        latex=r"(m + \max(0, \lceil\log_2 p\rceil - 2))\,x + \lceil\log_2 p\rceil\alpha + g + "
        r"\frac{V}{2\beta},\ x = g + \frac{V}{2m\beta}",
        assumes=f"{ASSUMES}; a port for each peer; m = {segments} pieces of a half",
        source="coll_base_bcast.c of open-mpi/ompi; Pjesivac-Grbovic et al., Performance analysis "
        "of MPI collective operations, Cluster Comp. 10(2), 2007",
        time=time,
        steps=log2_ceil,
        unclaimed="ports of several messages",
    )


def _down(
    parents: Sequence[tuple[int, int]], fabric: Fabric, nbytes: float, segments: int
) -> float:
    """V goes in `segments` down a tree. `parents` has the parent of each rank but 0, and the place
    of the rank among the parent's children, from 1 on. The root sets the pace."""
    send, peer, arrivals = fabric.send(nbytes / segments), fabric.ports == "peer", [(0, 0)]
    for parent, place in parents:
        turns, depth = arrivals[parent]
        arrivals.append((turns + (1 if peer else place), depth + 1))
    last = max(turns * send + depth * fabric.latency for turns, depth in arrivals)
    children = sum(parent == 0 for parent, _ in parents)
    return (min(children, 1) if peer else children) * (segments - 1) * send + last


def binary_tree_reduce(segments: int) -> CostModel:
    """The reverse of :func:`binary_tree_broadcast`, with merges hidden.

    No formula here tells in which order children share the port of their parent.
    """
    return replace(
        binary_tree_broadcast(segments),
        peak=lambda p: 1 + min(2, p - 1) / segments,
        unclaimed="children share a port",
    )


def binary_tree_all_reduce(segments: int) -> CostModel:
    """:func:`binary_tree_reduce`, and then :func:`binary_tree_broadcast`."""
    reduce, broadcast = binary_tree_reduce(segments), binary_tree_broadcast(segments)
    return replace(
        reduce,
        latex=rf"2\left({broadcast.latex.split(',')[0]}\right),\ x = g + \frac{{V}}{{m\beta}}",
        time=lambda fabric, p, nbytes: (
            reduce.time(fabric, p, nbytes) + broadcast.time(fabric, p, nbytes)
        ),
        volume=lambda p: 2 * (p - 1),
        steps=lambda p: 2 * log2_floor(p),
    )


def double_tree(segments: int, depth: int | None = None, channels: int = 1) -> CostModel:
    """Half of V through each of two binary trees, in `segments` each.

    `depth` is ⌈log2 p⌉, unless nodes are chains. Each of the `channels` has two trees for its
    share.
    """

    def steps(p: int) -> int:
        return 2 * (log2_ceil(p) if depth is None else depth)

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        sends = min(p, 4) * segments + steps(p) - 2
        return steps(p) * fabric.latency + sends * fabric.send(nbytes / (2 * channels * segments))

    return CostModel(
        latex=r"2D\alpha + (\min(p, 4)m + 2D - 2)\left(g + \frac{V}{2m\beta}\right)".replace(
            "2m", f"{2 * channels}m"
        ),
        assumes=f"D = {depth or '⌈log2 p⌉'} steps to the root; m = {segments} pieces a half; "
        f"{'' if channels == 1 else f'{channels} channels on as many ports; '}"
        "ports are never idle; γ = 0",
        source="Sanders, Speck, Träff, Parallel Computing 35(12), 2009; src/graph/trees.cc of "
        "NVIDIA/nccl",
        time=time,
        volume=lambda p: 2 * (p - 1),
        steps=steps,
        memory_ports=(),
        unclaimed="pipelined in pieces",
    )


_BINE = "De Sensi et al., SC 2025, arXiv 2508.17311"
BINE_BROADCAST = replace(TREE_BROADCAST, source=_BINE)
BINE_REDUCE = replace(TREE_REDUCE, source=_BINE)
BINE_ALL_GATHER = replace(
    RECURSIVE_DOUBLING_ALL_GATHER,
    source=_BINE,
    peak=lambda p: 2 if is_power_of_two(p) else 1,
    redundant=lambda p: (2 if is_power_of_two(p) else 1) * p - 1,
)
BINE_REDUCE_SCATTER = replace(
    RECURSIVE_HALVING_REDUCE_SCATTER,
    source=_BINE,
    peak=lambda p: 2.5 if is_power_of_two(p) else 2,
    redundant=lambda p: 1.5 * p if is_power_of_two(p) else p - 1,
)


def k_nomial_broadcast(radix: int, segments: int = 1) -> CostModel:
    """The root sends each segment to its c children."""

    def time(fabric: Fabric, p: int, nbytes: float) -> float:
        parents = [_parent(rank, p, radix) for rank in range(1, p)]
        return _down(parents, fabric, nbytes, segments)

    return CostModel(
        latex=r"(m-1)cx + \max_r(t_r x + d_r\alpha),\ x = g + \frac{V}{m\beta}",
        assumes=f"{ASSUMES}; k = {radix}; m = {segments} pieces; c: children of the root; d_r: "
        "depth; t_r: the sum of a rank's and its ancestors' places among their siblings",
        source="coll_base_bcast.c of open-mpi/ompi (knomial); bcast_intra_tree.c of pmodels/mpich",
        time=time,
        steps=lambda p: max(_depth(rank, radix) for rank in range(p)),
    )


def k_nomial_reduce(radix: int, segments: int = 1) -> CostModel:
    """The reverse of :func:`k_nomial_broadcast`. No formula tells in which order children share
    the port of their parent."""
    return replace(
        k_nomial_broadcast(radix, segments),
        peak=lambda p: 2,
        unclaimed="children share a port",
    )


def _parent(rank: int, p: int, radix: int) -> tuple[int, int]:
    """The parent of a rank, and the place of the rank among the parent's children, from 1 on."""
    step = 1
    while rank // step % radix == 0:
        step *= radix
    digit = rank // step % radix
    parent = rank - digit * step
    place, larger = digit, step * radix
    while larger < p and parent % (larger * radix) == 0:
        place += len(range(parent + larger, min(p, parent + larger * radix), larger))
        larger *= radix
    return parent, place


def _depth(rank: int, radix: int) -> int:
    digits = 0
    while rank:
        digits += rank % radix > 0
        rank //= radix
    return digits
