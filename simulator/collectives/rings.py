"""Several rings at once, made for the machine: along its fastest links, over all its NICs."""

from collections.abc import Callable
from functools import lru_cache, partial
from math import prod

import numpy as np
import numpy.typing as npt

from simulator.collectives.collective import (
    ALL_GATHER,
    ALL_REDUCE,
    REDUCE_SCATTER,
    Algorithm,
    Fitted,
)
from simulator.cost_models import CostModel, neighbors, segmented_rings
from simulator.schedules.orbits import NotSymmetric
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Move, Shifts, fold, rotations
from topologies.alike_rings import Box, shifted
from topologies.ring_search import Rings, find_rings
from topologies.topology import Ints, Topology

OPTIONS = {"segments": 1}
Orders = npt.NDArray[np.integer]
"""The ranks round each ring, shape (rings, ranks)."""


def rings_reduce_scatter(
    ranks: int,
    nbytes: float,
    orders: Orders | None = None,
    shifts: Shifts | None = None,
    *,
    box: Box = (),
    segments: int = 1,
) -> Schedule:
    """Each ring reduces and scatters its share of every chunk, in `segments` that follow one
    another; by default one ring, in rank order."""
    writer = _Writer(ranks, nbytes, orders, shifts, box, segments)
    writer.reduce_scatter()
    return writer.builder.build()


def rings_all_gather(
    ranks: int,
    nbytes: float,
    orders: Orders | None = None,
    shifts: Shifts | None = None,
    *,
    box: Box = (),
    segments: int = 1,
) -> Schedule:
    """Each ring passes on its share of every chunk."""
    writer = _Writer(ranks, nbytes, orders, shifts, box, segments)
    writer.all_gather()
    return writer.builder.build()


def rings_all_reduce(
    ranks: int,
    nbytes: float,
    orders: Orders | None = None,
    shifts: Shifts | None = None,
    *,
    box: Box = (),
    segments: int = 1,
) -> Schedule:
    """Each ring reduces and scatters, then gathers, its share of V.

    >>> rings_all_reduce(4, 4096.0, np.array([[0, 1, 2, 3], [3, 2, 1, 0]])).sent().tolist()
    [6144.0, 6144.0, 6144.0, 6144.0]
    """
    writer = _Writer(ranks, nbytes, orders, shifts, box, segments)
    writer.reduce_scatter()
    writer.all_gather()
    return writer.builder.build()


class _Writer:
    """Writes what rings do. With a `box`, ring c is the first one after shift c of the places of
    every node: see :class:`topologies.ring_search.Rings`.

    A rank takes its rings in turns. The turn of a ring is its channel; with a box it is the channel
    before the shift that takes place 0 to the rank's. So a shift of places takes every turn to
    itself, and ranks that do the same at the same time do it in the same turn.
    """

    def __init__(
        self,
        ranks: int,
        nbytes: float,
        orders: Orders | None,
        shifts: Shifts | None,
        box: Box,
        segments: int,
    ) -> None:
        order = np.arange(ranks)[None, :] if orders is None else orders
        self.order, self.segments, count = order, segments, len(order)
        self.turn = np.arange(count)[:, None]
        """The turn of each channel at each place of a node."""
        channels: list[Move] = []
        if box:
            self.turn = np.argsort(shifted(box), axis=0)
            if shifts is not None and len(shifts.shape) > 1:
                inner = shifts.steps[1:]
                channels = [Move(1 + axis, 0, each, count) for axis, each in enumerate(inner)]
        parts = count * segments
        slots = ranks * parts
        steps = [] if shifts is None else shifts.steps
        chunks = [Move(axis, 0, step * parts, slots) for axis, step in enumerate(steps)]
        if shifts is not None:
            _check(order, shifts, tuple(channels))
        self.builder = ScheduleBuilder(
            fold(ranks, shifts, *chunks, channels=channels), nbytes, slots=slots
        )

    def reduce_scatter(self) -> None:
        """All chunks but a rank's go round, and every rank adds to them."""
        self.builder.phase("reduce-scatter")
        self._pass(np.arange(1, self.builder.ranks), self.builder.reduce)

    def all_gather(self) -> None:
        """All chunks go round."""
        self.builder.phase("all-gather")
        self._pass(np.arange(self.builder.ranks - 1), self.builder.copy)

    def _pass(self, behind: Orders, send: Callable[..., Ints]) -> None:
        """In every step each rank sends to the next rank of each ring its part of a chunk: the
        chunk of the rank that is so many places `behind` it."""
        order, ranks, (count, size) = self.order, self.builder.ranks, self.turn.shape
        folded = self.builder.shifts is not None
        written = np.isin(order, self.builder.each()) if folded else np.ones_like(order, np.bool_)
        channel, place = np.nonzero(written)
        rank = order[channel, place]
        # With a box, ranks of a turn are on several channels: their order is what shifts keep.
        number = rank if size > 1 else np.arange(len(rank))
        by_turn = np.lexsort((number, self.turn[channel, rank % size])).reshape(count, -1)
        channel, place, rank = channel[by_turn], place[by_turn], rank[by_turn]
        peer = order[channel, (place + 1) % ranks]
        chunk = order[channel, (place - behind[:, None, None]) % ranks]
        part = self.turn[channel, chunk % size]
        part, segment = chunk * count + part, np.arange(self.segments)[:, None]
        slot = part[:, :, None] * self.segments + segment
        slot = slot.reshape(len(part), count * self.segments, part.shape[2])
        ends = (np.repeat(each, self.segments, 0) for each in (rank, peer, channel))
        sender, receiver, lane = ends
        send(sender, receiver, slot=slot, channel=lane, steps=2)


def _check(order: Orders, shifts: Shifts, channels: tuple[Move, ...]) -> None:
    """Raises NotSymmetric if shifts do not take rings to rings, or those that stand for others to
    another order round a ring: they are served in that order."""
    rank, behind = np.arange(shifts.ranks), np.empty_like(order)
    for number, ring in enumerate(order):
        behind[number, ring] = np.roll(ring, -1)
    element, standing = shifts.element(rank), shifts.folded(rank)
    for number, after in enumerate(behind):
        channel = shifts.slots_back(np.array(number), element, channels)
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


def fit_all_reduce(
    topology: Topology,
    ranks: int,
    nbytes: float,
    shifts: Shifts | None = None,
    *,
    segments: int = 1,
) -> Fitted:
    """The rings that :func:`topologies.ring_search.find_rings` finds."""
    write = partial(rings_all_reduce, segments=segments)
    cost = segmented_rings.ring_all_reduce(segments=segments)
    return _fitted(write, cost, topology, ranks, nbytes, shifts)


def fit_reduce_scatter(
    topology: Topology,
    ranks: int,
    nbytes: float,
    shifts: Shifts | None = None,
    *,
    segments: int = 1,
) -> Fitted:
    """As :func:`fit_all_reduce`."""
    write = partial(rings_reduce_scatter, segments=segments)
    cost = segmented_rings.ring_reduce_scatter(segments=segments)
    return _fitted(write, cost, topology, ranks, nbytes, shifts)


def fit_all_gather(
    topology: Topology,
    ranks: int,
    nbytes: float,
    shifts: Shifts | None = None,
    *,
    segments: int = 1,
) -> Fitted:
    """As :func:`fit_all_reduce`."""
    write = partial(rings_all_gather, segments=segments)
    cost = segmented_rings.ring_all_gather(segments=segments)
    return _fitted(write, cost, topology, ranks, nbytes, shifts)


def shifts_on(topology: Topology, ranks: int) -> Shifts:
    """The shifts of nodes, and of places in them with their channels, if rings are alike so; else
    those of ranks."""
    box = rings_of(topology, ranks).box
    shape = (ranks // prod(box), *box)
    return Shifts(shape, (1,) * len(shape)) if box else rotations(ranks)


SHOWN = 16
"""Ranks of a ring that are listed in words."""


def _fitted(
    write: Callable[..., Schedule],
    cost: CostModel,
    topology: Topology,
    ranks: int,
    nbytes: float,
    shifts: Shifts | None,
) -> Fitted:
    rings = rings_of(topology, ranks)
    schedule = write(ranks, nbytes, rings.orders, shifts, box=rings.box)
    cost = neighbors.rings(cost, rings.bandwidth, len(rings.orders))
    return Fitted(schedule, topology, cost, ring_words(rings.orders))


def ring_words(orders: Orders) -> tuple[str, ...]:
    """A line for each ring: its first ranks."""
    return tuple(f"channel {channel}: {_words(order)}" for channel, order in enumerate(orders))


def _words(order: Orders) -> str:
    shown = " ".join(map(str, order[:SHOWN].tolist()))
    return shown if len(order) <= SHOWN else f"{shown} ... ({len(order)} ranks)"


ALGORITHMS = (
    Algorithm(
        "rings",
        ALL_REDUCE,
        rings_all_reduce,
        neighbors.RING_ALL_REDUCE,
        "several rings at once, chosen for the machine's links and NICs",
        fit=fit_all_reduce,
        shifts=rotations,
        shifts_on=shifts_on,
        options=OPTIONS,
        formula=segmented_rings.ring_all_reduce,
        operations=lambda ranks, segments=1: 2.0 * segments * ranks * (ranks - 1),
    ),
    Algorithm(
        "rings_reduce_scatter",
        REDUCE_SCATTER,
        rings_reduce_scatter,
        neighbors.RING_REDUCE_SCATTER,
        "the reduce-scatter of rings",
        fit=fit_reduce_scatter,
        shifts=rotations,
        shifts_on=shifts_on,
        options=OPTIONS,
        formula=segmented_rings.ring_reduce_scatter,
    ),
    Algorithm(
        "rings_all_gather",
        ALL_GATHER,
        rings_all_gather,
        neighbors.RING_ALL_GATHER,
        "the all-gather of rings",
        fit=fit_all_gather,
        shifts=rotations,
        shifts_on=shifts_on,
        options=OPTIONS,
        formula=segmented_rings.ring_all_gather,
    ),
)
