"""An uneven all-to-all in two stages over nodes: a token that several ranks of a node need crosses
the network once, as in DeepEP.

A rank sends what a node needs to the rank with its own place there, which forwards it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from simulator.collectives.collective import ALL_TO_ALL, Algorithm, Collective, Fitted, Pairs
from simulator.collectives.posted_exchanges import delivered, exchange, places
from simulator.collectives.routers import Router, Tokens
from simulator.collectives.two_level import equal_nodes, nodes_of
from simulator.cost_models import uneven_formulas
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.semantics import Chosen, Data, Promise
from topologies.columns import places_in_groups, sums
from topologies.errors import InputError
from topologies.topology import Floats, Longs, Topology


class Deliveries(NamedTuple):
    """Who needs which data of whom: a row for each rank that needs a slot of another. The slots
    that a pair of ranks shares are in neighbouring rows."""

    source: Longs
    target: Longs
    slot: Longs
    """The slot at the source; several targets in a node may need the same."""
    share: Floats
    """The size of the slot, as a share of V."""

    @property
    def pairs(self) -> Pairs:
        """Who needs data of whom."""
        return Pairs(self.source, self.target, self.share)

    @property
    def once(self) -> Longs:
        """The rows that name a slot of a source first."""
        key = self.source * (self.slot.max(initial=0) + 1) + self.slot
        return np.asarray(np.unique(key, return_index=True)[1], dtype=np.int64)


@lru_cache(maxsize=4)
def deliveries(router: Router, ranks: int) -> Deliveries:
    """What a router's ranks need. Tokens for several ranks of a node share slots.

    The sizes are those of the router. Which tokens two ranks share is a stand-in: the ranks of a
    node take their tokens one after the other, and the last of them begin again.
    """
    if isinstance(router, Tokens):
        rows = np.array([*_token_rows(router, ranks)], dtype=np.int64).reshape(-1, 4).T
        return Deliveries(rows[0], rows[1], rows[2], rows[3] / router.copies)
    pairs = block_pairs(router, ranks)
    return Deliveries(pairs.source, pairs.target, places_in_groups(pairs.source), pairs.share)


def block_pairs(router: Router, ranks: int) -> Pairs:
    """Peers in the order r+1, r+2, ... A block of no bytes is not sent."""
    matrix = router.matrix(ranks)
    turn, source = np.divmod(np.arange(ranks * (ranks - 1)), max(1, ranks))
    target = (source + turn + 1) % max(1, ranks)
    share = matrix[source, target]
    return Pairs(source[share > 0], target[share > 0], share[share > 0])


def _token_rows(router: Tokens, ranks: int) -> Iterator[tuple[int, int, int, int]]:
    """Source, target, slot and tokens of the slot."""
    counts, whole = router.counts(ranks).copy(), router.node_counts(ranks).tolist()
    np.fill_diagonal(counts, 0)
    for source, row in enumerate(counts.tolist()):
        slots = 0
        for node, tokens in enumerate(whole[source]):
            first, place = node * router.per_node, 0
            spans: list[tuple[int, int, int]] = []
            for target, width in enumerate(row[first : first + router.per_node], start=first):
                start = min(place, tokens - width)
                place = start + width
                spans += [(target, start, place)] if width else []
            cuts = sorted({end for span in spans for end in span[1:]})
            for target, start, end in spans:
                for slot in range(cuts.index(start), cuts.index(end)):
                    yield source, target, slots + slot, cuts[slot + 1] - cuts[slot]
            slots += max(0, len(cuts) - 1)


def forwarded_all_to_allv(router: Router) -> Algorithm:
    """Every rank posts what each node needs, and forwards what arrives for its node."""
    return Algorithm(
        "forwarded_all_to_allv",
        _collective(router),
        partial(_schedule, router),
        uneven_formulas.forwarded(partial(_traffic, router)),
        "Along the rail once for each node, then inside the node, as DeepEP; blocks of any size",
        fit=partial(_fit, router),
    )


def _collective(router: Router) -> Collective:
    """The bounds know of each slot that it goes to one of the ranks that need it."""

    def least(ranks: int) -> Pairs:
        rows, once = deliveries(router, ranks), deliveries(router, ranks).once
        return Pairs(rows.source[once], rows.target[once], rows.share[once])

    def received(ranks: int) -> Floats:
        rows = deliveries(router, ranks)
        return sums(rows.target, rows.share, ranks)

    return replace(
        exchange("all_to_allv", least),
        postcondition=partial(_delivered, router),
        volume=lambda ranks: float(deliveries(router, ranks).share.sum()),
        receives=received,
        even="all_to_all",
        busbw=ALL_TO_ALL.busbw,
    )


def _delivered(router: Router, before: Data, chosen: Chosen = None) -> Promise:
    rows = deliveries(router, len(before))
    return delivered(rows.pairs, places(rows.pairs, len(before), rows.slot), before, chosen)


def _schedule(router: Router, ranks: int, nbytes: float, per_node: int = 0) -> Schedule:
    size = per_node or _per_node(router, ranks)
    rows = deliveries(router, ranks)
    _, received, shares = places(rows.pairs, ranks, rows.slot)
    sent = _across(rows, size)
    inbox = places_in_groups(sent.target)
    scratch = np.zeros((ranks, int(inbox.max(initial=0)) + 1))
    scratch[sent.target, inbox] = sent.share
    builder = ScheduleBuilder(ranks, nbytes, slots=shares, scratch=scratch, phase="across nodes")
    place = inbox + builder.slots.buffer
    at = np.tile(np.arange(builder.slots.buffer), (ranks, 1))
    at[sent.source, sent.slot] = place
    _post(builder, sent.source, sent.source, sent.target, sent.slot, place)
    builder.phase("inside nodes")
    relay = _relay(rows, size)
    _post(builder, rows.source, relay, rows.target, at[rows.source, rows.slot], received)
    return builder.build()


def _across(rows: Deliveries, size: int) -> Deliveries:
    """The slots that cross the network, once for each node: to the rank that forwards them."""
    row = rows.once
    row = row[rows.source[row] // size != rows.target[row] // size]
    return Deliveries(rows.source[row], _relay(rows, size)[row], rows.slot[row], rows.share[row])


def _relay(rows: Deliveries, size: int) -> Longs:
    """The rank that hands each slot to its target: at the source's place in the target's node."""
    return np.asarray(rows.target // size * size + rows.source % size, dtype=np.int64)


def _post(
    builder: ScheduleBuilder, source: Longs, rank: Longs, peer: Longs, slot: Longs, target: Longs
) -> None:
    """Copy slots; those of a source that follow one another go in one message. A rank sends to the
    next ranks first."""
    columns = np.stack((source, rank, peer, slot, target))
    after = (np.diff(columns, axis=1) == [[0], [0], [0], [1], [1]]).all(axis=0)
    first = np.flatnonzero(np.append([True], ~after)[: len(rank)])
    count = np.diff(first, append=len(rank))
    order = np.argsort((peer[first] - rank[first]) % builder.ranks, kind="stable")
    if len(order):
        _, rank, peer, slot, target = columns[:, first[order]]
        builder.copy(rank, peer, slot=slot, target=target, count=count[order])


def _traffic(router: Router, ranks: int, per_node: int = 0) -> uneven_formulas.Stages:
    """Messages and shares of V from each rank to each, across nodes and inside nodes."""
    size = per_node or _per_node(router, ranks)
    rows = deliveries(router, ranks)
    across, inside = np.zeros((ranks, ranks)), np.zeros((ranks, ranks))
    sent = _across(rows, size)
    np.add.at(across, (sent.source, sent.target), sent.share)
    np.add.at(inside, (_relay(rows, size), rows.target), rows.share)
    return across, inside


def _per_node(router: Router, ranks: int) -> int:
    if not isinstance(router, Tokens):
        return int(equal_nodes(ranks).shape[1])
    size = min(router.per_node, ranks)
    if ranks % size:
        raise InputError(
            f"forwarded_all_to_allv: {ranks} ranks are not full nodes of {size}: take a multiple"
        )
    return size


def _fit(router: Router, topology: Topology, ranks: int, nbytes: float) -> Fitted:
    """The nodes of the machine, which are those of the router if it has nodes."""
    nodes = nodes_of(topology, ranks)
    size = nodes.shape[1]
    if (nodes.ravel() != np.arange(ranks)).any():
        raise InputError("forwarded_all_to_allv: the ranks of a node do not follow one another")
    if isinstance(router, Tokens) and (topology.node[topology.placement[:ranks]] >= 0).all():
        expected = _per_node(router, ranks)
        if size != expected:
            raise InputError(
                f"forwarded_all_to_allv: the router has nodes of {expected} ranks, the machine of "
                f"{size}: write per_node={size} in --skew"
            )
    elif isinstance(router, Tokens):
        size = _per_node(router, ranks)
    cost = uneven_formulas.forwarded(partial(_traffic, router, per_node=size))
    words = f"{ranks // size} nodes of {size} ranks"
    return Fitted(_schedule(router, ranks, nbytes, size), topology, cost, (words,))
