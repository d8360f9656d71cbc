"""Orbits of media: which of them stand for each other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.schedules.folding import spread
from simulator.schedules.shifts import Longs, Shifts
from topologies.errors import InputError
from topologies.topology import Ints, Topology

AT_ONCE = 2**20
"""Links that are compared at once."""


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

    def crossed(self, links: Ints, hops: npt.NDArray[np.integer]) -> Crossed:
        """What routes of so many `hops` cross; `links` are those of each route, and then of the
        routes to which the shifts take it.

        Raises NotSymmetric where a shift does not take a link to one that is alike, or leaves it in
        place.
        """
        order, route = len(self.shifts.elements), np.repeat(np.arange(len(hops)), hops)
        begin = order * (np.cumsum(hops) - hops)
        hop = np.arange(len(route)) - (np.cumsum(hops) - hops)[route]
        rows = max(1, AT_ONCE // order)
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
    """Whether the entries of any row differ."""
    return bool((rows[:, 1:] != rows[:, :-1]).any())
