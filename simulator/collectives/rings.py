"""Several rings at once, made for the machine: along its fastest links, over all its NICs."""

from collections.abc import Callable
from functools import lru_cache, partial
from math import prod

import numpy as np

from simulator.collectives.collective import (
    ALL_GATHER,
    ALL_REDUCE,
    REDUCE_SCATTER,
    Collective,
    Fitted,
    declare,
)
from simulator.cost_models import CostModel, neighbors
from simulator.schedules.folded_routes import NotSymmetric
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, SlotMove, fold, rotations
from topologies.ring_search import Box, Rings, find_rings, shifted
from topologies.topology import Ints, Numbers, Topology


def rings(
    ranks: int,
    nbytes: float,
    orders: Numbers | None = None,
    shifts: Shifts | None = None,
    *,
    scatters: bool = True,
    gathers: bool = True,
    box: Box = (),
    segments: int = 1,
) -> Schedule:
    """Each ring `scatters`, and adds up, its share of every chunk, then `gathers` it, in `segments`
    that follow one another; by default one ring, in rank order.

    With a `box`, ring c is the first one after shift c of the places of every node: see
    :class:`topologies.ring_search.Rings`.

    A rank takes its rings in turns. The turn of a ring is its channel; with a box it is the channel
    before the shift that takes place 0 to the rank's. So a shift of places takes every turn to
    itself, and ranks that do the same at the same time do it in the same turn.

    >>> rings(4, 4096.0, np.array([[0, 1, 2, 3], [3, 2, 1, 0]])).sent().tolist()
    [6144.0, 6144.0, 6144.0, 6144.0]
    """
    order = np.arange(ranks)[None, :] if orders is None else orders
    count = len(order)
    turn = np.arange(count)[:, None]
    channels: list[SlotMove] = []
    if box:
        turn = np.argsort(shifted(box), axis=0)
        if shifts is not None and len(shifts.shape) > 1:
            inner = shifts.steps[1:]
            channels = [SlotMove(1 + axis, 0, each, count) for axis, each in enumerate(inner)]
    parts = count * segments
    slots = ranks * parts
    steps = [] if shifts is None else shifts.steps
    chunks = [SlotMove(axis, 0, step * parts, slots) for axis, step in enumerate(steps)]
    if shifts is not None:
        _check(order, shifts, tuple(channels))
    builder = ScheduleBuilder(fold(ranks, shifts, *chunks, channels=channels), nbytes, slots=slots)
    if scatters:
        builder.phase("reduce-scatter")
        _once_round(builder, builder.reduce, np.arange(1, ranks), order, turn, segments)
    if gathers:
        builder.phase("all-gather")
        _once_round(builder, builder.copy, np.arange(ranks - 1), order, turn, segments)
    return builder.build()


def _once_round(
    builder: ScheduleBuilder,
    send: Callable[..., Ints],
    behind: Numbers,
    order: Numbers,
    turn: Numbers,
    segments: int,
) -> None:
    """In every step each rank sends to the next rank of each ring its part of a chunk: the chunk of
    the rank that is so many places `behind` it. `turn` has the turn of each channel at each place
    of a node."""
    ranks, (count, size) = builder.ranks, turn.shape
    folded = builder.shifts is not None
    written = np.isin(order, builder.each()) if folded else np.ones_like(order, np.bool_)
    channel, place = np.nonzero(written)
    rank = order[channel, place]
    # With a box, ranks of a turn are on several channels: their order is what shifts keep.
    number = rank if size > 1 else np.arange(len(rank))
    by_turn = np.lexsort((number, turn[channel, rank % size])).reshape(count, -1)
    channel, place, rank = channel[by_turn], place[by_turn], rank[by_turn]
    peer = order[channel, (place + 1) % ranks]
    chunk = order[channel, (place - behind[:, None, None]) % ranks]
    part = turn[channel, chunk % size]
    part, segment = chunk * count + part, np.arange(segments)[:, None]
    slot = part[:, :, None] * segments + segment
    slot = slot.reshape(len(part), count * segments, part.shape[2])
    ends = (np.repeat(each, segments, 0) for each in (rank, peer, channel))
    sender, receiver, lane = ends
    send(sender, receiver, slot=slot, channel=lane, steps=2)


def _check(order: Numbers, shifts: Shifts, channels: tuple[SlotMove, ...]) -> None:
    """Raises NotSymmetric if shifts do not take rings to rings, or those that stand for others to
    another order round a ring: they are served in that order."""
    rank, behind = np.arange(shifts.ranks), np.empty_like(order)
    for number, ring in enumerate(order):
        behind[number, ring] = np.roll(ring, -1)
    element, standing = shifts.element(rank), shifts.folded(rank)
    for number, after in enumerate(behind):
        channel = shifts.slots_shifted(np.array(number), element, channels, -1)
        if (shifts.shifted(behind[channel, standing], element) != after).any():
            raise NotSymmetric("rings are laid in another way from node to node")
    if not channels:
        for place in np.argsort(order, axis=1):
            first = shifts.representatives
            first = first[np.argsort(place[first])]
            moved = shifts.shifted(first, shifts.elements[:, None])
            if (np.diff(place[moved], axis=1) < 0).any():
                raise NotSymmetric("ranks are in another order round a ring")


@lru_cache(maxsize=4)
def rings_of(topology: Topology, ranks: int) -> Rings:
    """As :func:`topologies.ring_search.find_rings`, with the latest answers remembered."""
    return find_rings(topology, ranks)


def shifts_on(topology: Topology, ranks: int) -> Shifts:
    """The shifts of nodes, and of places in them with their channels, if rings are alike so; else
    those of ranks."""
    box = rings_of(topology, ranks).box
    shape = (ranks // prod(box), *box)
    return Shifts(shape, (1,) * len(shape)) if box else rotations(ranks)


def fit(
    write: Callable[..., Schedule],
    formula: Callable[..., CostModel],
    topology: Topology,
    ranks: int,
    nbytes: float,
    shifts: Shifts | None = None,
    *,
    segments: int = 1,
) -> Fitted:
    """The rings that :func:`topologies.ring_search.find_rings` finds."""
    layout = rings_of(topology, ranks)
    schedule = write(ranks, nbytes, layout.orders, shifts, box=layout.box, segments=segments)
    cost = neighbors.rings(formula(segments=segments), layout.bandwidth, len(layout.orders))
    return Fitted(schedule, topology, cost, ring_words(layout.orders))


def ring_words(orders: Numbers) -> tuple[str, ...]:
    """A line for each ring: its first 16 ranks."""
    ranks = orders.shape[1]
    more = f" ... ({ranks} ranks)" if ranks > 16 else ""
    lines = (" ".join(map(str, order[:16].tolist())) for order in orders)
    return tuple(f"channel {channel}: {line}{more}" for channel, line in enumerate(lines))


def _along_rings(
    name: str,
    collective: Collective,
    formula: Callable[..., CostModel],
    summary: str,
    *,
    scatters: bool = True,
    gathers: bool = True,
) -> Callable[..., Schedule]:
    write = partial(rings, scatters=scatters, gathers=gathers)
    return declare(
        name,
        collective,
        formula,
        summary,
        fit=partial(fit, write, formula),
        shifts=rotations,
        shifts_on=shifts_on,
        operations=lambda ranks: (0.0 + scatters + gathers) * ranks * (ranks - 1),
    )(write)


rings_all_reduce = _along_rings(
    "rings",
    ALL_REDUCE,
    neighbors.ring_all_reduce,
    "Several rings at once, chosen for the machine's links and NICs",
)
rings_reduce_scatter = _along_rings(
    "rings_reduce_scatter",
    REDUCE_SCATTER,
    neighbors.ring_reduce_scatter,
    "The reduce-scatter of rings",
    gathers=False,
)
rings_all_gather = _along_rings(
    "rings_all_gather",
    ALL_GATHER,
    neighbors.ring_all_gather,
    "The all-gather of rings",
    scatters=False,
)
