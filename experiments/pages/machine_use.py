"""A machine and the use of its links over time, as a page draws it and a result file stores it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from experiments.pages.machine_places import places_of
from experiments.pictures.timelines.stored import MOST, Stored
from simulator.schedules.timeline import Timeline
from topologies.errors import InputError
from topologies.topology import Floats, Ints, Topology

MOST_LINKS = 2_000
"""Links that are drawn, at most: of more, those that carry most."""
FULL = 1000
"""A link that is in use all the time."""


@dataclass(frozen=True, eq=False)
class MachineUse:
    """A machine, and how busy each link is in equal parts of the run."""

    makespan: float
    """Seconds of the run."""
    devices: tuple[str, ...]
    """The boxes of devices, each with the columns of :class:`Places`."""
    device_kinds: tuple[str, ...]
    device_kind: Ints
    node: Ints
    x: Floats
    y: Floats
    width: Floats
    kinds: tuple[str, ...]
    """The kinds of links."""
    source: Ints
    """Where each link begins, a place among the devices."""
    target: Ints
    """Where it ends. A link from a node to itself stands for all links within the node."""
    kind: Ints
    """A place in `kinds`."""
    members: Ints
    """The links of the machine for which each stands."""
    bandwidth: Floats
    """Bytes/s of all of them together; 0 if it is unlimited."""
    latency: Floats
    """Seconds."""
    parts: int
    """Equal parts of the run."""
    busy: Ints
    """The share of the time that the link is in use, in thousandths, shape (links, parts)."""
    nbytes: Floats
    """Bytes that begin to cross or cross the link, shape (links, parts)."""
    remarks: tuple[str, ...] = ()
    """Sentences: what is drawn as one, and what is not drawn."""


def use_of(timeline: Timeline) -> MachineUse:
    """The use of the links of a machine.

    Large machines are drawn with a box for each node and switch. If some ranks stand for all, the
    links of all ranks are drawn.
    """
    machine, courses = timeline.routed.machine, courses_of(timeline)
    places, group, remarks = places_of(machine)
    ends = np.stack((group[machine.source], group[machine.target]))
    drawn = np.flatnonzero((ends >= 0).all(axis=0) & _between(machine, group))
    pairs, number = np.unique(ends[:, drawn], axis=1, return_inverse=True)
    number = number.ravel()
    count = pairs.shape[1]
    weight = np.where(np.isfinite(machine.bandwidth), machine.bandwidth, 1.0)[drawn]
    total = np.bincount(number, weight, count)
    busy, nbytes = _summed(courses, drawn, number, weight, count)
    kinds = [machine.link_kinds[link] for link in drawn.tolist()]
    names, code = np.unique(np.array(kinds or [""]), return_inverse=True)
    first = np.unique(number, return_index=True)[1] if count else np.zeros(0, dtype=np.int64)
    kept = _busiest(nbytes)
    if len(kept) < count:
        remarks = (*remarks, f"The {len(kept)} links with most bytes of {count} are drawn.")
    unlimited = ~np.isfinite(np.bincount(number, machine.bandwidth[drawn], count))
    return MachineUse(
        makespan=timeline.makespan,
        **places._asdict(),
        kinds=tuple(names.tolist()),
        source=pairs[0][kept].astype(np.int32),
        target=pairs[1][kept].astype(np.int32),
        kind=code.ravel()[first][kept].astype(np.int32) if count else pairs[0].astype(np.int32),
        members=np.bincount(number, minlength=count)[kept].astype(np.int32),
        bandwidth=np.where(unlimited, 0.0, total)[kept],
        latency=machine.latency[drawn][first][kept],
        parts=busy.shape[1],
        busy=np.round(FULL * busy[kept] / np.maximum(total[kept, None], 1e-300)).astype(np.int32),
        nbytes=np.round(nbytes[kept]),
        remarks=remarks,
    )


def _between(machine: Topology, group: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """The links between boxes, and those within boxes of several devices."""
    several = np.bincount(group[group >= 0], minlength=1) > 1
    same = group[machine.source] == group[machine.target]
    return np.asarray(~same | several[np.maximum(group[machine.source], 0)])


def _summed(
    courses: Courses, drawn: np.ndarray, number: np.ndarray, weight: Floats, count: int
) -> tuple[Floats, Floats]:
    """Busy shares, times the bandwidth, and bytes of drawn links."""
    busy = np.zeros((count, courses.busy.shape[1]))
    nbytes = np.zeros_like(busy)
    known = courses.link[drawn]
    used = np.flatnonzero(known >= 0)
    np.add.at(busy, number[used], courses.busy[known[used]] * weight[used, None])
    np.add.at(nbytes, number[used], courses.nbytes[known[used]])
    return busy, nbytes


def _busiest(nbytes: Floats) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The links that are drawn, in their order."""
    if len(nbytes) <= MOST_LINKS:
        return np.arange(len(nbytes))
    return np.sort(np.argsort(-nbytes.sum(axis=1), kind="stable")[:MOST_LINKS])


def from_document(document: object, name: str) -> MachineUse:
    """The use of a document that :func:`stored.to_document` made. Raises InputError."""
    file = Stored(document, name)
    devices, device_kinds, kinds = map(file.words, ("devices", "device_kinds", "kinds"))
    count, most = len(devices), 2**31 - 1
    source, width = file.places("source", None, devices), file.reals("width", count)
    links, parts = len(source), file.whole_number("parts", 1, 10_000)
    if links * parts > MOST:
        raise InputError(f"{name}: {links} links with {parts} parts are too many")
    return MachineUse(
        makespan=file.real("makespan"),
        devices=devices,
        device_kinds=device_kinds,
        device_kind=file.places("device_kind", count, device_kinds),
        node=file.whole("node", count, -1, most),
        x=file.reals("x", count, -1e6),
        y=file.reals("y", count, -1e6),
        width=width,
        kinds=kinds,
        source=source,
        target=file.places("target", links, devices),
        kind=file.places("kind", links, kinds),
        members=file.whole("members", links, 1, most),
        bandwidth=file.reals("bandwidth", links),
        latency=file.reals("latency", links),
        parts=parts,
        busy=file.whole("busy", links * parts, 0, FULL + 1).reshape(links, parts),
        nbytes=file.reals("nbytes", links * parts).reshape(links, parts),
        remarks=file.words("remarks"),
    )


PARTS = 120
"""Parts of a run."""
IMAGES = 500_000
"""Links of the ranks for which others stand that are looked up, at most."""


class Courses(NamedTuple):
    """The courses of links that were simulated, and which links they are of."""

    busy: Floats
    """The share of each part in which a link is in use, shape (courses, parts)."""
    nbytes: Floats
    """Bytes that cross it, shape (courses, parts)."""
    link: Ints
    """The course of each link of the machine; -1 if nothing crosses it."""


def courses_of(timeline: Timeline) -> Courses:
    """The courses of all links. A message uses a link at the rate of its slowest medium."""
    topology, schedule = timeline.routed.topology, timeline.schedule
    operation, link, node = timeline.hops
    count = np.diff(topology.link_indptr)
    owner = np.repeat(np.arange(topology.links), count)
    gap = np.zeros(topology.links)
    np.maximum.at(gap, owner, topology.medium_gap[topology.link_media])
    nbytes = schedule.nbytes[operation]
    seconds = nbytes / topology.bandwidth[link] + gap[link]
    start = timeline.node_start[node]
    end = timeline.sent[operation] if timeline.sharing == "fair" else start + seconds
    edges = np.linspace(0.0, timeline.makespan or 1.0, PARTS + 1)
    part = edges[1]
    busy = spread(link, start, end, seconds, (topology.links, edges))
    carried = spread(link, start, end, nbytes, (topology.links, edges))
    return Courses(np.clip(busy / part, 0.0, 1.0), carried, _images(timeline))


def spread(
    row: Ints, start: Floats, end: Floats, amount: Floats, shape: tuple[int, Floats]
) -> Floats:
    """Amounts by row and part of the time, each spread evenly from its start to its end.

    >>> row, one = np.array([0]), np.array([1.0])
    >>> spread(row, 0.5 * one, 2.5 * one, 8 * one, (1, np.arange(4.0))).tolist()
    [[2.0, 4.0, 2.0]]
    """
    rows, edges = shape
    parts, width = len(edges) - 1, edges[1] - edges[0]
    first, last = (
        np.clip((times / width).astype(np.int64), 0, parts - 1) for times in (start, end)
    )
    # The place of a part is first + row * stride: behind the parts of a row is one that ends them.
    stride = parts + 1
    row_place, size = row.astype(np.int64) * stride, rows * stride
    within = first == last
    result = np.zeros(size)
    result += np.bincount((row_place + first)[within], amount[within], size)
    long = ~within
    begin, first, last = row_place[long], first[long], last[long]
    rate = amount[long] / (end - start)[long]
    result += np.bincount(begin + first, rate * (edges[first + 1] - start[long]), size)
    result += np.bincount(begin + last, rate * (end[long] - edges[last]), size)
    change = np.bincount(begin + first + 1, rate, size) - np.bincount(begin + last, rate, size)
    between = np.cumsum(change.reshape(rows, stride), axis=1) * width
    total: Floats = np.maximum((result.reshape(rows, stride) + between)[:, :parts], 0.0)
    return total


def _images(timeline: Timeline) -> Ints:
    """The simulated link of each link of the machine. Of a folded schedule, that is the link of
    the ranks that stand for all."""
    routed, schedule = timeline.routed, timeline.schedule
    machine, fold = routed.machine, schedule.fold
    if fold is None:
        return np.arange(machine.links, dtype=np.int32)
    chosen = np.flatnonzero(schedule.remote)
    key = np.stack((schedule.rank[chosen], schedule.peer[chosen], schedule.lane[chosen]))
    chosen = chosen[np.unique(key, axis=1, return_index=True)[1]]
    elements = fold.shifts.elements[: max(1, IMAGES // max(len(chosen), 1))]
    sender, receiver = (
        fold.shifts.shifted(ranks[chosen, None].astype(np.int64), elements).ravel()
        for ranks in (schedule.rank, schedule.peer)
    )
    channel = fold.channel(schedule.lane[chosen, None].astype(np.int64), elements).ravel()
    links = machine.routes(sender, receiver, channel)[1]
    simulated = np.concatenate(
        [np.tile(routed.hops(operation), len(elements)) for operation in chosen.tolist()]
    )
    image = np.full(machine.links, -1, dtype=np.int32)
    if len(simulated) == len(links):
        image[links] = simulated
    return image
