"""Writes the operations of training steps: layers on the main lane, collectives on communication
lanes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.steps.kinds import BACKWARD, FORWARD, OPTIMIZER, RESTART
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
    Spans,
    Stored,
    Updates,
    no_spans,
)
from topologies.errors import InputError
from topologies.topology import Floats, Ints, Topology


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
        *,
        startup: int = 0,
        chosen: Chosen | None = None,
        together: bool = True,
    ) -> None:
        """`startup` is the number of steps that run before the first step of the setting. `chosen`
        says whether some workers stand for all, and whether collectives are written out.

        Raises InputError if no worker has input in the last step, and workers run steps
        `together`.
        """
        self.model, self.setting, self.builder = model, setting, builder
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
        self._spans: list[Spans] = [no_spans()]
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
        self.span(self.ranks, lane, first, last)
        return last

    def entered(self) -> Ints:
        """The operation with which each worker entered the latest collective."""
        return self._spans[-1].first

    def span(self, rank: npt.NDArray[np.integer], lane: int, first: Ints, last: Ints) -> None:
        """Note that a communication of each `rank` runs from `first` to `last`."""
        self._spans.append(
            Spans(rank.astype(np.int32), np.full(len(rank), lane, np.int32), first, last)
        )

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
        lanes: tuple[str, ...],
        *,
        holdings: Holdings | None = None,
        stored: Stored | None = None,
        words: tuple[str, ...] = (),
        slowdown: float = 0.0,
        buckets: Sequence[Region] = (),
        updates: Updates | None = None,
    ) -> Plan:
        """The finished plan."""
        spans = Spans(*(np.concatenate(column) for column in zip(*self._spans, strict=True)))
        schedule = self.builder.build()
        return Plan(
            model=self.model,
            schedule=schedule,
            labels=tuple(map(self._labels.__getitem__, schedule.phases)),
            topology=topology,
            workers=self.setting.ranks,
            lanes=lanes,
            ends=np.array(self._ends, dtype=np.int32),
            numbers=self._numbers(),
            useful=np.array(self._useful, dtype=np.int32),
            samples=np.array(self._samples, dtype=np.int64),
            spans=spans,
            updates=updates,
            holdings=holdings,
            stored=stored,
            words=words,
            slowdown=slowdown,
            blocks=tuple(self._blocks),
            buckets=tuple(buckets),
            shifts=self._shifts,
        )


def columns(*operations: Ints | None) -> Ints:
    """Operations to wait for, a row a worker: the `after` of a builder's call. A 2-D array gives
    several columns."""
    arrays = [np.atleast_2d(column.T).T for column in operations if column is not None]
    return np.concatenate(arrays, axis=1) if arrays else np.zeros(0, dtype=np.int32)
