"""How much of each link trees use at most, by a linear program over cuts.

A node that is no rank passes on what it gets, once. So what enters it equals what leaves it. Cuts
join the program one by one, until none has too little room.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from topologies.packing.flow_graph import least_cut, with_source
from topologies.topology import Flags, Floats

Longs = npt.NDArray[np.int64]
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
        """What enters each node that is no sink, less what leaves it."""
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
