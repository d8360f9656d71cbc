"""Writes the tasks of training steps: layers on the main lane, collectives on communication
lanes, and messages of parameter servers, whose data are served in the order of their arrival."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from simulator.schedules.schedule import COMPUTE as COMPUTATION
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.steps.kinds import BACKWARD, CALL, FORWARD, KINDS, OPTIMIZER, RESTART, Label
from simulator.steps.step_graph import MESSAGE, Call, priced, step_graph
from simulator.training.communicator import Communicator
from simulator.training.conditions import Attempt
from simulator.training.model import Layer, Model
from simulator.training.plan import COMMUNICATION, COMPUTE, HeldBytes, Holdings, Plan, Setting
from simulator.training.step_lowering import (
    Memory,
    TaskRows,
    buffers,
    builder_of,
    graph_of,
    lower,
    merged_places,
)
from topologies.errors import InputError
from topologies.topology import Flags, Floats, Ints, Numbers


class Trainer:
    """The steps of the workers of `setting` as a graph of tasks, which :meth:`plan` lowers to a
    schedule.

    What a worker computes on its main lane comes one after the other; `tail` is the last task of
    each so far, -1 for none. What a task waits for is given in columns of tasks, with a row for
    each worker.
    """

    def __init__(
        self,
        model: Model,
        setting: Setting,
        lanes: tuple[str, ...],
        communicator: Communicator | None = None,
        *,
        startup: int = 0,
        every: int = 1,
        together: bool = True,
    ) -> None:
        """`lanes` names the lanes of a rank. The `communicator` has the collectives of a run that
        may be priced, and the workers that stand for all. `startup` is the number of steps that
        run before the first step of the setting. From then on `every` so many steps are alike.

        Raises InputError if no worker has input in the last step, and workers run steps
        `together`.
        """
        self.model, self.setting, self.lanes = model, setting, lanes
        self.communicator = communicator
        standing = np.arange(setting.ranks) if communicator is None else communicator.standing
        self.ranks = np.asarray(standing, dtype=np.int64)
        # Before lists of all steps are made: each has a forward, a backward and an optimizer.
        self.setting.check_size(3.0 * len(self.ranks))
        self.attempts = [Attempt(0)] * startup + setting.conditions.attempts(setting.steps)
        self._startup, self._every = startup, every
        self.factors = setting.conditions.factors(len(self.attempts), setting.ranks)
        self._layers = {layer.name: number for number, layer in enumerate(model.layers)}
        self._streams: dict[int, Ints] = {}
        self._parts: list[TaskRows] = []
        self._size = self._once = 0
        self.ends: list[Ints] = []
        self._samples: list[int] = []
        self.tail: Ints = np.full(len(self.ranks), -1, dtype=np.int32)
        inputs = setting.conditions.has_input(setting.steps - 1, setting.ranks)
        if together and not inputs.any():
            raise InputError(f"{setting.steps} steps: nobody has input for all of them, take fewer")

    @property
    def attempt(self) -> Attempt:
        """The current step."""
        return self.attempts[len(self.ends)]

    @property
    def has_input(self) -> Flags:
        """Which of all workers have a batch in the current step."""
        return self.setting.conditions.has_input(self.attempt.step, self.setting.ranks)

    @property
    def factor(self) -> Floats:
        """What the times of each rank are multiplied by in the current step."""
        factors = self.factors[len(self.ends)] * self.has_input
        return np.asarray(factors[self.ranks], dtype=np.float64)

    def compute(
        self,
        label: Label,
        seconds: float | Floats,
        *after: Ints | None,
        lane: int = COMPUTE,
        ranks: Numbers | None = None,
    ) -> Ints:
        """A computation of every worker, or of `ranks`, after `after`. On the main lane it also
        comes after what came before there."""
        before = self.tail if lane == COMPUTE else None
        where = self.ranks if ranks is None else ranks
        done = self._add(label, where, seconds, columns(before, *after), lane)
        if lane == COMPUTE:
            self.tail = done
        return done

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

    def call(self, words: str, seconds: float, lane: int, *after: Ints | None) -> Ints:
        """A part of a call of every worker on a communication lane, before or behind a
        collective."""
        label, waits = Label(CALL, words), (self._streams.get(lane), *after)
        self._streams[lane] = self.compute(label, seconds, *waits, lane=lane)
        return self._streams[lane]

    def collective(
        self,
        label: Label,
        schedule: Schedule,
        *after: Ints | None,
        lane: int = COMMUNICATION,
        seconds: float = 0.0,
        memory: Memory = "used",
    ) -> Ints:
        """A collective of all workers on the communication lane `lane`: each enters after `after`
        and after it has left the collective before on that lane. Entering takes `seconds`.
        `memory` says when its buffer is held.

        Returns the task of each worker, which ends when the worker leaves.
        """
        if self.setting.overhead is not None and self.setting.ranks > 1:
            seconds += self.setting.overhead(schedule)
        group = self.lanes[lane] if self.setting.ranks > 1 else ""
        call = Call(group, KINDS[label.kind].replace("-", "_"), schedule.nbytes_total)
        waits, rows = columns(self._streams.get(lane), *after), (schedule, memory)
        self._streams[lane] = self._add(label, self.ranks, seconds, waits, lane, call, rows)
        return self._streams[lane]

    def message(self, label: Label, ends: tuple[int, int], nbytes: float, after: Ints) -> Ints:
        """A message from a rank to another, after all of `after`. Returns its task there."""
        call, waits = Call("", MESSAGE, nbytes), np.tile(after, (2, 1))
        return self._add(label, np.array(ends), 0.0, waits, COMMUNICATION, call)[1:]

    def streams(self) -> list[Ints]:
        """The tasks with which each worker left the latest collective of each communication
        lane."""
        return list(self._streams.values())

    def failed(self) -> bool:
        """Whether a worker fails in the current step, after its forward. Then all wait until that
        is noticed, start again when they are done with what they compute, and the step ends."""
        failure = self.setting.conditions.failure
        if failure is None or not self.attempt.fails:
            return False
        last = np.full_like(self.tail, self.tail[failure.rank])
        self.compute(Label(RESTART), failure.timeout + failure.restart, last)
        self.end()
        return True

    def end(self, last: Ints | None = None, *, batches: int = 1) -> None:
        """The step, of `batches` batches a worker, ends with `last`, by default with its latest
        computation."""
        inputs = int(self.has_input.sum()) * (not self.attempt.lost)
        self._samples.append(self.model.batch * batches * inputs)
        self.ends.append(self.tail if last is None else last)
        steps = len(self.ends) - self._startup
        if not steps:
            self._once = len(self._parts)
        if steps == self._every and self.setting.priced_beyond == inf:
            self._check()

    def plan(
        self, holdings: Holdings | None = None, stored: HeldBytes | None = None, **details: Any
    ) -> Plan:
        """The finished plan, with what else a strategy says of it. By default every worker holds
        parameters, buffers and optimizer state. Raises InputError if there are too many
        operations."""
        model, first = self.model, self._startup
        replica = model.parameters * (1 + model.state) + model.buffers
        after = [first + attempt.step for attempt in self.attempts[first:]]
        return Plan(
            model=model,
            workers=self.setting.ranks,
            # The number of each step: those before the first of the setting come first.
            numbers=np.array([*range(first), *after], dtype=np.int32),
            useful=np.array([not attempt.lost for attempt in self.attempts], dtype=np.int32),
            samples=np.array(self._samples, dtype=np.int64),
            holdings=holdings or Holdings(np.full(self.setting.ranks, replica), replica),
            **self._written(stored),
            **details,
        )

    def _add(
        self,
        label: Label,
        ranks: Numbers,
        seconds: float | Floats,
        after: Ints,
        lane: int,
        call: Call | None = None,
        collective: tuple[Schedule | None, Memory] = (None, "used"),
    ) -> Ints:
        """Tasks of `ranks` behind all others, a row each."""
        count, begin = len(ranks), self._size
        waits = np.broadcast_to(after, (count, after.shape[-1]))
        times = np.broadcast_to(np.asarray(seconds, dtype=np.float64), count)
        place = ranks.astype(np.int32)
        self._parts.append(TaskRows(label, lane, call, begin, place, times, waits, *collective))
        self._size += count
        return np.arange(begin, self._size, dtype=np.int32)

    def _check(self) -> None:
        """Raise InputError if the run has too many operations, as the steps so far tell."""
        counts = [part.operations for part in self._parts]
        once = sum(counts[: self._once])
        step = (sum(counts) - once) / (len(self.ends) - self._startup)
        self.setting.check_size(step, once, every=self._every)

    def _is_priced(self) -> bool:
        """Whether collectives are timed as a whole."""
        ranks, communicator = self.setting.ranks, self.communicator
        if communicator is None or ranks == 1:
            return False
        calls = [part.schedule for part in self._parts if part.schedule is not None]
        others = sum(part.operations for part in self._parts) - sum(map(len, calls))
        of_all = sum(len(call) * call.members for call in calls)
        return of_all + others * ranks // len(self.ranks) > self.setting.priced_beyond

    def _written(self, stored: HeldBytes | None) -> dict[str, Any]:
        """What the plan has of the tasks, and of the bytes that are `stored` with them."""
        setting, communicator, ends = self.setting, self.communicator, np.array(self.ends)
        nbytes, sizes, parts = buffers(self._parts, setting.ranks)
        place_of, is_priced = np.arange(setting.ranks, dtype=np.int32), self._is_priced()
        topology, shifts, unit = setting.topology, None, ScheduleBuilder(setting.ranks, 1.0).build()
        if communicator is not None:
            topology, shifts, unit = communicator.topology, communicator.shifts, communicator.unit
        if is_priced and setting.symmetric and (merged := merged_places(parts, len(self.ranks))):
            parts, number = merged
            ends, place_of, shifts = number[ends[:, :1]], np.zeros_like(place_of), None
            if stored is not None:
                stored = stored._replace(task=number[stored.task])
                stored = HeldBytes._make(column[stored.task >= 0] for column in stored)
        graph = graph_of(parts, self.lanes, place_of)
        if is_priced:
            schedule = priced(graph, builder_of(replace(unit, fold=None), nbytes).build())
            first = last = np.arange(len(graph), dtype=np.int32)
        else:
            self._check()
            schedule, first, last = lower(parts, builder_of(unit, nbytes, **sizes))
        return {
            **{"graph": graph, "schedule": schedule, "first": first, "last": last},
            **{"ends": last[ends], "parts": parts, "is_priced": is_priced},
            **{"topology": topology, "shifts": shifts, "stored": stored},
        }


def columns(*tasks: Ints | None) -> Ints:
    """Tasks to wait for, a row a worker. A 2-D array gives several columns."""
    arrays = [np.atleast_2d(column.T).T for column in tasks if column is not None]
    return np.concatenate(arrays, axis=1) if arrays else np.zeros(0, dtype=np.int32)


class ServerTrainer(Trainer):
    """A trainer that writes operations at once: what waits for what is in their slots, and from
    slots in no fixed order nothing can be derived. Its tasks to wait for are operations, and its
    graph has no waits.
    """

    def __init__(
        self,
        model: Model,
        setting: Setting,
        builder: ScheduleBuilder,
        lanes: tuple[str, ...],
        *,
        together: bool = True,
    ) -> None:
        """Strategies write further operations on `builder`."""
        super().__init__(model, setting, lanes, together=together)
        self.builder = builder
        self._labels: dict[str, Label] = {}
        self._messages = [np.zeros((3, 0), dtype=np.int32)]
        """Rank, first and last operation of messages. The phase of the first one names them."""

    def phase(self, label: Label) -> None:
        """Say what the operations that follow are."""
        self._labels[label.text] = label
        self.builder.phase(label.text)

    def note(self, rank: Numbers, first: Ints, last: Ints) -> None:
        """Note that messages of each `rank` are on their way from `first` to `last`."""
        self._messages.append(np.stack((rank.astype(np.int32), first, last)))

    def _add(
        self,
        label: Label,
        ranks: Numbers,
        seconds: float | Floats,
        after: Ints,
        lane: int,
        *_: object,
    ) -> Ints:
        self.phase(label)
        return self.builder.compute(ranks, seconds, lane=lane, after=after)

    def _written(self, stored: HeldBytes | None) -> dict[str, Any]:
        schedule = self.builder.build()
        rank, first, last = np.concatenate(self._messages, axis=1)
        computed = np.flatnonzero(schedule.kind == COMPUTATION).astype(np.int32)
        order = np.argsort(np.append(computed, first), kind="stable")
        is_message, place = order >= len(computed), np.append(schedule.rank[computed], rank)[order]
        begin, end = np.append(computed, first)[order], np.append(computed, last)[order]
        sizes = np.unique(schedule.nbytes[last])
        labels, phase = [self._labels[phase] for phase in schedule.phases], schedule.phase[begin]
        graph = step_graph(
            np.arange(schedule.ranks),
            self.lanes,
            {
                "place": place,
                "lane": np.where(is_message, COMMUNICATION, schedule.lane[begin]),
                "call": np.where(is_message, np.searchsorted(sizes, schedule.nbytes[end]), -1),
                "seconds": schedule.seconds[begin],
                "kind": np.array([label.kind for label in labels], dtype=np.int32)[phase],
                "layer": np.array([label.layer for label in labels], dtype=np.int32)[phase],
            },
            [()] * len(begin),
            calls=[Call("", MESSAGE, nbytes) for nbytes in sizes.tolist()],
            names=np.array(schedule.phases, dtype=object)[phase],
        )
        ends = np.array(self.ends, dtype=np.int32)
        written = {"graph": graph, "schedule": schedule, "first": begin, "last": end}
        return written | {"ends": ends, "topology": self.setting.topology}
