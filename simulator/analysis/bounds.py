"""Lower bounds on the time of a collective on a machine: no algorithm can beat them.

A schedule may relay, merge and copy at every rank, also at ranks that are not workers. It may do so
in switches that reduce and multicast. Such a switch is one more rank in every proof: it receives
what it merges, and it sends each copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from simulator.analysis.bound_needs import (
    farthest,
    flow_between_halves,
    is_exact,
    routes_between_halves,
    weights,
)
from simulator.analysis.bound_needs import needs as needs
from simulator.collectives.collective import Collective
from simulator.collectives.roots import turned
from simulator.schedules.whole_numbers import whole_number
from topologies.capacity import concurrent_flow, congestion, stretch, tightest_cut
from topologies.columns import distinct
from topologies.cuts import End, Grouping, groupings, tree_cuts
from topologies.errors import InputError
from topologies.topology import Floats, Ints, Longs, Topology

SEARCHED_CUTS = 4_000_000
"""Workers times links up to which all cuts are searched. Beyond, only groups and halves are."""
ROUTED_FLOWS = 6000
"""Sources times links up to which the best routing of all pairs is computed."""
COUNTED_PAIRS = 1024
"""Workers up to which the links between all pairs are counted."""
HALVED_LINKS = 500_000
"""Links up to which the bytes from one half of the workers to the other are bounded."""
TIE = 1e-12
_EXCHANGES = ("all_to_all", "send_recv")
_TURNED = {
    "all_reduce": (False, True),
    "all_gather": (False,),
    "reduce_scatter": (True,),
    "broadcast": (False,),
    "reduce": (True,),
}
"""Whether cuts are looked for by what leaves (False) or by what enters, as on links that are turned
round."""


def _exchanges(collective: Collective) -> bool:
    """Whether every pair of ranks has data of its own to send."""
    if collective.pairs is not None:
        return not collective.merges
    return collective.name in _EXCHANGES


class Limit(NamedTuple):
    """A lower limit on the time of V bytes, and its cause: the higher of `fixed` seconds and
    `per_byte` * V."""

    name: str
    fixed: float
    per_byte: float


class Bound(NamedTuple):
    """A lower limit on the time, in seconds, and its cause."""

    name: str
    seconds: float


class PlacedCollective(NamedTuple):
    """A collective among the first `workers` ranks of a machine."""

    collective: Collective
    topology: Topology
    workers: int

    @property
    def devices(self) -> Ints:
        """Where the workers are, shape (workers,)."""
        return self.topology.placement[: self.workers]


Limits = tuple[tuple[Limit, ...], tuple[str, ...]]
"""All limits of a collective on a machine, and those that are not computed and might be higher."""
_COMPUTED: WeakKeyDictionary[Topology, dict[tuple[Collective, int], Limits]] = WeakKeyDictionary()
"""The limits that have been computed, as long as their topology is in use."""


def bounds(collective: Collective, topology: Topology, workers: int, nbytes: float) -> list[Bound]:
    """The bounds on `collective` of `nbytes` (V) among the first `workers` ranks. Other ranks may
    help.

    Raises InputError if `nbytes` is negative or not finite, and as :func:`limits` does.
    """
    if not 0 <= nbytes < np.inf:
        raise InputError(f"nbytes is {nbytes}: expected a finite number, 0 or more")
    return [
        Bound(name, max(fixed, per_byte * nbytes) if nbytes > 0 else fixed)
        for name, fixed, per_byte in limits(collective, topology, workers)
    ]


def best_bound(collective: Collective, topology: Topology, workers: int, nbytes: float) -> Bound:
    """The highest of the bounds, and the first of equal bounds. Raises InputError as :func:`bounds`
    does."""
    candidates = bounds(collective, topology, workers, nbytes)
    highest = max(bound.seconds for bound in candidates)
    return next(bound for bound in candidates if bound.seconds >= highest * (1 - TIE))


def limits(collective: Collective, topology: Topology, workers: int) -> tuple[Limit, ...]:
    """The bounds for any size, computed once for a topology.

    - latency: between the farthest two ranks of which one must receive data of the other.
    - injection port, ejection port: the bytes that must leave or enter a device, through all its
      links.
    - all ports: all bytes that must go from device to device, through the links of all devices.

    Further bounds count if they are higher than those:

    - between groups: as "all ports", of groups of devices that few or slow links join
      (:func:`topologies.cuts.partitions`).
    - cut: the bytes that must leave or enter a set of devices. All sets count, unless there are too
      many (:data:`SEARCHED_CUTS`).
    - best routing: the time that pairs need to exchange their bytes, on the best routes.
    - all links: the same if each pair uses the fewest links.

    Raises InputError unless `workers` is a whole number from 1 to the ranks of the topology.
    """
    return _computed(collective, topology, workers)[0]


def _computed(collective: Collective, topology: Topology, workers: int) -> Limits:
    computed = _COMPUTED.setdefault(topology, {})
    if (collective, workers) not in computed:
        machine = turned(topology, workers, collective.root) if collective.root else topology
        computed[collective, workers] = _limits(collective, machine, workers)
    return computed[collective, workers]


def _limits(collective: Collective, topology: Topology, workers: int) -> Limits:
    if not 1 <= whole_number("workers", workers) <= topology.ranks:
        ranks = f"{topology.name} has {topology.ranks} ranks, expected 1 to {topology.ranks}"
        raise InputError(f"workers are {workers}: {ranks}")
    task = PlacedCollective(collective, topology, workers)
    alone, *groups = groupings(topology)
    injection, ejection, total = _through(task, alone)
    bounds_so_far = [
        Limit("latency", farthest(collective, topology, workers), 0.0),
        Limit("injection port", 0.0, float(injection.max())),
        Limit("ejection port", 0.0, float(ejection.max())),
        Limit("all ports", 0.0, total),
    ]
    _raise(bounds_so_far, _in_groups(task, groups))
    left_out = [] if is_exact(collective, workers) else ["latency of every pair"]
    if workers * topology.links > SEARCHED_CUTS:
        is_met = topology.links <= HALVED_LINKS and _is_met(task, _highest(bounds_so_far))
        halves = [] if is_met else _cut_in_half(task, _highest(bounds_so_far))
        _raise(bounds_so_far, [*halves, *_links(task)])
        left_out += [] if is_met else _too_large(task)
    elif not _is_met(task, _highest(bounds_so_far)):
        _raise(bounds_so_far, _links(task))
        _raise(bounds_so_far, _searched(task, _highest(bounds_so_far)))
        if _exchanges(collective) and not _beyond_links(task):
            left_out += _too_large(task)
    return tuple(bounds_so_far), tuple(left_out)


def left_out(collective: Collective, topology: Topology, workers: int) -> tuple[str, ...]:
    """The bounds that :func:`limits` does not compute for so large a machine, though any of them
    may be higher than the others.

    - latency of every pair: a few pairs are looked at, which are far apart.
    - every cut, cut in half: the tightest of all cuts, and the flow between two halves.
    - best routing, all links: of all-to-all and send-receive.

    >>> from simulator.collectives.collective import ALL_REDUCE
    >>> from topologies.shapes import star
    >>> left_out(ALL_REDUCE, star(8, bandwidth=1e9), 8)
    ()
    """
    return _computed(collective, topology, workers)[1]


def _too_large(task: PlacedCollective) -> list[str]:
    """The limits of links that are not computed for so many workers and links."""
    exchanges, links = _exchanges(task.collective), task.topology.links
    sources = len(distinct(task.devices))
    names = {
        "every cut": not exchanges,
        "cut in half": links > HALVED_LINKS,
        "best routing": exchanges and sources * links > ROUTED_FLOWS,
        "all links": exchanges and task.workers > COUNTED_PAIRS,
    }
    return [name for name, missing in names.items() if missing]


def _through(task: PlacedCollective, groups: Grouping) -> tuple[Floats, Floats, float]:
    """Seconds a byte of V: out of each group of devices, into each group, and through all ports
    together.

    Data between groups leave and enter a group that has ranks. These need not be workers, since
    other ranks may relay.
    """
    need = needs(task.collective, groups.group[task.devices], groups.count)
    ways, together = [], [0.0]
    ends: tuple[tuple[End, Floats], ...] = (("source", need.leave), ("target", need.enter))
    for end, needed in ends:
        ways.append(_seconds(needed, groups.ports(task.topology, end)))
        for nbytes, members in ((needed.sum(), needed > 0), (need.total, groups.holders)):
            if nbytes > 0:
                bandwidth = groups.together(task.topology, end, members)
                together.append(float(_seconds(nbytes, bandwidth)))
    return ways[0], ways[1], max(together)


def _seconds(nbytes: npt.ArrayLike, bandwidth: npt.ArrayLike) -> Floats:
    """Seconds to move the bytes; infinite if there are bytes and no bandwidth."""
    needed, available = np.asarray(nbytes), np.asarray(bandwidth)
    seconds = np.where(needed == 0, 0.0, np.inf)
    np.divide(needed, available, out=seconds, where=(needed != 0) & (available > 0))
    return seconds


def _in_groups(task: PlacedCollective, partitions: Iterable[Grouping]) -> Iterator[Limit]:
    """Limits of the data that must leave and enter the groups of each partition."""
    for groups in partitions:
        workers = np.bincount(groups.group[task.devices], minlength=groups.count)
        leave, enter, total = _through(task, groups)
        worst = np.maximum(leave, enter)
        yield _cut(task, int(workers[worst.argmax()]), float(worst.max()))
        yield Limit(f"between {np.count_nonzero(workers)} groups", 0.0, total)


def _cut(task: PlacedCollective, workers: int, per_byte: float) -> Limit:
    return Limit(f"cut of {workers} of {task.workers} ranks", 0.0, per_byte)


def _raise(bounds_so_far: list[Limit], further: Iterable[Limit]) -> None:
    """Add the highest of `further` limits if it is higher than all so far."""
    candidates = list(further)
    highest = _highest([*bounds_so_far, *candidates])
    if highest > _highest(bounds_so_far) * (1 + TIE):
        bounds_so_far.append(
            next(limit for limit in candidates if limit.per_byte >= highest * (1 - TIE))
        )


def _highest(candidates: Iterable[Limit]) -> float:
    return max(limit.per_byte for limit in candidates)


def _is_met(task: PlacedCollective, per_byte: float) -> bool:
    """Whether a plain schedule takes no more than `per_byte` if its pieces are small enough. Then
    no bound is higher."""
    return any(
        share * congestion(task.topology, *pairs) <= per_byte * (1 + TIE)
        for share, pairs in _plain_schedules(task)
    )


def _plain_schedules(task: PlacedCollective) -> Iterator[tuple[float, tuple[Longs, Longs]]]:
    """Pairs that send to each other, and the share of V that each pair sends.

    The first schedule is a ring in both directions. It passes (p - 1)/p of V on, or the data of the
    root. The second is all to all, if its routes are few and easy to find. It hands out a p-th to
    each rank, or a part of the data of the root. An all-reduce does either twice: it collects V and
    spreads it.
    """
    ranks, rank, name = task.workers, np.arange(task.workers), task.collective.name
    rooted = "broadcast", "reduce", "scatter", "gather"
    if name not in (*_EXCHANGES, "all_reduce", "all_gather", "reduce_scatter", *rooted):
        return
    twice, from_root = 1 + (name == "all_reduce"), name in ("broadcast", "reduce")
    source, target = np.tile(rank, 2), np.concatenate((np.roll(rank, -1), np.roll(rank, 1)))
    if name == "send_recv":
        yield 1.0, (source[:ranks], target[:ranks])
    elif from_root:
        chosen = (target if name == "broadcast" else source) > 0
        yield 1 / 2, (source[chosen], target[chosen])
    elif name not in ("all_to_all", "scatter", "gather"):
        yield twice * (ranks - 1) / ranks / 2, (source, target)
    if name not in ("send_recv", "scatter", "gather") and ranks <= COUNTED_PAIRS and _near(task):
        yield (
            twice / max(1, ranks - from_root),
            np.divmod(np.flatnonzero(~np.eye(ranks, dtype=np.bool_)), ranks),
        )


def _near(task: PlacedCollective) -> bool:
    """Whether the workers are all neighbours, or all lead to one hub only: their routes need no
    search."""
    topology, devices = task.topology, distinct(task.devices)
    ours = np.isin(topology.source, devices)
    between = np.isin(topology.target[ours], devices)
    return bool(
        between.sum() == len(devices) * (len(devices) - 1)
        or len(distinct(topology.target[ours])) == 1
    )


def _searched(task: PlacedCollective, above: float) -> Iterator[Limit]:
    """The tightest of all cuts, or the best routing."""
    exchanges = _exchanges(task.collective)
    if groups := _beyond_links(task):
        yield from _in_groups(task, groups)
    elif exchanges and len(distinct(task.devices)) * task.topology.links <= ROUTED_FLOWS:
        yield Limit("best routing", 0.0, concurrent_flow(task.topology, *_pairs(task)))
    elif exchanges:
        yield from _cut_in_half(task, above)
    else:
        yield from _tightest(task, above)


def _beyond_links(task: PlacedCollective) -> list[Grouping]:
    """What each link of a tree separates. There is none where links share a medium."""
    if task.topology.shared_names:
        return []
    beyond = tree_cuts(task.topology)
    return [Grouping(task.topology, row.astype(np.int32)) for row in beyond]


def _tightest(task: PlacedCollective, above: float) -> Iterator[Limit]:
    """The tightest of all cuts around the devices that must send their shards, or must send or
    receive the data of the root.

    In an all-reduce every rank learns of rank 0, and rank 0 of every rank. A cut between any two
    ranks also separates one of them from rank 0. With all links reversed, a reduce-scatter is an
    all-gather and a reduce is a broadcast.
    """
    devices, name, count = task.devices, task.collective.family, len(task.topology.device_names)
    shards = weights(task.collective, devices, count)
    root = (np.arange(count) == devices[0]).astype(np.float64)
    weight = shards if name in ("all_gather", "reduce_scatter") else root
    for reverse in _TURNED.get(name, ()):
        if cut := tightest_cut(
            task.topology, weight, distinct(devices), reverse=reverse, above=above
        ):
            above = float(_seconds(weight[cut.inside].sum(), cut.bandwidth))
            yield _cut(task, int(cut.inside[devices].sum()), above)


def _cut_in_half(task: PlacedCollective, above: float) -> Iterator[Limit]:
    """The bytes that the first half of the workers and the second must send each other, if their
    routes alone may take more than `above` seconds a byte."""
    later = (np.arange(task.workers) >= task.workers // 2).astype(np.int32)
    need = needs(task.collective, later, 2)
    for nbytes, back in ((need.leave[0], False), (need.enter[0], True)):
        if nbytes == 0 or task.topology.links > HALVED_LINKS:
            continue
        ways = task.topology, task.workers, back
        if _seconds(nbytes, routes_between_halves(*ways)) > above:
            bandwidth = flow_between_halves(*ways)
            yield _cut(task, task.workers // 2, float(_seconds(nbytes, bandwidth)))


def _links(task: PlacedCollective) -> Iterator[Limit]:
    """The bytes of all pairs, each times its fewest links, over the bandwidth of all links."""
    if _exchanges(task.collective) and task.workers <= COUNTED_PAIRS:
        prices = np.ones(len(task.topology.medium_bandwidth))
        yield Limit("all links", 0.0, stretch(task.topology, *_pairs(task), prices))


def _pairs(task: PlacedCollective) -> tuple[Ints, Floats]:
    """The devices of workers, and the bytes from one to another in units of V: to all devices, to
    the device of the next rank, or as the pairs of the collective say."""
    devices, place = np.unique(task.devices, return_inverse=True)
    demand = np.zeros((len(devices), len(devices)))
    if task.collective.pairs is not None:
        source, target, share = task.collective.pairs(task.workers)
        np.add.at(demand, (place[source], place[target]), share)
    elif task.collective.name == "all_to_all":
        np.add.at(demand, (place[:, None], place), 1 / task.workers)
    else:
        np.add.at(demand, (place, np.roll(place, -1)), 1.0)
    return devices, demand
