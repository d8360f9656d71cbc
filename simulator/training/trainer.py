"""Writes the operations of training steps: layers on the main lane, collectives on communication
lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.kernels.records import Csr
from simulator.schedules.schedule import COMPUTE as COMPUTATION
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.steps.kinds import BACKWARD, FORWARD, KINDS, OPTIMIZER, RESTART
from simulator.steps.step_graph import MESSAGE, Call, StepGraph, step_graph
from simulator.training.communicator import Chosen, Region, add_collective
from simulator.training.conditions import Attempt
from simulator.training.model import Layer, Model
from simulator.training.plan import (
    COMMUNICATION,
    COMPUTE,
    Block,
    Holdings,
    Label,
    Plan,
    Setting,
    Stored,
    Updates,
)
from topologies.errors import InputError
from topologies.topology import Floats, Ints, Topology


class _Talks(NamedTuple):
    """Communications as ranks see them, a row each."""

    rank: Ints
    lane: Ints
    first: Ints
    """The operation with whose start the communication begins. Its phase names it."""
    last: Ints
    """The operation with whose finish the communication ends."""
    call: Ints
    """The collective, a place in a list; -1 for a message."""


class Trainer:
    """The steps of `setting.ranks` workers on a
    :class:`simulator.schedules.schedule_builder.ScheduleBuilder`.

    What a worker computes on its main lane comes one after the other; `tail` is the last operation
    of each so far.
    """

    def __init__(
        self,
        model: Model,
        setting: Setting,
        builder: ScheduleBuilder,
        lanes: tuple[str, ...],
        *,
        startup: int = 0,
        chosen: Chosen | None = None,
        together: bool = True,
    ) -> None:
        """`lanes` names the lanes of a rank. `startup` is the number of steps that run before the
        first step of the setting. `chosen` says whether some workers stand for all, and whether
        collectives are written out.

        Raises InputError if no worker has input in the last step, and workers run steps
        `together`.
        """
        self.model, self.setting, self.builder, self.lanes = model, setting, builder, lanes
        self._outline = chosen is not None and chosen.outline
        self._shifts = None if chosen is None else chosen.communicator.shifts
        standing = np.arange(setting.ranks) if chosen is None else chosen.communicator.standing
        self.ranks = np.asarray(standing, dtype=np.int64)
        inputs = setting.conditions.has_input(setting.steps - 1, setting.ranks)
        if together and not inputs.any():
            raise InputError(f"{setting.steps} steps: nobody has input for all of them, take fewer")
        self.attempts = [Attempt(0)] * startup + setting.conditions.attempts(setting.steps)
        self._startup = startup
        self._factors = setting.conditions.factors(len(self.attempts), setting.ranks)
        self._step = 0
        self._labels = dict[str, Label]()
        self._layers = {layer.name: number for number, layer in enumerate(model.layers)}
        self._streams: dict[int, Ints] = {}
        self._calls: dict[Call, int] = {}
        self._talks = [_Talks(*np.zeros((len(_Talks._fields), 0), dtype=np.int32))]
        self._blocks: list[Block] = []
        self._ends: list[Ints] = []
        self._useful: list[int] = []
        self._samples: list[int] = []
        self.tail: Ints | None = None

    @property
    def factor(self) -> Floats:
        """What the times of each rank are multiplied by in the current step."""
        has_input = self.setting.conditions.has_input(
            self.attempts[self._step].step, self.setting.ranks
        )
        factors = self._factors[self._step] * has_input
        return np.asarray(factors[self.ranks], dtype=np.float64)

    def phase(self, label: Label, builder: ScheduleBuilder | None = None) -> str:
        """Say what the operations that follow are, here or in a part with a `builder` of its own;
        returns the name of their phase."""
        self._labels[label.text] = label
        (self.builder if builder is None else builder).phase(label.text)
        return label.text

    def compute(self, label: Label, seconds: float | Floats, *after: Ints | None) -> Ints:
        """A computation on every worker's main lane, after what came before there and after
        `after`, a column each."""
        self.phase(label)
        self.tail = self.builder.compute(
            self.ranks, seconds, lane=COMPUTE, after=columns(self.tail, *after)
        )
        return self.tail

    def forward(self, layer: Layer, *after: Ints | None) -> Ints:
        """A layer's forward at every worker."""
        return self.compute(
            Label(FORWARD, layer.name, self._layers[layer.name]),
            layer.forward_of(len(self.ranks)) * self.factor,
            *after,
        )

    def backward(self, layer: Layer, *after: Ints | None, slower: float = 0.0) -> Ints:
        """A layer's backward at every worker, longer by `slower` seconds."""
        seconds = (layer.backward_of(len(self.ranks)) + slower) * self.factor
        label = Label(BACKWARD, layer.name, self._layers[layer.name])
        return self.compute(label, seconds, *after)

    def optimize(self, *after: Ints | None) -> Ints:
        """The optimizer at every worker."""
        return self.compute(
            Label(OPTIMIZER), self.model.optimizer_of(len(self.ranks)) * self.factor, *after
        )

    def launch(self, label: Label, seconds: float, lane: int, *after: Ints | None) -> Ints:
        """A launch of every worker on a communication lane, where a collective follows it."""
        self.phase(label)
        waits = columns(self._streams.get(lane), *after)
        self._streams[lane] = self.builder.compute(self.ranks, seconds, lane=lane, after=waits)
        return self._streams[lane]

    def collective(
        self,
        label: Label,
        region: Region,
        *after: Ints | None,
        lane: int = COMMUNICATION,
        seconds: tuple[float, float] = (0.0, 0.0),
    ) -> Ints:
        """A collective of all workers on the communication lane `lane`: each enters after `after`
        (a column each) and after it has left the collective before on that lane. Entering and
        leaving take `seconds`.

        Returns the operation with which each worker leaves.
        """
        phase = self.phase(label)
        if self.setting.overhead is not None and self.setting.ranks > 1:
            seconds = seconds[0] + self.setting.overhead(region.schedule), seconds[1]
        waits = columns(self._streams.get(lane), *after)
        if self._outline:
            first = self.builder.compute(self.ranks, seconds[0], lane=lane, after=waits)
            last = self.builder.compute(self.ranks, seconds[1], lane=lane, after=first[:, None])
            self._blocks.append(Block(region, first, last))
        else:
            first, _, last = add_collective(
                self.builder, region, self.ranks.astype(np.int32), waits, lane, seconds, phase
            )
        self._streams[lane] = last
        collective = KINDS[label.kind].replace("-", "_")
        group = self.lanes[lane] if self.setting.ranks > 1 else ""
        call = Call(group, collective, region.schedule.nbytes_total)
        self._talk(self.ranks, lane, first, last, self._calls.setdefault(call, len(self._calls)))
        return last

    def message(self, rank: npt.NDArray[np.integer], first: Ints, last: Ints) -> None:
        """Note that messages of each `rank` are on their way from `first` to `last`."""
        self._talk(rank, COMMUNICATION, first, last, -1)

    def _talk(
        self, rank: npt.NDArray[np.integer], lane: int, first: Ints, last: Ints, call: int
    ) -> None:
        lanes, calls = (np.full(len(rank), value, dtype=np.int32) for value in (lane, call))
        self._talks.append(_Talks(rank.astype(np.int32), lanes, first, last, calls))

    def streams(self) -> list[Ints]:
        """The operations with which each worker left the latest collective of each communication
        lane."""
        return list(self._streams.values())

    def end(self, last: Ints | None = None, *, lost: bool = False, batches: int = 1) -> None:
        """The step, of `batches` batches a worker, ends with `last`, by default with its latest
        computation."""
        tail = self.tail if last is None else last
        assert tail is not None
        attempt = self.attempts[self._step]
        inputs = self.setting.conditions.has_input(attempt.step, self.setting.ranks)
        self._ends.append(tail)
        self._useful.append(not lost)
        self._samples.append(0 if lost else self.model.batch * batches * int(inputs.sum()))
        self._step += 1

    def _numbers(self) -> Ints:
        """The number of each step: those before the first of the setting come first."""
        after = [self._startup + attempt.step for attempt in self.attempts[self._startup :]]
        return np.array([*range(self._startup), *after], dtype=np.int32)

    def restart(self) -> None:
        """All workers wait until the failure is noticed, and start again when they are done with
        what they compute."""
        failure = self.setting.conditions.failure
        assert failure is not None
        assert self.tail is not None
        self.phase(Label(RESTART))
        failed = self.tail[failure.rank]
        self.tail = self.builder.compute(
            self.ranks,
            failure.timeout + failure.restart,
            after=columns(self.tail, np.full_like(self.tail, failed)),
        )

    def plan(
        self,
        topology: Topology,
        *,
        holdings: Holdings | None = None,
        stored: Stored | None = None,
        words: tuple[str, ...] = (),
        slowdown: float = 0.0,
        buckets: Sequence[Region] = (),
        updates: Updates | None = None,
    ) -> Plan:
        """The finished plan."""
        schedule = self.builder.build()
        graph, first, last = self._graph(schedule)
        return Plan(
            model=self.model,
            schedule=schedule,
            graph=graph,
            first=first,
            last=last,
            topology=topology,
            workers=self.setting.ranks,
            ends=np.array(self._ends, dtype=np.int32),
            numbers=self._numbers(),
            useful=np.array(self._useful, dtype=np.int32),
            samples=np.array(self._samples, dtype=np.int64),
            updates=updates,
            holdings=holdings,
            stored=stored,
            words=words,
            slowdown=slowdown,
            blocks=tuple(self._blocks),
            buckets=tuple(buckets),
            shifts=self._shifts,
        )

    def _graph(self, schedule: Schedule) -> tuple[StepGraph, Ints, Ints]:
        """The tasks of a schedule, and the operations with which each begins and ends: its
        computations, and the communications that were noted."""
        talks = _Talks(*(np.concatenate(column) for column in zip(*self._talks, strict=True)))
        computing = schedule.kind == COMPUTATION
        computing[talks.first] = computing[talks.last] = False
        alone = np.flatnonzero(computing).astype(np.int32)
        first, last = (np.concatenate((alone, ends)) for ends in (talks.first, talks.last))
        sends, call = talks.call < 0, talks.call.copy()
        sizes, size = np.unique(schedule.nbytes[talks.last[sends]], return_inverse=True)
        calls = [*self._calls, *(Call("", MESSAGE, nbytes) for nbytes in sizes.tolist())]
        call[sends] = len(self._calls) + size
        order = np.argsort(first, kind="stable")
        first, last = first[order], last[order]
        place = np.concatenate((schedule.rank[alone], talks.rank))[order]
        labels = [self._labels[phase] for phase in schedule.phases]
        phase = schedule.phase[first]
        workers = np.arange(self.setting.ranks, dtype=np.int32)[None]
        graph = step_graph(
            np.arange(schedule.ranks, dtype=np.int32)[:, None],
            self.lanes,
            {
                "place": place,
                "lane": np.concatenate((schedule.lane[alone], talks.lane))[order],
                "kind": np.array([label.kind for label in labels], dtype=np.int32)[phase],
                "layer": np.array([label.layer for label in labels], dtype=np.int32)[phase],
                "bucket": np.array([label.bucket for label in labels], dtype=np.int32)[phase],
                "call": np.concatenate((np.full(len(alone), -1), call))[order],
                "seconds": schedule.seconds[first],
            },
            _waits(schedule, first, last),
            calls=calls,
            groups={call.group: workers for call in self._calls if call.group},
            names=np.array(schedule.phases, dtype=object)[phase],
        )
        return graph, first, last


def _waits(schedule: Schedule, first: Ints, last: Ints) -> Csr:
    """What tasks wait for that begin and end with these operations: other tasks alone."""
    task = np.full(len(schedule), -1, dtype=np.int32)
    task[last] = np.arange(len(last))
    begin, count = schedule.indptr[first], np.diff(schedule.indptr)[first]
    row = np.repeat(np.arange(len(first)), count)
    place = np.arange(len(row)) + (begin - np.cumsum(count) + count)[row]
    earlier = task[schedule.indices[place]]
    counts = np.bincount(row[earlier >= 0], minlength=len(first))
    return Csr(np.append(0, np.cumsum(counts)).astype(np.int32), earlier[earlier >= 0])


def columns(*operations: Ints | None) -> Ints:
    """Operations to wait for, a row a worker: the `after` of a builder's call. A 2-D array gives
    several columns."""
    arrays = [np.atleast_2d(column.T).T for column in operations if column is not None]
    return np.concatenate(arrays, axis=1) if arrays else np.zeros(0, dtype=np.int32)
