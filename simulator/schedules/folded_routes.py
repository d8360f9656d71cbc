"""Whether a machine looks the same from all ranks for which one stands, and what is left of it.

Nothing is taken on trust: the routes of all ranks are found, and held against each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.kernels.meetings import meetings
from simulator.kernels.records import Csr
from simulator.schedules.folding import Fold
from simulator.schedules.schedule import Schedule
from simulator.schedules.shifts import Longs, Shifts
from topologies._compile import kernel
from topologies.columns import Words, distinct
from topologies.errors import InputError
from topologies.routing import find_routes
from topologies.topology import Ints, Topology

MOST = 2**25
"""Routes that are found and compared at most."""
FEW = 64
"""Shifts, or routes, that are looked at first."""
SOME = 16
"""Shifts that are looked at first where many groups are tried."""


class NotSymmetric(InputError):
    """A machine does not look the same from all ranks for which one stands."""


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


class Media(NamedTuple):
    """The media that are crossed, by orbits."""

    kind: Longs
    """The orbit of each medium of the machine; -1 of those that are not crossed."""
    shift: Longs
    """The shift that takes the first medium of the orbit to each."""
    first: list[int]
    """The first medium of each orbit."""


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
    if len(source) * len(elements) > MOST:
        raise NotSymmetric(f"{len(source) * len(elements)} routes are too many to compare")
    folded = shifts.folded(np.arange(shifts.ranks))
    for cost in (topology.reduction[placed], topology.copy[placed]):
        if not np.array_equal(cost, cost[folded]):
            raise NotSymmetric("ranks take different times to reduce or to copy")
    routes = source, target, channel
    if len(elements) > FEW:
        _check_wires(topology, *_images_of(fold, topology, routes, elements[:FEW]), FEW)
    _check_nodes(shifts, topology)
    hops, links = _images_of(fold, topology, routes, elements)
    media = Media(
        np.full(len(topology.medium_bandwidth), -1, dtype=np.int64),
        np.zeros(len(topology.medium_bandwidth), dtype=np.int64),
        [],
    )
    crossed: list[tuple[list[int], int]] = []
    for images in _images(links, hops, len(elements)):
        crossed.append(_crossed(shifts, topology, images, media))
    own = np.zeros(len(source) + 1, dtype=np.int32)
    np.cumsum(hops, out=own[1:])
    return _quotient(topology, own, crossed, media)


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


def _images_of(
    fold: Fold, topology: Topology, routes: tuple[Longs, Longs, Longs], elements: Longs
) -> tuple[npt.NDArray[np.integer], Ints]:
    """The links to which shifts take those of some routes, and how many each route has."""
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
    images = _ends(images[shifts.element(images) == 0], SOME)
    chosen = np.arange(0, len(source), max(1, len(source) // FEW))
    routes = (
        fold.shifts.shifted(source[chosen, None], images).ravel(),
        fold.shifts.shifted(target[chosen, None], images).ravel(),
        fold.channel(channel[chosen, None], images).ravel(),
    )
    elements = _ends(shifts.elements, SOME)
    hops, links = _images_of(replace(fold, shifts=shifts), topology, routes, elements)
    _check_wires(topology, hops, links, len(elements))


def _ends(elements: Longs, some: int) -> Longs:
    """The first and the last few."""
    if len(elements) <= some:
        return elements
    return np.concatenate((elements[: some // 2], elements[-some // 2 :]))


def _check_wires(
    topology: Topology, hops: npt.NDArray[np.integer], links: Ints, order: int
) -> None:
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


def _images(links: Ints, hops: npt.NDArray[np.integer], order: int) -> Iterator[Ints]:
    """For each link of each route: the links to which the shifts take it, in their order."""
    begin = 0
    for count in hops.tolist():
        yield from links[begin : begin + order * count].reshape(order, count).T
        begin += order * count


def _crossed(
    shifts: Shifts, topology: Topology, links: Ints, media: Media
) -> tuple[list[int], int]:
    """The orbits of the media of a link, and its shift; `links` are its images."""
    if np.ptp(topology.latency[links]) or np.ptp(topology.link_kinds.codes[links]):
        raise NotSymmetric("links have different latencies, or are of different kinds")
    begin, end = topology.link_indptr[links], topology.link_indptr[links + 1]
    if np.ptp(end - begin):
        raise NotSymmetric("links share different numbers of media")
    kinds = []
    taken = set()
    for place in range(int(end[0] - begin[0])):
        kind, shift = _orbit(shifts, topology, topology.link_media[begin + place], media)
        kinds.append(kind)
        taken.add(shift)
    if len(taken) > 1:
        raise NotSymmetric("media of a link are shifted apart")
    return kinds, taken.pop()


def _orbit(shifts: Shifts, topology: Topology, images: Ints, media: Media) -> tuple[int, int]:
    """The orbit of a medium and its shift there; `images` are those of the medium."""
    elements = shifts.elements
    kind, first = int(media.kind[images[0]]), np.int64(images[0])
    if kind < 0:
        kind = len(media.first)
        figures = topology.medium_bandwidth, topology.medium_gap
        if (media.kind[images] >= 0).any() or any(
            (column[images] != column[first]).any() for column in figures
        ):
            raise NotSymmetric("media differ")
        media.first.append(int(first))
        media.kind[images], media.shift[images] = kind, elements
    shift = media.shift[first]
    if (media.kind[images] != kind).any() or (
        media.shift[images] != shifts.shifted(elements, shift)
    ).any():
        raise NotSymmetric("a shift leaves a medium in place, or takes it to another one's")
    return kind, int(shift)


def _quotient(
    topology: Topology, indptr: Ints, crossed: list[tuple[list[int], int]], media: Media
) -> FoldedRoutes:
    """The machine with one link of each orbit: that of its wire."""
    wire_of: dict[int, int] = {}
    for kinds, _ in crossed:
        wire_of.setdefault(kinds[0], len(wire_of))
    shared = [kind for kind in range(len(media.first)) if kind not in wire_of]
    number = wire_of | {kind: len(wire_of) + k for k, kind in enumerate(shared)}
    kept = np.array([media.first[kind] for kind in wire_of], dtype=np.int64)
    by_wire = {kinds[0]: kinds for kinds, _ in crossed}
    lists = [[number[kind] for kind in by_wire[wire]] for wire in wire_of]
    chosen = np.array([media.first[kind] for kind in (*wire_of, *shared)], dtype=np.int64)
    link_indptr = np.zeros(len(lists) + 1, dtype=np.int32)
    np.cumsum([len(each) for each in lists], out=link_indptr[1:])
    quotient = replace(
        topology,
        source=topology.source[kept],
        target=topology.target[kept],
        latency=topology.latency[kept],
        link_kinds=Words(topology.link_kinds.codes[kept], topology.link_kinds.vocabulary),
        assumed=topology.assumed[kept],
        link_indptr=link_indptr,
        link_media=np.array([kind for each in lists for kind in each], dtype=np.int32),
        shared_names=tuple(
            topology.shared_names[media.first[kind] - topology.links] for kind in shared
        ),
        medium_bandwidth=topology.medium_bandwidth[chosen],
        medium_gap=topology.medium_gap[chosen],
    )
    links = np.array([wire_of[kinds[0]] for kinds, _ in crossed], dtype=np.int32)
    shift = np.array([shift for _, shift in crossed], dtype=np.int32)
    return FoldedRoutes(quotient, indptr, links, shift)


def check_order(schedule: Schedule, route: Ints, folded: FoldedRoutes, *, lanes: bool) -> None:
    """Raises NotSymmetric where operations of one call, from different shifts, meet at a medium or,
    with `lanes`, at a rank that reduces or copies: which is served first would not be the same
    everywhere."""
    assert schedule.fold is not None
    shifts, media = schedule.fold.shifts, folded.topology
    count = np.diff(media.link_indptr)[folded.links]
    row = np.repeat(np.arange(len(folded.links)), count)
    offset = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    places = media.link_media[media.link_indptr[folded.links[row]] + offset]
    ends = np.concatenate(([0], np.cumsum(count)))[folded.indptr]
    indptr = np.concatenate((np.zeros(1, np.int32), ends)).astype(np.int32)
    meeting = kernel(meetings, len(schedule))(
        schedule.fold.call,
        route,
        Csr(indptr, places.astype(np.int32)),
        folded.shift[row],
        len(media.medium_bandwidth),
    )
    if meeting < 0 and lanes:
        peer = schedule.peer
        used = Csr(
            np.arange(len(schedule) + 1, dtype=np.int32), shifts.place(peer).astype(np.int32)
        )
        meeting = kernel(meetings, len(schedule))(
            schedule.fold.call,
            np.arange(len(schedule), dtype=np.int32),
            used,
            shifts.element(peer).astype(np.int32),
            len(shifts.representatives),
        )
    if meeting >= 0:
        raise NotSymmetric(
            f"rank {schedule.rank[meeting]} may meet another rank on its way to "
            f"{schedule.peer[meeting]}"
        )
