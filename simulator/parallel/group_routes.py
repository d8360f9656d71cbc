"""The routes of a collective that all groups of a kind run at once.

Groups that share no medium do not meet: they are parts of their own. Parts that are alike, up to
the names of ranks and media, take as long, so that one of them is enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.collectives.collective import Algorithm, Fitted
from simulator.collectives.operation_counts import estimate
from simulator.collectives.symmetry import fold
from simulator.schedules.routed import Routed, route
from simulator.schedules.schedule import Schedule
from simulator.steps.side_by_side import side_by_side
from topologies.errors import InputError
from topologies.topology import Floats, Ints, Topology

FEW = 4096
"""Operations of a group that are sooner simulated than folded."""
MOST = 2.0**21
"""Operations of a part that are simulated, at most."""
ROUTES = 2**18
"""Routes of all groups that are compared, at most. Beyond, the groups on the nodes of the first
group stand for all."""
PARTS = 4
"""Parts that are simulated, at most: those with the busiest media."""
Longs = npt.NDArray[np.int64]


class _Use(NamedTuple):
    """The links that each group crosses, in the order of its transfers."""

    links: list[Ints]
    hops: Ints
    """The number of links of each transfer, shape (groups, transfers)."""
    busy: Floats
    """How long the bytes of all groups keep the busiest medium of each group busy, for V = 1 byte,
    at least."""
    total: Floats
    """The bytes of all groups over each medium of the machine."""
    sizes: Floats
    """The bytes of each transfer of a group."""


@dataclass(frozen=True, eq=False)
class Laid:
    """A collective of all groups on the machine."""

    algorithm: Algorithm
    topology: Topology
    merges: bool
    fitted: Fitted
    """What the algorithm does in the first group."""
    placements: Ints
    """The devices of each group, with the switches that its algorithm takes."""
    use: _Use = field(repr=False)
    members: list[Ints]
    """The groups of each part; the part with the busiest medium comes first."""

    @property
    def ranks(self) -> int:
        """The ranks of a group."""
        return self.fitted.schedule.workers

    @cached_property
    def least(self) -> float:
        """How long the busiest medium is busy, for V = 1 byte. The collective takes no less."""
        return float(self.use.busy[self.members[0]].max())

    @cached_property
    def parts(self) -> list[Routed]:
        """Groups that meet, for V = 1 byte. Parts that are alike are left out."""
        return [self._routed(members) for members in self.members]

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
        machine = _crowded(self.topology, self.use, busiest)
        if child.fold is not None:
            machine = replace(machine, placement=self.placements[busiest])
            folded = fold(self.algorithm, machine, child.workers, merges=self.merges)
            if folded is not None:
                return folded.routed
        _check(self.algorithm, child.workers, len(child) * child.members)
        return route(*self._whole(machine, busiest)[:2])

    def _whole(self, topology: Topology, group: int) -> Fitted:
        """What the algorithm does in a group, not folded."""
        machine = replace(topology, placement=self.placements[group])
        return self.algorithm.on(machine, len(machine.placement), 1.0)


def lay(algorithm: Algorithm, topology: Topology, groups: Ints, *, merges: bool = False) -> Laid:
    """The parts of a machine on which `groups`, shape (groups, ranks), run an algorithm.

    All groups have the schedule of the first one. With `merges` reductions may take time later.
    Raises InputError if there are too many operations.
    """
    first, size, folded = _machine(topology, groups[0]), groups.shape[1], None
    if estimate(algorithm, size) > FEW:
        folded = fold(algorithm, first, size, merges=merges)
    if folded is None:
        _check(algorithm, size, estimate(algorithm, size))
    fitted = algorithm.on(first, size, 1.0) if folded is None else folded.fitted
    pairs, sizes = _pairs(fitted.schedule)
    if pairs.shape[1] * len(groups) > ROUTES:
        groups = _neighbours(topology, groups)
    placements = _placements(algorithm, topology, groups, fitted)
    use = _use(topology, placements, pairs, sizes)
    parts = _parts(topology, use)
    first_of = dict(zip(_keys(topology, use, parts, placements)[::-1], parts[::-1], strict=True))
    busiest = sorted(first_of.values(), key=lambda part: -use.busy[part].max())[:PARTS]
    return Laid(algorithm, topology, merges, fitted, placements, use, busiest)


def _check(algorithm: Algorithm, ranks: int, operations: float) -> None:
    if operations > MOST:
        raise InputError(
            f"{algorithm.name}: {operations:.0f} operations of {ranks} ranks are too many to "
            f"simulate: take another algorithm"
        )


def _machine(topology: Topology, group: Ints) -> Topology:
    return replace(topology, placement=topology.placement[group])


def _placements(algorithm: Algorithm, topology: Topology, groups: Ints, fitted: Fitted) -> Ints:
    """The devices of each group, with the switches that its algorithm takes."""
    ranks, workers = fitted.schedule.ranks, fitted.schedule.workers
    if ranks == workers:
        return topology.placement[groups]
    machines = (algorithm.on(_machine(topology, group), workers, 1.0) for group in groups)
    return np.stack([each.topology.placement[:ranks] for each in machines])


def _pairs(schedule: Schedule) -> tuple[Longs, Floats]:
    """Sender, receiver and channel of all transfers, each once, shape (3, pairs), and the bytes
    that each pair sends."""
    remote = schedule.remote
    ends = schedule.lane[remote], schedule.rank[remote], schedule.peer[remote]
    shape = int(ends[0].max(initial=0)) + 1, schedule.ranks, schedule.ranks
    key, number = np.unique(np.ravel_multi_index(ends, shape), return_inverse=True)
    sizes: Floats = np.bincount(number, schedule.nbytes[remote]).astype(np.float64)
    channel, sender, receiver = np.unravel_index(key, shape)
    if schedule.fold is None:
        return np.stack((sender, receiver, channel)), sizes
    shifts, elements = schedule.fold.shifts, schedule.fold.shifts.elements[:, None]
    images = [shifts.shifted(rank[None, :], elements).ravel() for rank in (sender, receiver)]
    channels = shifts.slots_shifted(channel[None, :], elements, schedule.fold.channels)
    channels = np.broadcast_to(channels, (len(elements), len(key)))
    return np.stack((*images, channels.ravel())), np.tile(sizes, len(elements))


def _neighbours(topology: Topology, groups: Ints) -> Ints:
    """The groups with a rank on a node of the first group."""
    node = topology.node[topology.placement[groups]]
    near = np.isin(node, node[0]) & (node >= 0)
    near[0] = True
    return groups[near.any(axis=1)]


def _use(topology: Topology, placements: Ints, pairs: Longs, sizes: Floats) -> _Use:
    machine, count = replace(topology, placement=placements.ravel()), len(placements)
    offset = np.arange(count)[:, None] * placements.shape[1]
    sender, receiver = ((end + offset).ravel() for end in pairs[:2])
    indptr, links = machine.routes(sender, receiver, np.tile(pairs[2], count))
    hops, crossed = np.diff(indptr), np.diff(topology.link_indptr)[links]
    media, ends = topology.crossings(links)[1], indptr[:: pairs.shape[1]]
    nbytes = np.repeat(np.repeat(np.tile(sizes, count), hops), crossed)
    total: Floats = np.bincount(media, nbytes, len(topology.medium_bandwidth)).astype(np.float64)
    of_group = np.repeat(np.repeat(np.arange(count), np.diff(ends)), crossed)
    busy = np.zeros(count)
    np.maximum.at(busy, of_group, (total / topology.medium_bandwidth)[media])
    return _Use(np.split(links, ends[1:-1]), hops.reshape(count, -1), busy, total, sizes)


def _limits(topology: Topology) -> npt.NDArray[np.bool_]:
    """Which media take time, so that transfers may wait for each other there."""
    return np.asarray(np.isfinite(topology.medium_bandwidth) | (topology.medium_gap > 0))


def _parts(topology: Topology, use: _Use) -> list[Ints]:
    """The groups that share media with each other, directly or through others."""
    used, count = _limits(topology), len(use.links)
    group = np.repeat(np.arange(count), list(map(len, use.links)))
    entry = np.unique(group * len(topology.source) + np.concatenate(use.links))
    group, link = np.divmod(entry, len(topology.source))
    place, media = topology.crossings(link)
    group, medium = group[place[used[media]]], media[used[media]]
    label = np.arange(count)
    while True:
        least = np.full(len(used), count)
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


def _pieces(end: Longs, rows: npt.NDArray[np.generic]) -> list[bytes]:
    """The rows of each part. Thousands of slices of bytes take a fraction of the time of those of
    an array."""
    whole, at = rows.tobytes(), [0, *(end * rows.strides[0]).tolist()]
    return [whole[begin:until] for begin, until in pairwise(at)]


def _renamed(numbers: Ints, ends: Longs) -> Longs:
    """Each number as the place where it first occurs in its part."""
    part = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    key = part * (int(numbers.max(initial=0)) + 2) + numbers + 1
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return np.asarray(first[inverse] - (ends - np.diff(ends, prepend=0))[part], dtype=np.int64)


def _crowded(topology: Topology, use: _Use, group: int) -> Topology:
    """The machine as one of several groups has it, if each has its share of all media."""
    links = use.links[group]
    place, media = topology.crossings(links)
    alone = np.bincount(media, np.repeat(use.sizes, use.hops[group])[place], len(use.total))
    times = np.divide(use.total, alone, where=alone > 0, out=np.ones_like(alone))
    return replace(
        topology,
        medium_bandwidth=topology.medium_bandwidth / times,
        medium_gap=topology.medium_gap * times,
    )
