"""A graph whose places are classes of ranks that do the same at the same time, or single ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.collectives.collective import Algorithm
from simulator.kernels.records import Csr
from simulator.steps.kinds import RECEIVE
from simulator.steps.step_graph import COLUMNS, Call, StepGraph, step_graph
from topologies.columns import distinct_rows, entries, places_in_groups, ranges, starts
from topologies.topology import Numbers


def classes(graph: StepGraph, colour: npt.ArrayLike) -> Numbers:
    """The class of each rank, shape (ranks,): the coarsest partition of ranks that differ.

    Ranks of a class are of one place and have the same `colour`, shape (ranks,). Their groups have
    as many ranks of each class, and their partners in another place are of one class. Classes are
    numbered by their first ranks.
    """
    groups_of, random = _met(graph), np.random.default_rng(0)
    # The sums of random numbers of classes say how many ranks of which classes meet: in 64 bits,
    # sums of others differ.
    most = np.iinfo(np.uint64).max
    factors = random.integers(most, size=len(groups_of), dtype=np.uint64)
    classes_of = distinct_rows(graph.place_of, np.asarray(colour))[1]
    while True:
        value = random.integers(most, size=graph.ranks, dtype=np.uint64)[classes_of]
        sums = value.copy()
        for factor, groups in zip(factors, groups_of, strict=True):
            sums[groups] += factor * value[groups].sum(axis=1, keepdims=True)
        first, finer = distinct_rows(sums, met=True)
        if len(first) == classes_of.max() + 1:
            return finer
        classes_of = finer


def split(graph: StepGraph, place_of: Numbers) -> StepGraph:
    """The graph with a place for each class of ranks, as :func:`classes` makes them.

    A task becomes one for each class of its place. The time of a call stays, so that it is the time
    of all groups of its kind at once.
    """
    copies = TaskCopies(graph, place_of)
    task, place = copies.task, copies.place
    later, entry = entries(graph.indptr, task)
    earlier = graph.indices[entry]
    columns = {name: getattr(graph, name)[task] for name in COLUMNS}
    receives = columns["peer"] >= 0
    columns["peer"][receives] = copies.partner(place[receives], columns["peer"][receives])
    return replace(
        graph,
        **columns | {"place": place.astype(np.int32)},
        place_of=place_of.astype(np.int32),
        indptr=starts(np.diff(graph.indptr)[task]),
        indices=copies.of(earlier, place[later]).astype(np.int32),
        names=np.asarray(graph.names, dtype=object)[task] if len(graph.names) else (),
    )


def in_order(graph: StepGraph, order: Numbers) -> StepGraph:
    """The graph with its tasks in an `order`, in which each one of a lane waits for the one before:
    no task overtakes another one, whatever they take."""
    turn = np.empty(len(graph), dtype=np.int64)
    turn[order] = np.arange(len(graph))
    columns = {name: getattr(graph, name)[order] for name in COLUMNS}
    by_lane = np.lexsort((columns["lane"], columns["place"]))
    same = np.diff(columns["place"][by_lane]) == 0
    same &= np.diff(columns["lane"][by_lane]) == 0
    indptr, indices = Csr.of(
        np.append(turn[graph.waiting], by_lane[1:][same]),
        np.append(turn[graph.indices], by_lane[:-1][same]),
        len(graph),
    )
    names = np.asarray(graph.names, dtype=object)[order] if len(graph.names) else ()
    return replace(graph, **columns, indptr=indptr, indices=indices, names=names)


def _by_place(place_of: Numbers) -> tuple[Numbers, Numbers]:
    """Ranks by their place, and where each place begins among them."""
    ranks = np.argsort(place_of, kind="stable")
    return ranks, np.searchsorted(place_of[ranks], np.arange(int(place_of.max()) + 1))


def _met(graph: StepGraph) -> list[Numbers]:
    """Groups of ranks that meet, shape (groups, ranks): of the calls, and partners of which one
    waits for the other, or receives from it."""
    called = np.unique(graph.call[graph.call >= 0]).tolist()
    kinds = {graph.calls[row].group for row in called} - {""}
    pairs = np.stack((graph.place[graph.waiting], graph.place[graph.indices]))
    sends = np.flatnonzero(graph.peer >= 0)
    pairs = np.append(pairs, np.stack((graph.place[sends], graph.peer[sends])), axis=1)
    pairs = np.unique(np.sort(pairs[:, pairs[0] != pairs[1]], axis=0), axis=1)
    ranks, begins = _by_place(graph.place_of)
    members = np.split(ranks, begins[1:])
    partners = [np.stack((members[a], members[b]), axis=1) for a, b in pairs.T.tolist()]
    return [graph.groups[kind] for kind in sorted(kinds)] + partners


class TaskCopies:
    """The tasks of a graph, each once for each class of ranks of its place."""

    def __init__(self, graph: StepGraph, place_of: Numbers) -> None:
        """`place_of` is the class of each rank, shape (ranks,)."""
        self._graph, self._place_of = graph, place_of
        leader = np.unique(place_of, return_index=True)[1]
        self._ranks, self._begins = _by_place(graph.place_of)
        self._row, old = places_in_groups(graph.place_of)[leader], graph.place_of[leader]
        self._classes, self._starts = _by_place(old)
        self._number, self._counts = places_in_groups(old), np.bincount(old)
        self.task, self.place = self.each(graph.place)
        """The task of each copy, and its class."""
        self._first = np.searchsorted(self.task, np.arange(len(graph)))

    def each(self, place: Numbers) -> tuple[Numbers, Numbers]:
        """Rows in places of the graph, each once for each class of its place: row and class."""
        row, entry = ranges(self._starts[place], self._counts[place])
        return row, self._classes[entry]

    def partner(self, place: Numbers, other: Numbers) -> Numbers:
        """The class of the partners of a class in another place of the graph."""
        return np.asarray(self._place_of[self._ranks[self._begins[other] + self._row[place]]])

    def of(self, task: Numbers, place: Numbers) -> Numbers:
        """The copy of a task for a class, or for its partners in the place of the task."""
        partner = self.partner(place, self._graph.place[task])
        return np.asarray(self._first[task] + self._number[partner])


def expand(graph: StepGraph, algorithm: Callable[[Call], Algorithm]) -> StepGraph:
    """What each rank of each place does.

    A message gets a task of its receiver, for which the receiver waits. Collectives run the
    `algorithm` of their call.
    """
    every = split(graph, np.arange(graph.ranks))
    is_message = np.array([call.is_message for call in graph.calls] or [False])
    sends = (every.call >= 0) & is_message[every.call]
    # Behind each send comes the receive.
    row = np.repeat(np.arange(len(every)), 1 + sends)
    first = np.searchsorted(row, np.arange(len(every)))
    received = first[sends] + 1
    columns: dict[str, Any] = {name: getattr(every, name)[row] for name in COLUMNS}
    columns["place"][received] = every.peer[sends]
    columns["kind"][received] = RECEIVE
    columns["seconds"][columns["call"] >= 0] = 0.0
    columns["peer"][:] = -1

    later, earlier = every.waiting, every.indices
    arrives = sends[earlier] & (every.place[later] == every.peer[earlier])
    return step_graph(
        every.place_of,
        graph.lanes,
        columns,
        Csr.of(first[later], first[earlier] + arrives, len(row)),
        calls=[
            call if call.is_message else call._replace(algorithm=algorithm(call))
            for call in graph.calls
        ],
        groups=graph.groups,
    )
