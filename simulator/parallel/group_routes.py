"""The routes of a collective that all groups of a place run at once.

Groups that share no medium do not meet: they are parts of their own. Parts that are alike, up to
the names of ranks and media, take as long, so that one of them is enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from simulator.collectives.collective import Algorithm, Fitted
from simulator.collectives.operation_counts import estimate
from simulator.collectives.symmetry import fold
from simulator.schedules.routed import Routed, route
from simulator.schedules.schedule import Schedule
from simulator.schedules.timeline import Timeline
from simulator.steps.buffers import side_by_side
from topologies.columns import distinct_rows
from topologies.errors import InputError
from topologies.topology import Flags, Floats, Ints, Longs, Topology

MOST = 2.0**21
"""Operations of a part that are simulated, at most."""
ROUTES = 2**18
"""Routes of all groups that are compared, at most."""
ROUNDING = 1e-12
"""Ends that differ by this share of the time are one."""


class Loads(NamedTuple):
    """What groups send over media, a row for each place and medium that its groups cross, by place.
    The lane of a device on which it reduces and copies is a medium behind all others."""

    place: Ints
    medium: Ints
    seconds: Floats
    """How long the bytes keep the medium busy, for V = 1 byte."""
    gaps: Floats
    """How long gaps between messages do, for any V."""
    flows: Floats
    """How many messages are on the medium while it is busy."""


class _Use(NamedTuple):
    """The links that each group crosses, in the order of its transfers."""

    links: list[Ints]
    hops: Ints
    """The number of links of each transfer, shape (groups, transfers)."""
    busy: Floats
    """How long the bytes of all groups of its place keep the busiest medium of each group busy, for
    V = 1 byte, at least."""
    media: Loads
    sizes: Floats


@dataclass(frozen=True, eq=False)
class Laid:
    """A collective of all groups on the machine."""

    algorithm: Algorithm
    topology: Topology
    usual: Topology | None
    """The machine for which a library makes rings, if some links of this one are slower."""
    merges: bool
    fitted: Fitted
    """What the algorithm does in the first group."""
    groups: Ints
    """The number of each group among all of its kind."""
    placements: Ints
    """The devices of each group, with the switches that its algorithm takes."""
    place: Ints
    use: _Use = field(repr=False)
    part: Ints
    """The part of each group. Parts that are alike are one."""
    members: list[Ints]
    parts_of: Mapping[int, Sequence[int]]
    """The parts of each place; the one with the busiest medium comes first."""

    @property
    def ranks(self) -> int:
        return self.fitted.schedule.workers

    @cached_property
    def least(self) -> float:
        """How long the busiest medium of each place is busy at least, for V = 1 byte. The
        collective takes no less."""
        return min(self.busiest(numbers[0]) for numbers in self.parts_of.values())

    def busiest(self, part: int) -> float:
        """The same of the groups of a part."""
        return float(self.use.busy[self.members[part]].max())

    def ends(self, part: int, timeline: Timeline) -> Floats:
        """When each rank of a part has sent and received all, shape (groups times ranks,). Empty if
        ranks are served alike, if one stands for several, or under fair sharing, where messages
        on a medium end together."""
        schedule, ends = timeline.schedule, np.zeros(self.ranks * len(self.members[part]))
        alone = schedule.fold is not None or schedule.workers != len(ends)
        if timeline.sharing == "fair" or alone:
            return ends[:0]
        for rank in schedule.rank, schedule.peer:
            members = (rank >= 0) & (rank < len(ends))
            np.maximum.at(ends, rank[members], timeline.finish[members])
        return ends if np.ptp(ends) > ROUNDING * timeline.makespan else ends[:0]

    def loads(self, place: int) -> Loads:
        """What the groups of a place send."""
        rows = slice(*np.searchsorted(self.use.media.place, (place, place + 1)))
        return Loads._make(column[rows] for column in self.use.media)

    @cached_property
    def parts(self) -> Mapping[int, Routed]:
        """Groups that meet, for V = 1 byte, by the number of their part. Parts that are alike are
        left out."""
        numbers = {number for numbers in self.parts_of.values() for number in numbers}
        return {number: self._routed(self.members[number]) for number in sorted(numbers)}

    def _routed(self, members: Ints) -> Routed:
        """The schedules of the groups as one. If there are too many operations, that of the group
        with the busiest medium, where it has its share of each medium."""
        child, count = self.fitted.schedule, len(members)
        if len(child) * child.members * count <= MOST and (count > 1 or child.fold is None):
            if child.fold is not None:
                child = self._whole(self.topology, members[0]).schedule
            # The workers of all groups come first, then their switches.
            devices = np.split(self.placements[members], [child.workers], axis=1)
            placement = np.concatenate([each.ravel() for each in devices])
            return route(side_by_side(child, count), replace(self.topology, placement=placement))
        busiest = int(members[self.use.busy[members].argmax()])
        machine = _crowded(self.topology, self.use, busiest, int(self.place[busiest]))
        if child.fold is not None:
            machine = replace(machine, placement=self.placements[busiest])
            folded = fold(self.algorithm, machine, child.workers, merges=self.merges)
            if folded is not None:
                return folded.routed
        _check(self.algorithm, child.workers, len(child) * child.members)
        schedule, usual = self._whole(machine, busiest)[:2]
        return route(schedule, replace(machine, placement=usual.placement))

    def _whole(self, topology: Topology, group: int) -> Fitted:
        """What the algorithm does in a group, not folded."""
        machine = replace(self.usual or topology, placement=self.placements[group])
        return self.algorithm.on(machine, len(machine.placement), 1.0)


def lay(
    algorithm: Algorithm,
    topology: Topology,
    groups: Ints,
    place: Ints,
    *,
    merges: bool = False,
    usual: Topology | None = None,
) -> Laid:
    """The parts of a machine on which `groups`, shape (groups, ranks), run an algorithm: at once
    those of the same `place`, shape (groups,).

    All groups have the schedule of the first one. With `merges` reductions may take time later. If
    some links are slower than on the `usual` machine, for which schedules are made, no groups stand
    for all. Raises InputError if there are too many operations.
    """
    first, size, folded = _machine(usual or topology, groups[0]), groups.shape[1], None
    # Smaller groups are sooner simulated than folded.
    if estimate(algorithm, size) > 4096:
        folded = fold(algorithm, first, size, merges=merges)
    if folded is None:
        _check(algorithm, size, estimate(algorithm, size))
    fitted = algorithm.on(first, size, 1.0) if folded is None else folded.fitted
    pairs, chosen = _pairs(fitted.schedule), np.arange(len(groups), dtype=np.int32)
    # If the routes of all groups are too many to compare, the groups on the nodes of the first
    # group of a place stand for all.
    if pairs.ends.shape[1] * len(groups) > ROUTES and usual is None:
        chosen = np.flatnonzero(_neighbours(topology, groups, place)).astype(np.int32)
        groups, place = groups[chosen], place[chosen]
    placements = _placements(algorithm, usual or topology, groups, fitted)
    use = _use(topology, placements, place, pairs)
    parts = _parts(topology, use, place)
    members, number = list[Ints](), dict[tuple[bytes, ...], int]()
    parts_of, part_of = dict[int, list[int]](), np.empty(len(groups), dtype=np.int32)
    for key, part in zip(_keys(topology, use, parts, placements), parts, strict=True):
        if key not in number:
            number[key] = len(members)
            members.append(part)
        part_of[part] = number[key]
        parts_of.setdefault(int(place[part[0]]), []).append(number[key])
    # Of each place the four parts with the busiest media are simulated.
    busiest = {
        home: sorted(dict.fromkeys(parts), key=lambda n: -use.busy[members[n]].max())[:4]
        for home, parts in parts_of.items()
    }
    columns = algorithm, topology, usual, merges, fitted, chosen, placements, place, use, part_of
    return Laid(*columns, members, busiest)


def _check(algorithm: Algorithm, ranks: int, operations: float) -> None:
    if operations > MOST:
        raise InputError(
            f"{algorithm.name}: {operations:.0f} operations of {ranks} ranks are too many to "
            f"simulate: take another algorithm"
        )


def _machine(topology: Topology, group: Ints) -> Topology:
    return replace(topology, placement=topology.placement[group])


def _placements(algorithm: Algorithm, topology: Topology, groups: Ints, fitted: Fitted) -> Ints:
    ranks, workers = fitted.schedule.ranks, fitted.schedule.workers
    if ranks == workers:
        return topology.placement[groups]
    machines = (algorithm.on(_machine(topology, group), workers, 1.0) for group in groups)
    return np.stack([each.topology.placement[:ranks] for each in machines])


class _Pairs(NamedTuple):
    """Transfers, each sender and receiver once for each channel."""

    ends: Longs
    """Sender, receiver and channel, shape (3, pairs)."""
    nbytes: Floats
    reduced: Floats
    """The bytes that the receiver reduces."""
    messages: Floats
    turns: Floats
    """The share of the bytes of the sender on the channel."""


def _pairs(schedule: Schedule) -> _Pairs:
    remote = schedule.remote
    columns = schedule.lane[remote], schedule.rank[remote], schedule.peer[remote]
    first, number = distinct_rows(*columns)
    nbytes = schedule.nbytes[remote]
    sums = [
        np.asarray(np.bincount(number, weights), dtype=np.float64)
        for weights in (nbytes, nbytes * schedule.reduces[remote], np.ones(len(nbytes)))
    ]
    channel, sender, receiver = (column[first].astype(np.int64) for column in columns)
    of_sender = distinct_rows(channel, sender)[1]
    sums.append(sums[0] / np.bincount(of_sender, sums[0])[of_sender])
    if schedule.fold is None:
        return _Pairs(np.stack((sender, receiver, channel)), *sums)
    shifts, elements = schedule.fold.shifts, schedule.fold.shifts.elements[:, None]
    images = [shifts.shifted(rank[None, :], elements).ravel() for rank in (sender, receiver)]
    channels = shifts.slots_shifted(channel[None, :], elements, schedule.fold.channels)
    channels = np.broadcast_to(channels, (len(elements), len(first)))
    ends = np.stack((*images, channels.ravel()))
    return _Pairs(ends, *(np.tile(column, len(elements)) for column in sums))


def _neighbours(topology: Topology, groups: Ints, place: Ints) -> Flags:
    """Which groups have a rank on a node of the first group of their place."""
    node = topology.node[topology.placement[groups]]
    near = np.zeros(len(groups), dtype=np.bool_)
    for number in np.unique(place):
        rows = np.flatnonzero(place == number)
        home = node[rows[0]]
        near[rows] = (np.isin(node[rows], home) & (node[rows] >= 0)).any(axis=1)
        near[rows[0]] = True
    return near


def _use(topology: Topology, placements: Ints, place: Ints, pairs: _Pairs) -> _Use:
    machine, count = replace(topology, placement=placements.ravel()), len(placements)
    offset = np.arange(count)[:, None] * placements.shape[1]
    sender, receiver = ((end + offset).ravel() for end in pairs.ends[:2])
    indptr, links = machine.routes(sender, receiver, np.tile(pairs.ends[2], count))
    hops, crossed = np.diff(indptr), np.diff(topology.link_indptr)[links]
    media, ends = topology.crossings(links)[1], indptr[:: pairs.ends.shape[1]]
    # A row for each crossing of a medium, and one for the work at the end of each transfer, which
    # is on a lane of the receiver.
    transfer = np.repeat(np.repeat(np.arange(len(hops)), hops), crossed)
    pair = transfer % len(pairs.nbytes)
    device = machine.placement[receiver]
    lane = np.tile(pairs.reduced, count) * topology.reduction[device]
    lane += np.tile(pairs.nbytes - pairs.reduced, count) * topology.copy[device]
    works = np.flatnonzero(lane)
    medium = np.append(media, len(topology.medium_bandwidth) + device[works])
    of_place = place[np.append(transfer, works) // len(pairs.nbytes)]
    used = np.bincount(medium) > 0
    cell = of_place * np.count_nonzero(used) + (np.cumsum(used) - 1)[medium]

    def summed(column: Floats) -> Floats:
        return np.asarray(np.bincount(cell[: len(column)], column), dtype=np.float64)

    seconds = summed(np.append(pairs.nbytes[pair] / topology.medium_bandwidth[media], lane[works]))
    # Each transfer is as busy as the busiest medium on its way, while it is the sender's turn.
    busy = np.zeros(len(hops))
    np.maximum.at(busy, transfer, seconds[cell[: len(media)]])
    at_once = (busy * np.tile(pairs.turns, count))[transfer]
    some = np.flatnonzero(seconds)
    flows = summed(np.append(at_once, lane[works]))[some] / seconds[some]
    gaps = np.zeros(len(seconds))
    if topology.medium_gap.any():
        crossings = pairs.messages[pair] * topology.medium_gap[media]
        gaps = summed(np.append(crossings, np.zeros(len(works))))
    loads = Loads(
        (some // np.count_nonzero(used)).astype(np.int32),
        np.flatnonzero(used)[some % np.count_nonzero(used)].astype(np.int32),
        seconds[some],
        gaps[some],
        np.maximum(1.0, flows),
    )
    busiest = busy.reshape(count, -1).max(axis=1, initial=0.0)
    return _Use(np.split(links, ends[1:-1]), hops.reshape(count, -1), busiest, loads, pairs.nbytes)


def _limits(topology: Topology) -> Flags:
    """Which media take time, so that transfers may wait for each other there."""
    return np.asarray(np.isfinite(topology.medium_bandwidth) | (topology.medium_gap > 0))


def _parts(topology: Topology, use: _Use, of_group: Ints) -> list[Ints]:
    """The groups of a place that share media with each other, directly or through others."""
    used, count = _limits(topology), len(use.links)
    group = np.repeat(np.arange(count), list(map(len, use.links)))
    entry = np.unique(group * len(topology.source) + np.concatenate(use.links))
    group, link = np.divmod(entry, len(topology.source))
    place, media = topology.crossings(link)
    group, medium = group[place[used[media]]], media[used[media]]
    medium += of_group[group] * len(used)
    label = np.arange(count)
    while True:
        least = np.full((int(of_group.max()) + 1) * len(used), count)
        np.minimum.at(least, medium, label[group])
        lower = label.copy()
        np.minimum.at(lower, group, least[medium])
        if (lower == label).all():
            break
        label = lower
    order = np.argsort(label, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(label[order])) + 1)


def _keys(
    topology: Topology, use: _Use, parts: list[Ints], placements: Ints
) -> list[tuple[bytes, ...]]:
    """What the times of each part depend on: the same for parts that are alike."""
    order, groups = np.concatenate(parts), np.cumsum([len(part) for part in parts])
    links = np.concatenate([use.links[group] for group in order])
    hops, device = use.hops[order], placements[order].ravel()
    media, crossed = topology.crossings(links)[1], np.diff(topology.link_indptr)[links]
    # Where the rows of each part end.
    of_devices = groups * placements.shape[1]
    of_links = np.cumsum(hops.sum(axis=1))[groups - 1]
    of_media = np.append(0, np.cumsum(crossed))[of_links]
    named = np.where(_limits(topology)[media], _renamed(media, of_media), -1)
    nodes = _renamed(topology.node[device], of_devices)
    link = topology.link_kinds.codes[links], topology.latency[links], crossed
    medium = named, topology.medium_bandwidth[media], topology.medium_gap[media]
    rank = topology.reduction[device], topology.copy[device], nodes
    tables = (groups, hops.T), (of_links, link), (of_media, medium), (of_devices, rank)
    pieces = [_pieces(end, np.column_stack([*table])) for end, table in tables]
    return list(zip(*pieces, strict=True))


def _pieces(end: Longs, rows: Floats | Ints) -> list[bytes]:
    """The rows of each part. Thousands of slices of bytes take a fraction of the time of those of
    an array."""
    whole, at = rows.tobytes(), [0, *(end * rows.strides[0]).tolist()]
    return [whole[begin:until] for begin, until in pairwise(at)]


def _renamed(numbers: Ints, ends: Longs) -> Longs:
    """Each number as the place where it first occurs in its part."""
    part = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    first, inverse = distinct_rows(part, numbers)
    return np.asarray(first[inverse] - (ends - np.diff(ends, prepend=0))[part], dtype=np.int64)


def _crowded(topology: Topology, use: _Use, group: int, place: int) -> Topology:
    """The machine as one of several groups of a place has it, if each has its share of all
    media."""
    crossed, media = topology.crossings(use.links[group])
    sizes = np.repeat(use.sizes, use.hops[group])[crossed]
    seconds = sizes / topology.medium_bandwidth[media]
    alone = np.bincount(media, seconds, len(topology.medium_bandwidth))
    mine = use.media.place == place
    total = np.bincount(use.media.medium[mine], use.media.seconds[mine], len(alone))[: len(alone)]
    times = np.divide(total, alone, where=alone > 0, out=np.ones_like(alone))
    return replace(
        topology,
        medium_bandwidth=topology.medium_bandwidth / times,
        medium_gap=topology.medium_gap * times,
    )
