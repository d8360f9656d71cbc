"""A machine as a graph with bandwidths between nodes: its least cuts, the bandwidth at which all
trees fit between the links, and how much of each link trees use at most.

The last is a linear program over cuts. A node that is no rank passes on what it gets, once. So what
enters it equals what leaves it. Cuts join the program one by one, until none has too little room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from topologies._flow_kernels import least_flow
from topologies.capacity import arcs, flow_edges
from topologies.jit import kernel
from topologies.topology import Flags, Floats, Longs, Topology

LARGEST_CAPACITY = 2**20
"""The most units of a capacity: more than all trees of a machine together."""


def least_cut(
    capacity: Longs,
    sources: Sequence[int],
    sinks: Longs,
    most: int,
    *,
    drains: Sequence[int] = (),
    enough: int = -1,
) -> tuple[int, Flags]:
    """The least number of units that can flow from some nodes to one of the `sinks` together with
    `drains`, at most `most`, and the nodes on the side of the sources, shape (nodes,).

    Sinks are asked in order, until the flow is no more than `enough`. The one with the least flow
    moves to the front. No sink may be the only one that is a source.

    >>> int(least_cut(np.array([[0, 3, 0], [0, 0, 2], [0, 0, 0]]), [0], np.array([2]), 9)[0])
    2
    """
    leads = capacity > 0
    key = np.flatnonzero(leads | leads.T)
    graph, room = arcs(key, len(capacity)), capacity.ravel()[key]
    inside = np.zeros(len(capacity), dtype=np.int8)
    ends = np.array(sources, dtype=np.int64), np.array(drains, dtype=np.int64)
    find = kernel(least_flow, len(room) * len(sinks))
    return find(graph, room, ends, sinks, (enough, most), inside), inside.astype(np.bool_)


def with_source(capacity: Longs, supply: Longs) -> Longs:
    """The capacities with one node more, which feeds each node with `supply`."""
    joined = np.zeros((len(capacity) + 1, len(capacity) + 1), dtype=np.int64)
    joined[:-1, :-1], joined[-1, :-1] = capacity, supply
    return joined


def wiring(topology: Topology) -> Floats:
    """Bytes/s from node to node, shape (nodes, nodes): the devices, and two nodes for each medium
    that links share.

    Where a path through the nodes of these media would not be a link, there are devices alone, and
    each link has an equal part of its media.

    >>> from topologies.shapes import line
    >>> wiring(line(2, bandwidth=1.0)).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    devices, media = len(topology.device_names), len(topology.shared_names)
    if _is_complete(topology):
        tail, head, room = flow_edges(topology, topology.source, topology.target)
        room = room.copy()
        # The wire of a link limits its first edge.
        room[: len(room) - media][tail[: len(room) - media] >= devices] = np.inf
        bandwidth = np.zeros((devices + 2 * media,) * 2)
        np.add.at(bandwidth, (tail, head), room)
        return bandwidth
    users = np.bincount(topology.link_media, minlength=len(topology.medium_bandwidth))
    part = (topology.medium_bandwidth / np.maximum(users, 1))[topology.link_media]
    bandwidth = np.zeros((devices, devices))
    bandwidth[topology.source, topology.target] = np.minimum.reduceat(
        part, topology.link_indptr[:-1]
    )
    return bandwidth


def _is_complete(topology: Topology) -> bool:
    """Whether what enters a medium on one link may leave it to the end of any other."""
    crossing: dict[int, set[int]] = {}
    for link in range(topology.links):
        for medium in topology.media_of(link)[1:].tolist():
            crossing.setdefault(medium, set()).add(link)
    for members in map(list, crossing.values()):
        senders, receivers = ({*ends[members]} for ends in (topology.source, topology.target))
        if len(members) < len(senders) * len(receivers) - len(senders & receivers):
            return False
    return True


QUOTIENT_ERROR = 1e-12
"""The relative error of a quotient of two bandwidths."""


class TreeUnit(NamedTuple):
    """The trees of a machine, counted."""

    bandwidth: float
    """Bytes/s of a tree."""
    trees: Longs
    """The trees from each node, shape (nodes,)."""
    capacity: Longs
    """The trees for which there is room from node to node, shape (nodes, nodes)."""


def unit(bandwidth: Floats, trees: Longs, sinks: Flags, most: float) -> TreeUnit:
    """The greatest bandwidth, at most `most`, of so many `trees` from each node to all `sinks`.

    A cut has room for ⌊β/y⌋ trees of bandwidth y on each link. A cut that has too little room
    for the trees from its nodes tells the next lower y to try (Newton's method, exact in its last
    step). It is 0 if no link leads out of some roots.
    """
    total, y = int(trees.sum()), most
    while True:
        capacity = whole(bandwidth, y, total)
        room, inside = _from_roots(capacity, trees, np.flatnonzero(sinks)[::-1].copy())
        if room >= total:
            return TreeUnit(y, trees, capacity)
        y = min(_of_cut(bandwidth, inside, int(trees[inside].sum())), y * (1 - QUOTIENT_ERROR))
        if y == 0.0:
            return TreeUnit(y, trees, np.zeros_like(capacity))


def whole(bandwidth: Floats, y: float, unlimited: int) -> Longs:
    """How often y goes into each bandwidth; `unlimited` times into one without limit.

    >>> whole(np.array([0.0, 1.0, 2.5, np.inf]), 1.0, 9).tolist()
    [0, 1, 2, 9]
    """
    times = np.where(np.isinf(bandwidth), unlimited, np.floor(bandwidth / y * (1 + QUOTIENT_ERROR)))
    return np.minimum(times, LARGEST_CAPACITY).astype(np.int64)


def is_spanned(capacity: Longs, trees: Longs, sinks: Flags) -> bool:
    """Whether so many trees from each node reach all `sinks`."""
    return _from_roots(capacity, trees, np.flatnonzero(sinks))[0] >= int(trees.sum())


def _from_roots(capacity: Longs, trees: Longs, sinks: Longs) -> tuple[int, Flags]:
    """The room for trees to a sink that has too little, and the nodes on the side of the roots."""
    total = int(trees.sum())
    graph = with_source(capacity, trees)
    room, inside = least_cut(graph, [len(capacity)], sinks, total, enough=total - 1)
    return room, inside[:-1]


def _of_cut(bandwidth: Floats, inside: Flags, trees: int) -> float:
    """The greatest bandwidth of a tree at which so many leave the nodes `inside`."""
    crossing = bandwidth[np.ix_(inside, ~inside)].ravel()
    crossing = crossing[crossing > 0]
    needed = trees - LARGEST_CAPACITY * int(np.isinf(crossing).any())
    if not len(crossing) or needed <= 0:
        return 0.0 if not len(crossing) else np.inf
    rooms = crossing[:, None] / np.arange(1, trees + 1)
    return float(np.partition(rooms.ravel(), -trees)[-trees])


CUT_UNITS = 2**26
"""The units in which the program's solution is counted to find cuts."""
PROGRAM_ENTRIES = 10_000_000
"""Entries of the programs that are solved one after the other, all together: about five seconds.
Random networks of 16 ranks need a fifth of them at most."""
SOLUTION_ERROR = 1e-9
"""The relative error of a solution."""


class Usage(NamedTuple):
    """The solution of the program."""

    bandwidths: tuple[Floats, ...]
    """Bytes/s from node to node in each direction, shape (nodes, nodes). The second direction is
    towards the roots, on links turned round."""
    roots: Floats
    """Bytes/s of the trees of each node."""

    @property
    def raised(self) -> list[Floats]:
        """The bandwidths, raised by the relative error of the program, so that rounding down does
        not lose a tree."""
        return [bandwidth * (1 + SOLUTION_ERROR) for bandwidth in self.bandwidths]


def is_balanced(bandwidth: Floats, sinks: Flags) -> bool:
    """Whether every node that is no sink can send as much as it can receive."""
    into, out = bandwidth.sum(axis=0)[~sinks], bandwidth.sum(axis=1)[~sinks]
    return bool(np.allclose(into, out, rtol=1e-12))


def usage(
    bandwidth: Floats,
    sinks: Flags,
    weight: Floats | None = None,
    *,
    both: bool = False,
    wanted: float = 0.0,
    alike: tuple[float, ...] = (),
) -> Usage:
    """The bandwidths at which trees carry most from their roots to all sinks.

    Roots share the bytes by `weight`, or as is best. With `both`, as many bytes also go on trees
    towards the same roots, over the same links. A solution of less than `wanted` bytes/s may miss
    cuts, and so may one that takes more than some seconds to find. If the bytes/s of equal shares
    in each direction are given as `alike`, the program begins with their cuts, which leave it far
    less to look for.
    """
    program = _Program(bandwidth, sinks, weight, 2 if both else 1)
    program.add_cuts_of_equal_shares(bandwidth, alike)
    entries = 0
    while True:
        solution, entries = program.solve(), entries + program.entries
        if float(solution.roots.sum()) < wanted or entries > PROGRAM_ENTRIES:
            return solution
        if not program.add_cuts(solution):
            return solution


class _Program:
    """Variables: for each direction the use of each edge, then the rate of each root, which the
    weights multiply."""

    def __init__(
        self, bandwidth: Floats, sinks: Flags, weight: Floats | None, directions: int
    ) -> None:
        finite = np.isfinite(bandwidth)
        most = 2 * float(bandwidth[finite].sum()) or 1.0
        self.tail, self.head = np.nonzero(bandwidth)
        self.sinks, self.directions = sinks, directions
        self.scale = most / 2
        self.room = np.minimum(bandwidth[self.tail, self.head], most) / self.scale
        members = np.flatnonzero(sinks)
        self.share = np.zeros((len(sinks), len(members) if weight is None else 1))
        if weight is None:
            self.share[members, np.arange(len(members))] = 1.0
        else:
            self.share[:, 0] = weight
        self.rows: list[Floats] = []
        self.seen: set[bytes] = set()
        for sink in members.tolist():
            for direction in range(directions):
                only = np.arange(len(sinks)) == sink
                self._add(direction, ~only)
                if self.share[sink].any() and len(members) > 1:
                    self._add(direction, only)

    @property
    def entries(self) -> int:
        """The entries of the program's cuts."""
        return len(self.rows) * self.directions * len(self.tail)

    def _ends(self, direction: int) -> tuple[Any, Any]:
        return (self.head, self.tail) if direction else (self.tail, self.head)

    def _add(self, direction: int, inside: Flags) -> bool:
        """A cut: what leaves the nodes `inside` is at least what their roots have."""
        key = bytes([direction]) + inside.tobytes()
        if key in self.seen:
            return False
        self.seen.add(key)
        edges = len(self.tail)
        row = np.zeros(self.directions * edges + self.share.shape[1])
        tail, head = self._ends(direction)
        row[direction * edges : (direction + 1) * edges] = np.where(
            inside[tail] & ~inside[head], -1.0, 0.0
        )
        row[self.directions * edges :] = self.share[inside].sum(axis=0)
        self.rows.append(row)
        return True

    def add_cuts(self, solution: Usage) -> bool:
        """Add the cuts that have too little room for the solution: whether there are any."""
        added = [self._add(direction, cut) for direction, cut in self._lacking(solution)]
        return any(added)

    def add_cuts_of_equal_shares(self, bandwidth: Floats, alike: tuple[float, ...]) -> None:
        """Add the cuts that have too little room for slightly more than so many bytes/s."""
        for total in alike:
            # Slightly more than the limit, to find the cuts that limit.
            roots = np.where(self.sinks, total * 1.01 / np.count_nonzero(self.sinks), 0.0)
            self.add_cuts(Usage((bandwidth, bandwidth.T)[: self.directions], roots))

    def _lacking(self, solution: Usage) -> Iterator[tuple[int, Flags]]:
        total = float(solution.roots.sum())
        if not total:
            return
        for direction, bandwidth in enumerate(solution.bandwidths):
            units = np.rint(np.minimum(bandwidth / total, 1.0) * CUT_UNITS).astype(np.int64)
            graph = with_source(units, np.rint(solution.roots / total * CUT_UNITS).astype(np.int64))
            for sink in np.flatnonzero(self.sinks).tolist():
                room, inside = least_cut(graph, [len(units)], np.array([sink]), CUT_UNITS)
                # A cut that lacks no more than this share of the units has room enough.
                if room < CUT_UNITS * (1 - 1e-7):
                    yield direction, inside[:-1]

    def solve(self) -> Usage:
        """The best use under the cuts so far. Of equal solutions it is that of least use."""
        from scipy.optimize import linprog
        from scipy.sparse import csr_array, hstack, identity, vstack

        edges, roots = len(self.tail), self.share.shape[1]
        columns = self.directions * edges
        room = hstack([identity(edges)] * self.directions + [csr_array((edges, roots))])
        gain = np.concatenate((np.full(columns, 1e-7), -self.share.sum(axis=0)))
        solved: Any = linprog(  # type: ignore[call-overload]
            gain,
            A_ub=vstack([room, csr_array(np.array(self.rows))]),
            b_ub=np.concatenate((self.room, np.zeros(len(self.rows)))),
            A_eq=self._balance(),
            b_eq=np.zeros(self.directions * int((~self.sinks).sum())),
            method="highs",
        )
        loads = solved.x * self.scale
        bandwidths = []
        for direction in range(self.directions):
            tail, head = self._ends(direction)
            used = np.zeros((len(self.sinks),) * 2)
            used[tail, head] = loads[direction * edges : (direction + 1) * edges]
            bandwidths.append(used)
        return Usage(tuple(bandwidths), self.share @ loads[columns:])

    def _balance(self) -> Any:
        from scipy.sparse import csr_array

        edges, others = len(self.tail), np.flatnonzero(~self.sinks)
        place = np.full(len(self.sinks), -1)
        place[others] = np.arange(len(others))
        rows, columns, values = [], [], []
        for direction in range(self.directions):
            for nodes, sign in zip(self._ends(direction), (-1.0, 1.0), strict=True):
                member = np.flatnonzero(place[nodes] >= 0)
                rows.append(place[nodes[member]] + direction * len(others))
                columns.append(member + direction * edges)
                values.append(np.full(len(member), sign))
        shape = self.directions * len(others), self.directions * edges + self.share.shape[1]
        ends = np.concatenate(rows), np.concatenate(columns)
        return csr_array((np.concatenate(values), ends), shape=shape)
