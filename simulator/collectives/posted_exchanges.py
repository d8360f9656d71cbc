"""Exchanges: every rank posts all that it sends at once, to the ranks that a pattern names.

In gossip a rank also adds up its data and those of its neighbours, as decentralised averaging does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import isqrt
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from simulator.collectives.collective import Collective, Pairs, declare, first_sentence, whole
from simulator.cost_models import CostModel, log2_ceil
from simulator.cost_models import exchange_formulas as formulas
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.semantics import Chosen, Data, Promise
from simulator.schedules.shifts import Shifts, fold, rotations
from topologies.columns import places_in_groups
from topologies.topology import Floats, Ints, Longs

Pattern = Callable[[int], Pairs]
"""From the number of ranks to the pairs."""
Declared = TypeVar("Declared", bound=Pattern)


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
        volume=lambda ranks: float(pattern(ranks).share.sum()),
        sends=partial(_at_each, pattern, 0),
        receives=partial(_at_each, pattern, 1),
        root=root,
        pairs=pattern,
    )


def places(pairs: Pairs, ranks: int, slot: Longs | None = None) -> PairSlots:
    """The slots of pairs. By default each pair has another `slot` at its sender."""
    sent = places_in_groups(pairs.source) if slot is None else slot
    received = places_in_groups(pairs.target)
    sends, receives = (int(number.max(initial=-1)) + 1 for number in (sent, received))
    shares = np.zeros((ranks, sends + receives))
    shares[pairs.source, sent] = pairs.share
    shares[pairs.target, sends + received] = pairs.share
    return PairSlots(sent, sends + received, shares)


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


def _at_each(pattern: Pattern, end: int, ranks: int) -> Floats:
    pairs = pattern(ranks)
    of_end = np.bincount(pairs.target if end else pairs.source, pairs.share, ranks)
    return np.asarray(of_end, dtype=np.float64)


def posted(
    pattern: Pattern, ranks: int, nbytes: float, shifts: Shifts | None = None, *, asks: bool = False
) -> Schedule:
    """All messages of a pattern at once. If a receiver `asks`, a request goes ahead of each.

    >>> posted(stages, 4, 4096.0).sent().tolist()
    [2048.0, 4096.0, 4096.0, 2048.0]
    """
    pairs = pattern(ranks)
    place = places(pairs, ranks)
    shares = place.shares if shifts is None else place.shares[shifts.representatives]
    builder = ScheduleBuilder(fold(ranks, shifts), nbytes, slots=shares, phase="exchange")
    for turn in range(int(place.sent.max(initial=-1)) + 1):
        chosen = np.flatnonzero(place.sent == turn)
        if shifts is not None:
            chosen = chosen[shifts.element(pairs.source[chosen]) == 0]
        source, target = pairs.source[chosen], pairs.target[chosen]
        after = _requests(builder, source, target) if asks else ()
        builder.copy(
            source, target, slot=place.sent[chosen], target=place.received[chosen], after=after
        )
    return builder.build()


def _requests(builder: ScheduleBuilder, source: Longs, target: Longs) -> Ints:
    builder.phase("request")
    requests = builder.signal(target, source)
    builder.phase("exchange")
    return requests[:, None]


def _posted(
    name: str,
    cost: CostModel,
    collective: str = "",
    *,
    root: int | None = None,
    asks: bool = False,
    shifts: Callable[[int], Shifts | None] = lambda ranks: None,
) -> Callable[[Declared], Declared]:
    """Declare the exchange of a pattern as an algorithm, of a collective that has its name too."""

    def declared(pattern: Declared) -> Declared:
        declare(
            name,
            exchange(collective or name, pattern, root),
            cost,
            "Rank 1 asks, and rank 0 answers" if asks else first_sentence(pattern),
            shifts=shifts,
            operations=lambda ranks: (1.0 + asks) * len(pattern(ranks).source),
        )(partial(posted, pattern, asks=asks))
        return pattern

    return declared


@_posted("pull", formulas.PULL, "send", root=0, asks=True)
@_posted("push", formulas.PUSH, "send", root=0)
def next_rank(ranks: int) -> Pairs:
    """Rank 0 writes to rank 1."""
    return _equal([0], [1], 1.0) if ranks > 1 else _equal([], [], 1.0)


@_posted("permutation", formulas.PERMUTATION)
def permutation(ranks: int, seed: int = 0) -> Pairs:
    """Every rank sends to one rank and receives from one. The order is seeded."""
    order = np.random.default_rng(seed).permutation(ranks)
    return _equal(order, np.roll(order, -1), 1.0) if ranks > 1 else next_rank(1)


@_posted("incast", formulas.INCAST, root=0)
def incast(ranks: int) -> Pairs:
    """All ranks send to rank 0 at once."""
    senders = np.arange(1, ranks)
    return _equal(senders, np.zeros_like(senders), 1.0)


@_posted(
    "bisection", formulas.BISECTION, shifts=lambda ranks: None if ranks % 2 else rotations(ranks)
)
def bisection(ranks: int) -> Pairs:
    """The two halves of the ranks exchange all data. Rank r of one sends to rank r of the other."""
    half = ranks // 2
    rank = np.arange(2 * half)
    return _equal(rank, (rank + half) % max(1, 2 * half), 1.0)


@_posted("ping_pong", formulas.PING_PONG)
def ping_pong(ranks: int) -> Pairs:
    """Pairs of ranks from the two halves: every second pair sends back. As in osu_multi_lat, pairs
    are not in step, so half of them send forward at any time: those of even number."""
    half = ranks // 2
    first = np.arange(half)
    back = first % 2
    return _equal(first + back * half, first + (1 - back) * half, 1.0)


@_posted("halo", formulas.HALO, "halo_exchange")
def halo(ranks: int) -> Pairs:
    """Neighbours in a grid exchange their edges. A side of a rank is a fourth of V."""
    return _steps(ranks, wraps=False)


@_posted(
    "neighbors",
    formulas.NEIGHBORS,
    "neighbor_all_to_all",
    shifts=lambda ranks: Shifts(sides(ranks), (1, 1)),
)
def torus_neighbors(ranks: int) -> Pairs:
    """Neighbours in a torus exchange blocks. A block is a fourth of V."""
    return _steps(ranks, wraps=True)


@_posted("stages", formulas.STAGES, "stage_exchange")
def stages(ranks: int) -> Pairs:
    """Stages of a pipeline send onwards and back at once, as in 1F1B. Half of V goes each way."""
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


Steps = Callable[[int], list[int]]
"""From the number of ranks to how far ahead the ranks are that a rank sends to."""


def ring_steps(ranks: int) -> list[int]:
    """The next rank and the one before.

    >>> ring_steps(2), ring_steps(5)
    ([1], [1, 4])
    """
    return sorted({1 % ranks, -1 % ranks} - {0})


def exponential_steps(ranks: int) -> list[int]:
    """The ranks 1, 2, 4, 8, ... ahead.

    >>> exponential_steps(8), exponential_steps(9)
    ([1, 2, 4], [1, 2, 4, 8])
    """
    return [1 << level for level in range(log2_ceil(ranks))]


def gossip(steps: Steps, ranks: int, nbytes: float, shifts: Shifts | None = None) -> Schedule:
    """Every rank sends all its data to its neighbours. It adds up what has arrived when all that it
    sent has arrived."""
    ahead = steps(ranks)
    builder = ScheduleBuilder(fold(ranks, shifts), nbytes, scratch=len(ahead), phase="exchange")
    rank, step = builder.each(), np.array(ahead, dtype=np.int64)[:, None]
    inbox = np.arange(1, len(ahead) + 1)[:, None]
    builder.copy(rank, (rank + step) % ranks, slot=0, target=inbox, steps=True)
    builder.phase("merge")
    builder.reduce(rank, rank, slot=inbox, target=0, steps=True)
    return builder.build()


def _neighbor_pairs(steps: Steps, ranks: int) -> Pairs:
    step, rank = np.array(steps(ranks), dtype=np.int64)[:, None], np.arange(ranks)
    source = np.broadcast_to(rank, (len(step), ranks)).ravel()
    return Pairs(source, ((rank + step) % ranks).ravel(), np.ones(len(source)))


def _sums(steps: Steps, before: Data, chosen: Chosen = None) -> Promise:
    sums = before.copy()
    for step in steps(len(before)):
        sums += np.roll(before, step, axis=0)
    return np.ones(before.shape, dtype=np.bool_), sums


def _gossip(name: str, steps: Steps, cost: CostModel, summary: str) -> None:
    sums, pairs = partial(_sums, steps), partial(_neighbor_pairs, steps)
    promise = Collective(name, sums, whole, float, whole, whole, pairs=pairs, merges=True)
    declare(name, promise, cost, summary, shifts=rotations)(partial(gossip, steps))


_gossip("gossip_ring", ring_steps, formulas.GOSSIP_RING, "Every rank adds up both neighbours' data")
_gossip(
    "gossip_exponential",
    exponential_steps,
    formulas.GOSSIP_EXPONENTIAL,
    "Every rank adds up the data of the ranks 1, 2, 4, ... behind",
)
