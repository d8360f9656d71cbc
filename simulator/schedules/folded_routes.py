"""Whether a machine looks the same from all ranks for which one stands, and what is left of it.

Nothing is taken on trust: the routes of all ranks are found, and held against each other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.kernels.dependencies import meetings
from simulator.kernels.records import Csr
from simulator.schedules.schedule import Schedule
from simulator.schedules.shifts import Fold, Shifts
from topologies.columns import Words, distinct, ranges, spread, starts
from topologies.errors import InputError
from topologies.jit import kernel
from topologies.routing import find_routes
from topologies.topology import Ints, Longs, Numbers, Topology

COMPARED_ROUTES = 2**25
"""Routes that are found and compared at most."""
FIRST_SHIFTS = 64
"""Shifts, or routes, that are looked at first."""
TRIED_SHIFTS = 16
"""Shifts that are looked at first where many groups are tried."""


class FoldedRoutes(NamedTuple):
    """The routes of the representatives, over links each of which stands for its orbit."""

    topology: Topology
    """The machine, with one link and one medium of each orbit."""
    indptr: Ints
    """The route of pair k takes `links[indptr[k]:indptr[k + 1]]`."""
    links: Ints
    shift: Ints
    """The shift that takes the link that stands for the orbit to the one crossed, for each entry of
    `links`."""
    media: Ints
    """The medium that stands for each medium of the machine, or -1 where no route crosses it."""


def fold_routes(
    fold: Fold, topology: Topology, source: Longs, target: Longs, channel: Longs
) -> FoldedRoutes:
    """The routes from `source` to `target`, representatives and their peers.

    Raises NotSymmetric unless every shift takes these routes to routes: of links with the same α,
    through media with the same β and g, which no shift but that by nothing leaves in place; and
    ranks to ranks with the same γ.
    """
    shifts, elements = fold.shifts, fold.shifts.elements
    placed = topology.placement[: shifts.ranks]
    if len(source) * len(elements) > COMPARED_ROUTES:
        raise NotSymmetric(f"{len(source) * len(elements)} routes are too many to compare")
    folded = shifts.folded(np.arange(shifts.ranks))
    for cost in (topology.reduction[placed], topology.copy[placed]):
        if not np.array_equal(cost, cost[folded]):
            raise NotSymmetric("ranks take different times to reduce or to copy")
    routes = source, target, channel
    if len(elements) > FIRST_SHIFTS:
        _check_wires(
            topology, *images_of(fold, topology, routes, elements[:FIRST_SHIFTS]), FIRST_SHIFTS
        )
    _check_nodes(shifts, topology)
    hops, links = images_of(fold, topology, routes, elements)
    orbits = Orbits(shifts, topology)
    crossed = orbits.crossed(links, hops)
    return _quotient(topology, hops, orbits, crossed)


def _check_nodes(shifts: Shifts, topology: Topology) -> None:
    """Raises NotSymmetric unless ranks of a node stay together."""
    rank, node = np.arange(shifts.ranks), topology.node[topology.placement[: shifts.ranks]]
    if node.max() < 0:
        return
    node = np.where(node < 0, node.max() + 1 + rank, node)
    for axis in shifts.along_each_axis:
        shifted = node[shifts.shifted(rank, axis.elements[1])]
        image = np.zeros(node.max() + 1, dtype=shifted.dtype)
        image[node] = shifted
        if (image[node] != shifted).any():
            raise NotSymmetric("a shift parts the ranks of a node")


def images_of(
    fold: Fold, topology: Topology, routes: tuple[Longs, Longs, Longs], elements: Longs
) -> tuple[Numbers, Ints]:
    """The links of each route, and those to which shifts take them: source, target and channel of
    the routes. Raises NotSymmetric if routes have different numbers of links."""
    *ends, channel = (column[:, None] for column in routes)
    senders, receivers = (fold.shifts.shifted(rank, elements).ravel() for rank in ends)
    indptr, links = find_routes(
        topology, senders, receivers, fold.channel(channel, elements).ravel()
    )
    hops = np.diff(indptr).reshape(len(channel), len(elements))
    if len(channel) and (hops != hops[:, :1]).any():
        raise NotSymmetric("routes have different numbers of links")
    return hops[:, 0], links


def check_few_routes(
    fold: Fold, shifts: Shifts, topology: Topology, source: Longs, target: Longs, channel: Longs
) -> None:
    """Raises NotSymmetric if some routes of a folded schedule tell that it cannot be folded by
    fewer `shifts`.

    The first and the last of all shifts are looked at: a machine differs at its ends, if anywhere.
    """
    images = fold.shifts.elements
    images = _ends(images[shifts.element(images) == 0], TRIED_SHIFTS)
    chosen = np.arange(0, len(source), max(1, len(source) // FIRST_SHIFTS))
    routes = (
        fold.shifts.shifted(source[chosen, None], images).ravel(),
        fold.shifts.shifted(target[chosen, None], images).ravel(),
        fold.channel(channel[chosen, None], images).ravel(),
    )
    elements = _ends(shifts.elements, TRIED_SHIFTS)
    hops, links = images_of(replace(fold, shifts=shifts), topology, routes, elements)
    _check_wires(topology, hops, links, len(elements))


def _ends(elements: Longs, some: int) -> Longs:
    if len(elements) <= some:
        return elements
    return np.concatenate((elements[: some // 2], elements[-some // 2 :]))


def _check_wires(topology: Topology, hops: Numbers, links: Ints, order: int) -> None:
    """Raises NotSymmetric if shifts take a wire to itself, or to one with another α: most groups
    that do not suit a machine are so refused before the routes of all ranks are found."""
    begins = order * (np.cumsum(hops) - hops)
    for count in distinct(hops[hops > 0]):
        rows = begins[hops == count, None] + np.arange(order * count)
        images = links[rows].reshape(-1, order, count)
        if np.ptp(topology.latency[images], axis=1).any():
            raise NotSymmetric("links have different latencies")
        wires = np.sort(topology.link_media[topology.link_indptr[images]], axis=1)
        if (wires[:, 1:] == wires[:, :-1]).any():
            raise NotSymmetric("a shift leaves a medium in place")


def _quotient(topology: Topology, hops: Numbers, orbits: Orbits, crossed: Crossed) -> FoldedRoutes:
    """The machine with one link of each orbit: that of its wire."""
    first_entry = np.cumsum(crossed.media) - crossed.media
    wires = crossed.kind[first_entry]
    rows = np.sort(np.unique(wires, return_index=True)[1])
    is_shared = np.ones(len(orbits.first), dtype=np.bool_)
    is_shared[wires] = False
    chosen = np.concatenate((wires[rows], np.flatnonzero(is_shared)))
    number = np.argsort(chosen).astype(np.int32)
    media = np.array(orbits.first, dtype=np.int64)[chosen]
    _, entry = ranges(first_entry[rows], crossed.media[rows])
    kept, shared = media[: len(rows)], media[len(rows) :]
    quotient = replace(
        topology,
        source=topology.source[kept],
        target=topology.target[kept],
        latency=topology.latency[kept],
        link_kinds=Words(topology.link_kinds.codes[kept], topology.link_kinds.vocabulary),
        assumed=topology.assumed[kept],
        link_indptr=starts(crossed.media[rows]),
        link_media=number[crossed.kind[entry]],
        shared_names=tuple(topology.shared_names[k] for k in (shared - topology.links).tolist()),
        medium_bandwidth=topology.medium_bandwidth[media],
        medium_gap=topology.medium_gap[media],
    )
    standing = np.where(orbits.kind < 0, np.int32(-1), number[orbits.kind])
    shift = crossed.shift.astype(np.int32)
    return FoldedRoutes(quotient, starts(hops), number[wires], shift, standing)


def check_order(
    schedule: Schedule, route: Ints, folded: FoldedRoutes, *, media: bool, lanes: bool
) -> None:
    """Raises NotSymmetric where operations of one call, from different shifts, meet: with `media`
    at a medium, with `lanes` at a rank that reduces or copies. Which is served first would not be
    the same everywhere."""
    assert schedule.fold is not None
    used = ([_media_used(route, folded)] if media else []) + (
        [_ranks_used(schedule)] if lanes else []
    )
    for each in used:
        meeting = int(kernel(meetings, len(schedule))(schedule.fold.call, *each))
        if meeting >= 0:
            raise NotSymmetric(
                f"rank {schedule.rank[meeting]} may meet another rank on its way to "
                f"{schedule.peer[meeting]}"
            )


def _media_used(route: Ints, folded: FoldedRoutes) -> tuple[Ints, Csr, Ints, int]:
    """The route of each operation, the media of each route, their shifts, and how many there
    are."""
    media = folded.topology
    row, places = media.crossings(folded.links)
    count = np.diff(media.link_indptr)[folded.links]
    ends = starts(count)[folded.indptr]
    indptr = np.concatenate((np.zeros(1, np.int32), ends))
    used = Csr(indptr, places.astype(np.int32))
    return route, used, folded.shift[row], len(media.medium_bandwidth)


def _ranks_used(schedule: Schedule) -> tuple[Ints, Csr, Ints, int]:
    """As :func:`_media_used`, of the rank at which each operation ends."""
    assert schedule.fold is not None
    shifts, peer = schedule.fold.shifts, schedule.peer
    every = np.arange(len(schedule) + 1, dtype=np.int32)
    used = Csr(every, shifts.place(peer).astype(np.int32))
    return every[:-1], used, shifts.element(peer).astype(np.int32), len(shifts.representatives)


class NotSymmetric(InputError):
    """A machine does not look the same from all ranks for which one stands."""


class Crossed(NamedTuple):
    """What the links of some routes cross."""

    media: Longs
    """The number of media of each link."""
    kind: Longs
    """The orbits of these media, link by link."""
    shift: Longs
    """The shift that takes the first media of the orbits to those of each link."""


class Orbits:
    """The orbits of the media that routes cross. An orbit is found where a route first crosses
    it."""

    def __init__(self, shifts: Shifts, topology: Topology) -> None:
        self.shifts, self.topology = shifts, topology
        self.first: list[int] = []
        """The first medium of each orbit."""
        media = len(topology.medium_bandwidth)
        self.kind = np.full(media, -1, dtype=np.int32)
        """The orbit of each medium, or -1."""
        self._shift = np.zeros(media, dtype=np.int64)

    def crossed(self, links: Ints, hops: Numbers) -> Crossed:
        """What routes of so many `hops` cross; `links` are those of each route, and then of the
        routes to which the shifts take it.

        Raises NotSymmetric where a shift does not take a link to one that is alike, or leaves it in
        place.
        """
        order, (route, hop) = len(self.shifts.elements), spread(hops)
        begin = order * (np.cumsum(hops) - hops)
        rows = max(1, 2**20 // order)  # a million links at once bound the memory
        parts = []
        for k in range(0, len(route), rows):
            chosen = route[k : k + rows, None]
            place = begin[chosen] + hop[k : k + rows, None] + hops[chosen] * np.arange(order)
            parts.append(self._cross(links[place]))
        if not parts:
            none = np.zeros(0, dtype=np.int64)
            return Crossed(none, none, none)
        return Crossed(*map(np.concatenate, zip(*parts, strict=True)))

    def _cross(self, links: Ints) -> Crossed:
        """`links` has the images of a link in each row."""
        topology = self.topology
        for column in (topology.latency, topology.link_kinds.codes, np.diff(topology.link_indptr)):
            if _differs(column[links]):
                raise NotSymmetric("links have different latencies, kinds or numbers of media")
        count = np.diff(topology.link_indptr)[links[:, 0]].astype(np.int64)
        row, place = spread(count)
        images = topology.link_media[topology.link_indptr[links[row]] + place[:, None]]
        self._add(images[self.kind[images[:, 0]] < 0])
        kind, shift = self.kind[images[:, 0]], self._shift[images[:, 0]]
        if (self.kind[images] != kind[:, None]).any() or (
            self._shift[images] != self.shifts.shifted(self.shifts.elements, shift[:, None])
        ).any():
            raise NotSymmetric("a shift leaves a medium in place, or takes it to another one's")
        shift_of_link = shift[np.cumsum(count) - count]
        if (shift != shift_of_link[row]).any():
            raise NotSymmetric("media of a link are shifted apart")
        return Crossed(count, kind.astype(np.int64), shift_of_link)

    def _add(self, images: Ints) -> None:
        """The orbits of some media, of which rows have the images."""
        if not len(images):
            return
        rows = np.sort(np.unique(images.min(axis=1), return_index=True)[1])
        images = images[rows]
        for column in (self.topology.medium_bandwidth, self.topology.medium_gap):
            if _differs(column[images]):
                raise NotSymmetric("media differ")
        if (self.kind[images] >= 0).any():
            raise NotSymmetric("a shift takes a medium to that of another orbit")
        # A medium that is there twice is noticed by `_cross`: it keeps one orbit and one shift.
        self.kind[images] = len(self.first) + np.arange(len(images))[:, None]
        self._shift[images] = self.shifts.elements
        self.first += images[:, 0].tolist()


def _differs(rows: npt.NDArray[np.generic]) -> bool:
    return bool((rows[:, 1:] != rows[:, :-1]).any())
