"""Patterns in which every rank sends data of its own to some ranks: who sends to whom."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import isqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.collectives.collective import Collective, Pairs, whole
from simulator.schedules.semantics import Chosen, Data, Promise

Longs = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Pattern = Callable[[int], Pairs]
"""From the number of ranks to the pairs."""


class PairSlots(NamedTuple):
    """The slots of the pairs of a pattern: what a rank sends comes first, then what it receives."""

    sent: Longs
    """The slot of each pair at its sender."""
    received: Longs
    """The slot of each pair at its receiver."""
    shares: Floats
    """The size of each slot of each rank, shape (ranks, slots)."""


def exchange(name: str, pattern: Pattern, root: int | None = None) -> Collective:
    """The collective in which the data of each pair of a pattern go from the one to the other.

    The pattern gives sizes as shares of V.
    """
    return Collective(
        name,
        partial(_delivered, pattern),
        busbw=whole,
        volume=partial(_total, pattern),
        sends=partial(_at_each, pattern, 0),
        receives=partial(_at_each, pattern, 1),
        root=root,
        pairs=pattern,
    )


def places(pairs: Pairs, ranks: int, slot: Longs | None = None) -> PairSlots:
    """The slots of pairs. By default each pair has another `slot` at its sender."""
    sent = numbers(pairs.source) if slot is None else slot
    received = numbers(pairs.target)
    sends, receives = (int(number.max(initial=-1)) + 1 for number in (sent, received))
    shares = np.zeros((ranks, sends + receives))
    shares[pairs.source, sent] = pairs.share
    shares[pairs.target, sends + received] = pairs.share
    return PairSlots(sent, sends + received, shares)


def numbers(end: Longs) -> Longs:
    """The number of each pair among those with the same end."""
    order = np.argsort(end, kind="stable")
    ordered = end[order]
    first = np.searchsorted(ordered, ordered)
    numbers = np.empty(len(end), dtype=np.int64)
    numbers[order] = np.arange(len(end)) - first
    return numbers


def _delivered(pattern: Pattern, before: Data, chosen: Chosen = None) -> Promise:
    pairs = pattern(len(before))
    return delivered(pairs, places(pairs, len(before)), before, chosen)


def delivered(pairs: Pairs, place: PairSlots, before: Data, chosen: Chosen) -> Promise:
    """What pairs promise of the buffers before."""
    slots = before.shape[1]
    if chosen is not None and chosen.total != slots:
        raise ValueError(f"{slots} of {chosen.total} slots: an exchange is proven on all")
    if slots != place.shares.shape[1]:
        raise ValueError(f"{slots} slots: the pattern has {place.shares.shape[1]}")
    promised, values = np.zeros(before.shape, dtype=np.bool_), np.zeros_like(before)
    promised[pairs.target, place.received] = True
    values[pairs.target, place.received] = before[pairs.source, place.sent]
    return promised, values


def _total(pattern: Pattern, ranks: int) -> float:
    return float(pattern(ranks).share.sum())


def _at_each(pattern: Pattern, end: int, ranks: int) -> Floats:
    pairs = pattern(ranks)
    of_end = np.bincount(pairs.target if end else pairs.source, pairs.share, ranks)
    return np.asarray(of_end, dtype=np.float64)


# Who sends to whom.


def next_rank(ranks: int) -> Pairs:
    """Rank 0 sends to rank 1."""
    return _equal([0], [1], 1.0) if ranks > 1 else _equal([], [], 1.0)


def permutation(ranks: int, seed: int = 0) -> Pairs:
    """Every rank sends to another and receives from another, in a seeded order."""
    order = np.random.default_rng(seed).permutation(ranks)
    return _equal(order, np.roll(order, -1), 1.0) if ranks > 1 else next_rank(1)


def incast(ranks: int) -> Pairs:
    """All ranks send to rank 0 at once."""
    senders = np.arange(1, ranks)
    return _equal(senders, np.zeros_like(senders), 1.0)


def bisection(ranks: int) -> Pairs:
    """Rank r of the first half and rank r of the second half send to each other."""
    half = ranks // 2
    rank = np.arange(2 * half)
    return _equal(rank, (rank + half) % max(1, 2 * half), 1.0)


def ping_pong(ranks: int) -> Pairs:
    """Rank i of the first half and rank i of the second half send to each other in turn, as in
    osu_multi_lat. Pairs are not in step, so half of them send forward at any time: those of
    even i. The others send back."""
    half = ranks // 2
    first = np.arange(half)
    back = first % 2
    return _equal(first + back * half, first + (1 - back) * half, 1.0)


def halo(ranks: int) -> Pairs:
    """The neighbours in a grid, as square as can be, send to each other. A side of a rank is a
    fourth of V."""
    return _steps(ranks, wraps=False)


def torus_neighbors(ranks: int) -> Pairs:
    """The neighbours in a torus, as square as can be, send to each other. A block is a fourth of
    V."""
    return _steps(ranks, wraps=True)


def stages(ranks: int) -> Pairs:
    """Each rank sends half of V to the next and half to the rank before, as pipeline stages do."""
    rank = np.arange(ranks - 1)
    return _equal(np.append(rank, rank + 1), np.append(rank + 1, rank), 0.5)


def sides(ranks: int) -> tuple[int, int]:
    """The sides of a grid, as equal as can be.

    >>> sides(12), sides(7)
    ((3, 4), (1, 7))
    """
    first = next(side for side in range(isqrt(ranks), 0, -1) if not ranks % side)
    return first, ranks // first


def _steps(ranks: int, wraps: bool) -> Pairs:
    """The neighbours of every rank in a grid, once each, direction by direction."""
    rows, columns = sides(ranks)
    rank, sources, targets = np.arange(ranks), list[Longs](), list[Longs]()
    for extent, step in ((rows, columns), (columns, 1)):
        place = rank // step % extent
        for way in (1, -1) if extent > 2 or not wraps else (1,):
            moved = (place + way) % extent
            near = (moved == place + way) | wraps & (extent > 1)
            sources.append(rank[near])
            targets.append((rank + (moved - place) * step)[near])
    source, target = np.concatenate(sources), np.concatenate(targets)
    return _equal(source, target, 1 / 4)


def _equal(source: npt.ArrayLike, target: npt.ArrayLike, share: float) -> Pairs:
    first = np.asarray(source, dtype=np.int64)
    return Pairs(first, np.asarray(target, dtype=np.int64), np.full(len(first), share))
