"""The trees of a machine: from every rank or from one; and for an all-reduce, trees towards the
roots and trees from them, over the same links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from topologies.capacity import tightest_cut
from topologies.errors import InputError
from topologies.packing.flow_graph import TreeUnit, Usage, is_balanced, unit, usage, wiring
from topologies.packing.spanning_trees import Branch, Split, TreeWays, split_off, trees
from topologies.topology import Flags, Floats, Ints, Longs, Topology

TREES = 32
"""Trees of a rank, at most."""
PACKED_RANKS = 128
"""Ranks for which trees are packed, at most."""


class Forest(NamedTuple):
    """Trees that together keep within the bandwidths of a machine."""

    branches: tuple[Branch, ...]
    """The branches of all trees, those of a tree from its root on."""
    trees: tuple[int, ...]
    """The trees of each rank, as their root."""
    unit: float
    """Bytes/s of a tree."""
    limit: float
    """Bytes/s of all trees together that cuts allow, at most."""

    @property
    def bandwidth(self) -> float:
        """Bytes/s of all trees together."""
        return self.unit * sum(self.trees)

    @property
    def depth(self) -> int:
        """The depth of the deepest tree."""
        return max((branch.depth for branch in self.branches), default=0)

    @property
    def loss(self) -> float:
        """The share of the limit that the trees do not reach, as their number is capped."""
        return max(0.0, 1 - self.bandwidth / self.limit) if np.isfinite(self.limit) else 0.0


def pack(
    topology: Topology,
    ranks: int,
    root: int | None = None,
    *,
    towards: bool = False,
    most: int = TREES,
) -> Forest:
    """Trees over the first `ranks` ranks from each of them, or from `root` alone, or `towards`
    their roots. Each root has equally many, at most `most`.

    >>> from topologies.shapes import ring
    >>> forest = pack(ring(4, bandwidth=3.0), 4)
    >>> forest.trees, forest.bandwidth, forest.loss
    ((2, 2, 2, 2), 8.0, 0.0)
    """
    check_ranks(topology, ranks)
    placed = topology.placement[:ranks]
    owners = np.arange(ranks) if root is None else np.array([root])
    if len(np.unique(placed)) == 1:
        layout = TreeWays(topology, placed, {}, towards=towards)
        local = [branch for owner in owners.tolist() for branch in layout.lay([], owner, 0, 1)]
        counts = np.bincount(owners, minlength=ranks)
        return Forest(tuple(local), tuple(counts.tolist()), np.inf, np.inf)
    weight = np.bincount(placed[owners], minlength=len(topology.device_names))
    cut = tightest_cut(topology, weight.astype(np.float64), np.unique(placed), reverse=towards)
    limit = np.inf if cut is None else cut.bandwidth / float(weight[cut.inside].sum())
    bandwidth = wiring(topology)
    chosen, split, limit = _best(bandwidth.T if towards else bandwidth, weight, placed, limit, most)
    each = int(chosen.trees.max()) // int(weight.max())
    counts = (np.bincount(owners, minlength=ranks) * each).astype(np.int64)
    total = limit * len(owners)
    return _forest(topology, placed, chosen, split, counts, total, towards=towards)


def check_ranks(topology: Topology, ranks: int) -> None:
    """Raise InputError unless trees for so many ranks can be packed."""
    if not 1 <= ranks <= topology.ranks:
        raise InputError(f"ranks is {ranks}: {topology.name} has {topology.ranks}")
    if ranks > PACKED_RANKS:
        raise InputError(
            f"trees are packed for up to {PACKED_RANKS} ranks, got {ranks}: take fewer"
        )


def spanned(placed: Ints, nodes: int) -> Flags:
    """Which nodes have a rank."""
    sinks = np.zeros(nodes, dtype=np.bool_)
    sinks[placed] = True
    return sinks


def _best(
    bandwidth: Floats, weight: Longs, placed: Ints, limit: float, most: int
) -> tuple[TreeUnit, Split, float]:
    """The number of trees whose bandwidth together is highest, and the least of such numbers; the
    edges between ranks that they have; the limit."""
    sinks, weights = spanned(placed, len(bandwidth)), np.zeros(len(bandwidth), dtype=np.int64)
    weights[: len(weight)] = weight
    if not np.isfinite(limit):
        bandwidth, limit = np.where(bandwidth > 0, 1.0, 0.0), 1.0
    if not is_balanced(bandwidth, sinks):
        used = usage(bandwidth, sinks, weights.astype(np.float64))
        bandwidth = used.raised[0]
        limit = min(limit, float(used.roots.sum() / weights.sum()))
    units: list[TreeUnit] = []
    for count in range(1, most + 1):
        units.append(unit(bandwidth, count * weights, sinks, limit / count))
        # Bandwidths with no more relative difference are equal.
        if units[-1].bandwidth * count >= limit * (1 - 1e-9):
            break
    for chosen in sorted(units, key=lambda each: -together(each)):
        if (split := split_off(chosen, sinks)) is not None:
            return chosen, split, limit
    raise InputError("no trees fit: use another algorithm on this machine")


def together(chosen: TreeUnit) -> float:
    """Bytes/s of all trees, of equal numbers the same to the bit."""
    return float(f"{chosen.bandwidth * chosen.trees.sum():.9g}")


def branches(chosen: TreeUnit, split: Split, layout: TreeWays, counts: Longs) -> Iterator[Branch]:
    """The branches of all trees. The trees from a device belong to its ranks in turn, `counts` to
    each."""
    devices = sorted(layout.ranks_on)
    laid = dict.fromkeys(devices, 0)
    for bunch in trees(split.capacity, chosen.trees, devices):
        owners = [rank for rank in layout.ranks_on[bunch.root] if counts[rank]]
        each = int(counts[owners[0]])
        for owner, first, count in _by_owner(laid[bunch.root], bunch.count, each):
            yield from layout.lay(bunch.edges, owners[owner], first, count)
        laid[bunch.root] += bunch.count


def _by_owner(first: int, count: int, each: int) -> Iterator[tuple[int, int, int]]:
    """The place of the owner, the first tree of it, and the number of trees, where owners have
    `each`.

    >>> list(_by_owner(1, 4, 3))
    [(0, 1, 2), (1, 0, 2)]
    """
    end = first + count
    while first < end:
        owner, begin = divmod(first, each)
        part = min(each - begin, end - first)
        yield owner, begin, part
        first += part


UNEQUAL_GAIN = 1e-3
"""Roots with unequal shares are used if that makes all trees faster by more than this share."""


class Pair(NamedTuple):
    """Trees that add up, and trees that spread the sums."""

    into: Forest
    """The trees towards the roots."""
    out: Forest
    """The trees from the roots."""
    bandwidth: float
    """Bytes/s of V that become sums and reach all ranks."""


def pack_pair(topology: Topology, ranks: int, most: int = TREES) -> Pair:
    """Trees for an all-reduce over the first `ranks` ranks.

    Equal shares at all roots take the time of a reduce-scatter and an all-gather. If other shares
    are faster, as where one root suffices, both kinds of trees divide the links by a linear
    program.

    >>> from topologies.shapes import line
    >>> pack_pair(line(4, bandwidth=3.0), 4).bandwidth
    3.0
    """
    into, out = (pack(topology, ranks, towards=towards, most=most) for towards in (True, False))
    seconds = 1 / into.bandwidth + 1 / out.bandwidth
    equal = Pair(into, out, 1 / seconds if seconds else np.inf)
    bandwidth = wiring(topology)
    # Unequal shares are looked for in graphs of up to 600 edges.
    if not seconds or not np.isfinite(bandwidth).all() or np.count_nonzero(bandwidth) > 600:
        return equal
    sinks = spanned(topology.placement[:ranks], len(bandwidth))
    # A cap on trees costs unequal shares as much, so limits are compared.
    wanted = (1 + UNEQUAL_GAIN) / (1 / into.limit + 1 / out.limit)
    used = usage(bandwidth, sinks, both=True, wanted=wanted, alike=(out.limit, into.limit))
    if used.roots.sum() < wanted:
        return equal
    # As many times as a rank may have trees, all ranks together may, if their shares are unequal.
    limited = 2 * most
    return _unequal(topology, topology.placement[:ranks], used, sinks, wanted, limited) or equal


def _unequal(
    topology: Topology, placed: Ints, used: Usage, sinks: Flags, wanted: float, most: int
) -> Pair | None:
    """The trees of a solution with the number of trees that has most bandwidth; None if that is
    less than wanted."""
    limit = float(used.roots.sum())
    tried: list[tuple[TreeUnit, TreeUnit]] = []
    for count in range(1, most + 1):
        trees = _rounded(used.roots, count)
        pair = [unit(each, trees, sinks, limit / count) for each in used.raised]
        least = min(each.bandwidth for each in pair)
        tried.append((pair[0]._replace(bandwidth=least), pair[1]._replace(bandwidth=least)))
        if least * count >= limit * (1 - UNEQUAL_GAIN / 10):
            break
    for out, into in sorted(tried, key=lambda pair: -together(pair[0])):
        if together(out) < wanted:
            return None
        splits = split_off(into, sinks), split_off(out, sinks)
        if splits[0] is not None and splits[1] is not None:
            _, heads = np.unique(placed, return_index=True)
            counts = np.zeros(len(placed), dtype=np.int64)
            counts[heads] = out.trees[placed[heads]]
            return Pair(
                _forest(topology, placed, into, splits[0], counts, limit, towards=True),
                _forest(topology, placed, out, splits[1], counts, limit, towards=False),
                together(out),
            )
    return None


def _forest(
    topology: Topology,
    placed: Ints,
    chosen: TreeUnit,
    split: Split,
    counts: Longs,
    limit: float,
    *,
    towards: bool,
) -> Forest:
    """The forest of `counts` trees of each rank; `limit` is what no trees exceed, in bytes/s."""
    layout = TreeWays(topology, placed, split.ways, towards=towards)
    rows = tuple(branches(chosen, split, layout, counts))
    return Forest(rows, tuple(counts.tolist()), chosen.bandwidth, limit)


def _rounded(shares: Floats, count: int) -> Longs:
    """So many trees by share: each part is rounded down, then the parts with the largest rests are
    one higher.

    >>> _rounded(np.array([1.0, 1.0, 2.0]), 3).tolist()
    [1, 1, 1]
    """
    parts = shares / shares.sum() * count
    whole = np.floor(parts + 1e-9).astype(np.int64)
    rest = np.argsort(-np.round(parts - whole, 9), kind="stable")
    whole[rest[: count - int(whole.sum())]] += 1
    return np.asarray(whole)
