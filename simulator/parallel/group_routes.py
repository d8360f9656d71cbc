"""The routes of a collective that all groups of a kind run at once.

Groups that share no medium do not meet: they are parts of their own. Parts that are alike, up to
the names of ranks and media, take as long, so that one of them is enough.
"""

from __future__ import annotations

from collections.abc import Callable
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


@dataclass(frozen=True, eq=False)
class Laid:
    """A collective of all groups on the machine."""

    algorithm: Algorithm
    ranks: int
    """The ranks of a group."""
    least: float
    """How long the busiest medium is busy, for V = 1 byte. The collective takes no less."""
    write: Callable[[], list[Routed]] = field(repr=False)
    """Writes `parts`."""

    @cached_property
    def parts(self) -> list[Routed]:
        """Groups that meet, for V = 1 byte. Parts that are alike are left out."""
        return self.write()


class _Use(NamedTuple):
    """The links that each group crosses, in the order of its transfers."""

    links: list[Ints]
    hops: list[Ints]
    """The number of links of each transfer."""
    seconds: list[Floats]
    """How long the bytes of all groups keep each medium of each group busy, for V = 1 byte, at
    least. The media are those of `links`."""
    total: Floats
    """The bytes of all groups over each medium of the machine."""
    sizes: Floats
    """The bytes of each transfer of a group."""


def lay(algorithm: Algorithm, topology: Topology, groups: Ints, *, merges: bool = False) -> Laid:
    """The parts of a machine on which `groups`, shape (groups, ranks), run an algorithm.

    All groups have the schedule of the first one. With `merges` reductions may take time later.
    Raises InputError if there are too many operations.
    """
    first = _machine(topology, groups[0])
    size, folded = groups.shape[1], None
    if estimate(algorithm, size) > FEW:
        folded = fold(algorithm, first, size, merges=merges)
    if folded is None:
        _check(algorithm, size, estimate(algorithm, size))
    fitted = algorithm.on(first, size, 1.0) if folded is None else folded.fitted
    pairs, sizes = _pairs(fitted.schedule)
    if pairs.shape[1] * len(groups) > ROUTES:
        groups = _neighbours(topology, groups)
    placements = [_placement(algorithm, topology, group, fitted) for group in groups]
    use = _use(topology, placements, pairs, sizes)
    parts = _parts(topology, use)
    first_of = dict(zip(_keys(topology, use, parts, placements)[::-1], parts[::-1], strict=True))
    busiest = sorted(first_of.values(), key=lambda part: -_load(use, part))[:PARTS]
    laid = [
        _Part(algorithm, topology, [placements[member] for member in part], merges)
        for part in busiest
    ]

    def write() -> list[Routed]:
        return [part.routed(fitted, use, of) for part, of in zip(laid, busiest, strict=True)]

    return Laid(algorithm, size, _load(use, busiest[0]), write)


class _Part(NamedTuple):
    """Groups that meet."""

    algorithm: Algorithm
    topology: Topology
    placements: list[Ints]
    """The devices of each group."""
    merges: bool

    def routed(self, fitted: Fitted, use: _Use, members: Ints) -> Routed:
        """The schedules of the groups as one. If there are too many operations, that of the group
        with the busiest medium, where it has its share of each medium."""
        child, count = fitted.schedule, len(members)
        if len(child) * child.members * count <= MOST and (count > 1 or child.fold is None):
            whole = child if child.fold is None else self._whole(self.topology, 0).schedule
            machine = replace(self.topology, placement=_joined(whole, self.placements))
            return route(side_by_side(whole, count), machine)
        busiest = int(np.argmax([use.seconds[member].max(initial=0.0) for member in members]))
        machine = _crowded(self.topology, use, int(members[busiest]))
        placement = self.placements[busiest]
        if child.fold is not None:
            machine = replace(machine, placement=placement)
            folded = fold(self.algorithm, machine, child.workers, merges=self.merges)
            if folded is not None:
                return folded.routed
        _check(self.algorithm, child.workers, len(child) * child.members)
        return route(*self._whole(machine, busiest)[:2])

    def _whole(self, topology: Topology, group: int) -> Fitted:
        """What the algorithm does in a group, not folded."""
        machine = replace(topology, placement=self.placements[group])
        return self.algorithm.on(machine, len(self.placements[group]), 1.0)


def _check(algorithm: Algorithm, ranks: int, operations: float) -> None:
    if operations > MOST:
        raise InputError(
            f"{algorithm.name}: {operations:.0f} operations of {ranks} ranks are too many to "
            f"simulate: take another algorithm"
        )


def _machine(topology: Topology, group: Ints) -> Topology:
    return replace(topology, placement=topology.placement[group])


def _joined(child: Schedule, placements: list[Ints]) -> Ints:
    """The devices of the workers of all groups, then those of their switches."""
    workers = [each[: child.workers] for each in placements]
    return np.concatenate([*workers, *(each[child.workers :] for each in placements)])


def _placement(algorithm: Algorithm, topology: Topology, group: Ints, fitted: Fitted) -> Ints:
    """The devices of a group, with the switches that its algorithm takes."""
    schedule = fitted.schedule
    if schedule.ranks > schedule.workers:
        machine = algorithm.on(_machine(topology, group), len(group), 1.0).topology
        return machine.placement[: schedule.ranks]
    return topology.placement[group]


def _pairs(schedule: Schedule) -> tuple[Longs, Floats]:
    """Sender, receiver and channel of all transfers, each once, shape (3, pairs), and the bytes
    that each pair sends."""
    remote = schedule.remote
    rows = [column[remote].astype(np.int64) for column in (schedule.rank, schedule.peer)]
    channel = schedule.lane[remote].astype(np.int64)
    key = (channel * schedule.ranks + rows[0]) * schedule.ranks + rows[1]
    key, number = np.unique(key, return_inverse=True)
    sizes: Floats = np.bincount(number, schedule.nbytes[remote]).astype(np.float64)
    pair, receiver = np.divmod(key, schedule.ranks)
    channel, sender = np.divmod(pair, schedule.ranks)
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


def _use(topology: Topology, placements: list[Ints], pairs: Longs, sizes: Floats) -> _Use:
    devices = np.stack(placements)
    machine = replace(topology, placement=devices.ravel())
    offset = np.arange(len(devices))[:, None] * devices.shape[1]
    indptr, links = machine.routes(
        (pairs[0] + offset).ravel(), (pairs[1] + offset).ravel(), np.tile(pairs[2], len(devices))
    )
    hops, crossed = np.diff(indptr), np.diff(topology.link_indptr)[links]
    media = topology.crossings(links)[1]
    nbytes = np.repeat(np.repeat(np.tile(sizes, len(devices)), hops), crossed)
    total: Floats = np.bincount(media, nbytes, len(topology.medium_bandwidth)).astype(np.float64)
    ends = indptr[:: pairs.shape[1]]
    of_media = np.concatenate(([0], np.cumsum(crossed)))[ends]
    return _Use(
        np.split(links, ends[1:-1]),
        np.split(hops, len(devices)),
        np.split((total / topology.medium_bandwidth)[media], of_media[1:-1]),
        total,
        sizes,
    )


def _load(use: _Use, part: Ints) -> float:
    """How long the busiest medium of a part is busy."""
    return max(float(use.seconds[group].max(initial=0.0)) for group in part)


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


def _keys(topology: Topology, use: _Use, parts: list[Ints], placements: list[Ints]) -> list[bytes]:
    """What the times of each part depend on: the same for parts that are alike."""
    order = np.concatenate(parts)
    links, hops, device = (
        np.concatenate([each[group] for group in order])
        for each in (use.links, use.hops, placements)
    )
    media, crossed = topology.crossings(links)[1], np.diff(topology.link_indptr)[links]

    def ends(lengths: list[int]) -> Longs:
        """Where the rows of each part end, from the rows of each group."""
        per_part = np.cumsum([len(part) for part in parts])
        return np.asarray(np.concatenate(([0], np.cumsum(lengths)))[per_part], dtype=np.int64)

    of_links = ends([len(use.links[group]) for group in order])
    of_hops = ends([len(use.hops[group]) for group in order])
    of_devices = ends([len(placements[group]) for group in order])
    of_media = np.concatenate(([0], np.cumsum(crossed)))[of_links].astype(np.int64)
    named = np.where(_limits(topology)[media], _renamed(media, of_media), -1)
    columns: list[tuple[Longs, list[npt.NDArray[np.generic]]]] = [
        (of_hops, [hops]),
        (of_links, [topology.link_kinds.codes[links], topology.latency[links], crossed]),
        (of_media, [named, topology.medium_bandwidth[media], topology.medium_gap[media]]),
        (of_devices, [topology.reduction[device], topology.copy[device]]),
        (of_devices, [_renamed(topology.node[device], of_devices)]),
    ]

    def pieces(column: npt.NDArray[np.generic], end: Longs) -> list[bytes]:
        """The bytes of each part. Thousands of slices of bytes take a fraction of the time of
        those of an array."""
        whole, at = column.tobytes(), [0, *(end * column.itemsize).tolist()]
        return [whole[begin:until] for begin, until in pairwise(at)]

    split = [pieces(column, end) for end, each in columns for column in each]
    return [
        b"|".join([bytes([len(part) % 256]), *each])
        for part, *each in zip(parts, *split, strict=True)
    ]


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
