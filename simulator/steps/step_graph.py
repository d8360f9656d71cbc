"""A graph of tasks: computations and communications on lanes of ranks, with waits.

Strategies, plans, groups of `simctl run --groups` and Chakra traces write such graphs. A place is a
rank, or a device of a plan that stands for several ranks which do the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, compress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.collectives.collective import Algorithm
from simulator.kernels.records import Csr
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import LANES, ScheduleBuilder
from simulator.steps.kinds import CALL, KINDS
from topologies.columns import owners, starts
from topologies.errors import InputError
from topologies.topology import Flags, Floats, Ints, Numbers

MESSAGE = "message"
"""What a call is that is no collective."""
COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(("place", "peer", "lane", "kind", "call"), np.int32),
    **dict.fromkeys(("step", "stage", "layer", "micro", "bucket"), np.int32),
    "seconds": np.float64,
}
"""The columns of a graph and their types."""
Columns = Mapping[str, npt.ArrayLike]
Names = Sequence[str] | npt.NDArray[np.object_]


class Call(NamedTuple):
    """A communication of the ranks of a group."""

    group: str
    """The kind of group. On a lane of a rank its calls follow each other. Messages of servers have
    none: the order of their arrival says who waits for whom."""
    collective: str
    """The collective, or :data:`MESSAGE`: from the first rank of the group to the second."""
    nbytes: float
    """V of the collective, or the bytes of the message."""
    algorithm: Algorithm | None = None
    """None: the fastest of the machine's."""
    root: int = 0
    """The place in the group of the rank that plays rank 0."""

    @property
    def is_message(self) -> bool:
        """Whether it is a message between two ranks."""
        return self.collective == MESSAGE


@dataclass(frozen=True, eq=False)
class StepGraph:
    """Tasks, a row each. The k-th calls of a group on the same lane of all its ranks are one."""

    place_of: Ints
    """The place of each rank, shape (ranks,). The k-th ranks of two places are partners: what waits
    for the other place, or receives from it, does so for its partner."""
    lanes: tuple[str, ...]
    """The names of the lanes of a place."""
    calls: tuple[Call, ...]
    """What tasks call. Tasks that call the same share a row."""
    groups: Mapping[str, Ints]
    """The ranks of all groups of a kind, shape (groups, ranks)."""
    place: Ints
    peer: Ints
    """The place that receives what the task sends; -1: none, or a task of its own receives it."""
    lane: Ints
    """The stream of the place. It serves tasks by readiness, then by row."""
    kind: Ints
    """A row of :data:`simulator.steps.kinds.KINDS`."""
    call: Ints
    """A row of `calls`; -1 for a computation."""
    step: Ints
    """The step as it is run, from 0 on; -1 for none: there is only one, or many of one length."""
    stage: Ints
    """The stage of a pipeline; -1 for none."""
    layer: Ints
    """The layer of a model, or the block within its stage; -1 for none."""
    micro: Ints
    """The micro-batch; -1 for none."""
    bucket: Ints
    """The bucket of gradients; -1 for none."""
    seconds: Floats
    """The time of a computation, or to enter a call. A call that stands for its transfers has their
    time."""
    indptr: Ints
    indices: Ints
    """What each task waits for, in CSR form."""
    names: Names = field(default=(), repr=False)
    """The name of each task; empty: names follow from the labels."""

    def __len__(self) -> int:
        return len(self.place)

    @property
    def ranks(self) -> int:
        """The ranks of all places."""
        return len(self.place_of)

    @cached_property
    def places(self) -> int:
        """The number of places."""
        return int(self.place_of.max(initial=-1)) + 1

    @cached_property
    def leaders(self) -> Ints:
        """The first rank of each place."""
        return np.unique(self.place_of, return_index=True)[1].astype(np.int32)

    @cached_property
    def waiting(self) -> Ints:
        """The task that waits, for each of `indices`."""
        return owners(self.indptr)

    def predecessors(self, task: int) -> Ints:
        """What a task waits for."""
        return self.indices[self.indptr[task] : self.indptr[task + 1]]

    def call_of(self, task: int) -> Call | None:
        """The call of a task; None for a computation."""
        row = int(self.call[task])
        return None if row < 0 else self.calls[row]

    def name(self, task: int) -> str:
        """The name of a task, for people."""
        if len(self.names):
            return str(self.names[task])
        words = [KINDS[self.kind[task]]]
        words += [f"layer {self.layer[task]}"] if self.layer[task] >= 0 else []
        words += [f"micro-batch {self.micro[task]}"] if self.micro[task] >= 0 else []
        return ", ".join(words)

    def phase(self, task: int) -> str:
        """The collective of a task, or its kind."""
        call = self.call_of(task)
        if call is None or call.is_message:
            return KINDS[self.kind[task]]
        return call.collective

    @cached_property
    def communicates(self) -> Flags:
        """Whether each task is a call, or a part of one."""
        return np.asarray((self.call >= 0) | (self.kind == CALL))

    @cached_property
    def nbytes(self) -> Floats:
        """The bytes of the call of each task; 0 for a computation."""
        return np.array([*(call.nbytes for call in self.calls), 0.0])[self.call]


def step_graph(
    place_of: Numbers,
    lanes: tuple[str, ...],
    columns: Columns,
    after: Sequence[Sequence[int]] | Csr,
    *,
    calls: Sequence[Call] = (),
    groups: Mapping[str, Ints] | None = None,
    names: Names = (),
) -> StepGraph:
    """A graph of tasks. Label columns that are left out are -1.

    `after` has the rows that each task waits for. Raises InputError for a lane, a group or a size
    that makes no sense.
    """
    count = len(np.asarray(columns["place"]))
    made: dict[str, Any] = {
        name: np.asarray(columns[name], dtype=kind)
        if name in columns
        else np.full(count, 0 if name in ("lane", "seconds") else -1, dtype=kind)
        for name, kind in COLUMNS.items()
    }
    indptr, indices = after if isinstance(after, Csr) else _listed(after)
    graph = StepGraph(
        place_of.astype(np.int32),
        lanes,
        tuple(calls),
        groups or {},
        **made,
        indptr=indptr,
        indices=indices,
        names=names,
    )
    check(graph)
    return graph


def priced(graph: StepGraph, empty: Schedule | None = None) -> Schedule:
    """A schedule on the places of a graph, with an operation for each task: a call is a computation
    that takes the time of its transfers. Its ranks and buffers are those of an `empty` one.

    The phase of an operation is its name; without names its kind on lane 0, and the name of the
    lane on others.
    """
    count = len(graph)
    none, zero = np.full(count, -1, dtype=np.int32), np.zeros(count, dtype=np.int32)
    if len(graph.names):
        number = {name: place for place, name in enumerate(dict.fromkeys(graph.names))}
        names, name = [*number], np.array([number[name] for name in graph.names])
    else:
        name = np.where(graph.lane == 0, graph.kind, len(KINDS) + graph.lane)
        names = [*KINDS, *graph.lanes]
    used = np.bincount(name, minlength=len(names)) > 0
    phase = (np.cumsum(used) - 1)[name]
    return replace(
        ScheduleBuilder(graph.places, 1.0).build() if empty is None else empty,
        phases=tuple(compress(names, used)),
        lanes=len(graph.lanes),
        kind=zero.astype(np.int8),
        rank=graph.place,
        peer=graph.place,
        source=none,
        target=none,
        count=zero,
        reduces=zero.astype(np.int8),
        nbytes=np.zeros(count),
        seconds=graph.seconds,
        lane=graph.lane.astype(np.int16),
        phase=phase.astype(np.int16),
        indptr=graph.indptr,
        indices=graph.indices,
    )


def check(graph: StepGraph) -> None:
    """Raise InputError for a graph that makes no sense."""
    for name, values, count in (
        ("lane", graph.lane, min(len(graph.lanes), LANES + 1)),
        ("place", graph.place, graph.places),
    ):
        if np.any((values < 0) | (values >= count)):
            wrong = values[(values < 0) | (values >= count)][0]
            raise InputError(f"{name} {wrong}: {name}s run from 0 to {count - 1}")
    wrong_times = graph.seconds[~(graph.seconds >= 0) | np.isinf(graph.seconds)]
    if len(wrong_times):
        raise InputError(f"a task takes {wrong_times[0]} s: 0 or more")
    if np.any((graph.indices < 0) | (graph.indices >= len(graph))):
        last = len(graph) - 1
        raise InputError(f"a task waits for task {graph.indices.max()}: tasks run from 0 to {last}")
    if np.any(graph.call >= len(graph.calls)):
        raise InputError(f"call {graph.call.max()}: there are {len(graph.calls)}")
    for name in {call.group for call in graph.calls if call.group}:
        _check_groups(graph.groups[name], graph.ranks)
    for call in graph.calls:
        size = graph.groups[call.group].shape[1] if call.group else 2
        if not 0 <= call.nbytes < np.inf:
            raise InputError(f"{call.collective} has {call.nbytes} bytes: 0 or more")
        if not 0 <= call.root < size:
            raise InputError(f"root {call.root}: it is a place in a group of {size}")
        if call.is_message and size > 2:
            raise InputError(f"a message in a group of {size}: it is between 2 ranks")


def _check_groups(groups: Ints, ranks: int) -> None:
    flat, unknown = groups.ravel(), np.any((groups < 0) | (groups >= ranks), axis=1)
    if groups.shape[1] < 2 or unknown.any():
        group = groups[unknown.argmax()].tolist()
        raise InputError(f"group {group[:8]}: it has 2 or more of the {ranks} ranks")
    if len(np.unique(flat)) < len(flat):
        raise InputError(f"groups of a kind share a rank, like {groups[0].tolist()[:8]}")


def _listed(after: Sequence[Sequence[int]]) -> Csr:
    """Lists in CSR form. A table of them would be square where one task waits for all others."""
    indptr = np.cumsum([0, *map(len, after)], dtype=np.int32)
    return Csr(indptr, np.fromiter(chain.from_iterable(after), np.int32, int(indptr[-1])))


def waits_of(blocks: Sequence[Ints]) -> Csr:
    """What tasks wait for, from blocks of rows behind each other; -1 is none."""
    some = [rows >= 0 for rows in blocks]
    counts = np.concatenate([chosen.sum(axis=1) for chosen in some])
    indices = np.concatenate([rows[chosen] for rows, chosen in zip(blocks, some, strict=True)])
    return Csr(starts(counts), indices.astype(np.int32))


def padded(rows: Sequence[Sequence[int]], width: int) -> Ints:
    """Rows of numbers as an array of at least `width` columns; -1 fills them up."""
    table = np.full((len(rows), max(width, *map(len, rows))), -1, dtype=np.int32)
    for number, row in enumerate(rows):
        table[number, : len(row)] = row
    return table
