"""Trees towards the roots and trees from them, over the same links: for an all-reduce."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from topologies.packing.balance import Usage, usage
from topologies.packing.branches import Layout
from topologies.packing.forest import TREES, Forest, branches, check_ranks, pack, spanned, together
from topologies.packing.splitting import Split, split_off
from topologies.packing.unit_search import Unit, unit
from topologies.packing.wiring import wiring
from topologies.topology import Flags, Ints, Topology

Longs = npt.NDArray[np.int64]
TOGETHER = 2
"""As many times as a rank may have trees, all ranks together may, if their shares are unequal."""
GAIN = 1e-3
"""Roots with unequal shares are used if that makes all trees faster by more than this share."""
EDGES = 600
"""Edges of a graph up to which unequal shares are looked for."""


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
    check_ranks(topology, ranks)
    into, out = (pack(topology, ranks, towards=towards, most=most) for towards in (True, False))
    seconds = 1 / into.bandwidth + 1 / out.bandwidth
    equal = Pair(into, out, 1 / seconds if seconds else np.inf)
    bandwidth = wiring(topology).bandwidth
    if not seconds or not np.isfinite(bandwidth).all() or np.count_nonzero(bandwidth) > EDGES:
        return equal
    sinks = spanned(topology.placement[:ranks], len(bandwidth))
    # A cap on trees costs unequal shares as much, so limits are compared.
    wanted = (1 + GAIN) / (1 / into.limit + 1 / out.limit)
    used = usage(bandwidth, sinks, both=True, wanted=wanted, alike=(out.limit, into.limit))
    if used.roots.sum() < wanted:
        return equal
    limited = TOGETHER * most
    return _unequal(topology, topology.placement[:ranks], used, sinks, wanted, limited) or equal


def _unequal(
    topology: Topology, placed: Ints, used: Usage, sinks: Flags, wanted: float, most: int
) -> Pair | None:
    """The trees of a solution with the number of trees that has most bandwidth; None if that is
    less than wanted."""
    limit = float(used.roots.sum())
    tried: list[tuple[Unit, Unit]] = []
    for count in range(1, most + 1):
        trees = _rounded(used.roots, count)
        pair = [unit(each, trees, sinks, limit / count) for each in used.raised]
        least = min(each.bandwidth for each in pair)
        tried.append((pair[0]._replace(bandwidth=least), pair[1]._replace(bandwidth=least)))
        if least * count >= limit * (1 - GAIN / 10):
            break
    for out, into in sorted(tried, key=lambda pair: -together(pair[0])):
        if together(out) < wanted:
            return None
        splits = split_off(out, sinks), split_off(into, sinks)
        if splits[0] is not None and splits[1] is not None:
            return Pair(
                _forest(topology, placed, into, splits[1], limit, towards=True),
                _forest(topology, placed, out, splits[0], limit, towards=False),
                together(out),
            )
    return None


def _forest(
    topology: Topology, placed: Ints, chosen: Unit, split: Split, limit: float, *, towards: bool
) -> Forest:
    counts = np.zeros(len(placed), dtype=np.int64)
    _, heads = np.unique(placed, return_index=True)
    counts[heads] = chosen.trees[placed[heads]]
    layout = Layout(topology, placed, split.ways, towards=towards)
    rows = tuple(branches(chosen, split, layout, counts))
    return Forest(rows, tuple(counts.tolist()), chosen.bandwidth, limit)


def _rounded(shares: npt.NDArray[np.float64], count: int) -> Longs:
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
