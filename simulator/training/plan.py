"""A training run as a schedule, and the meaning of its operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import NamedTuple

import numpy as np

from simulator.collectives.collective import Collective
from simulator.schedules import semantics
from simulator.schedules.routed import Routed, route
from simulator.schedules.schedule import Schedule
from simulator.schedules.semantics import Chosen, Data, Promise, SlotSelection
from simulator.schedules.shifts import Shifts
from simulator.schedules.timeline import Timeline
from simulator.steps.step_graph import StepGraph
from simulator.training.conditions import Conditions
from simulator.training.model import Model
from simulator.training.size import check_size
from simulator.training.step_lowering import BUCKETS, TaskRows
from topologies.errors import InputError
from topologies.topology import Floats, Ints, Topology

COMPUTE, COMMUNICATION = 0, 1
"""Lanes of a worker: its main stream, its first communication stream. More may follow."""


@dataclass(frozen=True, eq=False)
class Setting:
    """Where and how long to train."""

    topology: Topology
    ranks: int
    """Workers. Servers are the devices after them."""
    steps: int = 1
    conditions: Conditions = field(default_factory=Conditions)
    """Stragglers, noise, a failure, and ranks with less input."""
    priced_beyond: float = inf
    """A run of more operations may leave out the transfers of collectives, which are then timed as
    a whole (see :mod:`simulator.training.priced_run`)."""
    symmetric: bool = False
    """Whether one rank may stand for all that do the same."""
    force: bool = False
    """Whether to build a run that is likely too large."""
    overhead: Callable[[Schedule], float] | None = None
    """The seconds that a rank takes to enter a collective; None: nothing."""

    def __post_init__(self) -> None:
        if self.ranks < 1:
            raise InputError(f"ranks must be at least 1, got {self.ranks}")
        if self.steps < 1:
            raise InputError(f"steps must be at least 1, got {self.steps}")
        if self.conditions.failure:
            self.conditions.failure.check(self.steps, self.ranks)

    def alike(self, model: Model) -> bool:
        """Whether one rank may stand for others, and nothing makes them differ."""
        return self.symmetric and self.conditions.alike and not model.ranks

    def check_size(
        self, step: float, once: float = 0.0, *, every: int = 1, repeats: bool = True
    ) -> None:
        """As :func:`simulator.training.size.check_size`, for the steps of the run.

        A strategy that `repeats` runs the steps since the checkpoint again after a failure.
        """
        if not self.force:
            repeated = self.conditions.repeated(self.steps) if repeats else 0
            check_size(step, self.steps, once=once, every=every, repeated=repeated)


class Holdings(NamedTuple):
    """Bytes outside of slots that are held all the time."""

    ranks: Floats
    """Bytes of each rank."""
    distinct: float
    """How many of all these bytes are no duplicates."""


class HeldBytes(NamedTuple):
    """Bytes outside of slots that are held for a while, one row a change."""

    task: Ints
    """The task with whose end the bytes appear or vanish, at its rank."""
    nbytes: Floats
    """Bytes that appear; below 0: that vanish."""
    distinct: Floats
    """How many of them are no duplicates."""


class Updates(NamedTuple):
    """Updates of shared parameters, one row each."""

    worker: Ints
    """The worker that computed the update."""
    pulled: Ints
    """The operation with whose start the worker read the parameters; -1: the initial ones."""
    served: Ints
    """The operation with whose finish the update was applied."""


@dataclass(frozen=True, eq=False)
class Plan:
    """A training run as a schedule. Steps are counted as they run: after a failure some come
    again."""

    model: Model
    schedule: Schedule
    topology: Topology
    workers: int
    graph: StepGraph
    """The computations and communications of all ranks, in the order of their first operations. A
    call without a group is a message, or of ranks in no fixed order."""
    first: Ints
    """The operation with which each task of the graph begins."""
    last: Ints
    """The operation with which each task of the graph ends."""
    ends: Ints
    """The last operation of each step at each standing worker, shape (steps, workers)."""
    numbers: Ints
    """The number of each step, from 0 on. A step that is repeated keeps its number."""
    useful: Ints
    """Whether each step counts: not if a failure loses its result."""
    samples: Ints
    """Samples of each step, all workers together."""
    holdings: Holdings
    updates: Updates | None = None
    """The updates, if the strategy applies them in no fixed order."""
    stored: HeldBytes | None = None
    words: tuple[str, ...] = ()
    """What the strategy chose, for people."""
    slowdown: float = 0.0
    """How much longer a computation takes while its rank communicates, as a share of its time."""
    parts: tuple[TaskRows, ...] = ()
    """The tasks in the order in which they were written; empty with parameter servers."""
    is_priced: bool = False
    """Whether collectives are not written out: the schedule has an operation for each task."""
    shifts: Shifts | None = None
    """What takes the workers that stand for all to all; None: each stands for itself."""
    _routes: dict[int, Routed] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def collectives(self) -> list[tuple[TaskRows, Schedule]]:
        """The collectives of all workers, in the order of their operations."""
        return [(part, part.schedule) for part in self.parts if part.schedule is not None]

    @cached_property
    def buckets(self) -> list[tuple[TaskRows, Schedule]]:
        """The collectives of a step that together keep the promise of the strategy."""
        gradients = [each for each in self.collectives if each[0].memory in BUCKETS]
        return [*{part.slot: (part, schedule) for part, schedule in gradients}.values()]

    @cached_property
    def standing(self) -> Ints:
        """The places of workers that stand for all."""
        if self.shifts is None:
            return np.arange(min(self.workers, self.graph.places), dtype=np.int32)
        return self.shifts.representatives.astype(np.int32)

    @property
    def place_of(self) -> Ints:
        """The place of the worker that stands for each worker, shape (workers,)."""
        place = self.graph.place_of[: self.workers]
        return place if self.shifts is None else self.shifts.place(place).astype(np.int32)

    def times(self, timeline: Timeline) -> tuple[Floats, Floats]:
        """When each task of the graph begins and ends."""
        return timeline.start[self.first], timeline.finish[self.last]

    def simulated(self, timeline: Timeline) -> StepGraph:
        """The graph with the seconds of a timeline."""
        return replace(self.graph, seconds=timeline.schedule.seconds[self.first])

    @property
    def steps(self) -> int:
        """Steps that are run, lost ones included."""
        return len(self.ends)

    @property
    def operations(self) -> int:
        """Operations to simulate: those of collectives that are alike count once."""
        return len(self.schedule) + sum(len(schedule) for schedule in self._unwritten)

    @property
    def volume(self) -> float:
        """Bytes that all ranks send to others."""
        calls = sum(number * schedule.volume for schedule, number in self._unwritten.items())
        return self.schedule.volume + calls

    @cached_property
    def _unwritten(self) -> Counter[Schedule]:
        """The collectives that are not written out, and how often each runs."""
        return Counter(schedule for _, schedule in self.collectives if self.is_priced)

    @cached_property
    def routed(self) -> Routed:
        """The schedule with its routes."""
        return route(self.schedule, self.topology)

    def routed_collective(self, schedule: Schedule) -> Routed:
        """A collective with its routes. Those of several sizes have the same routes."""
        key = id(schedule.indices)
        if key not in self._routes:
            self._routes[key] = route(schedule, self.topology)
        return replace(self._routes[key], schedule=schedule)


def _of_buckets(plan: Plan, promise: Collective) -> Collective:
    """The promise of a step whose buckets each keep `promise`."""

    def postcondition(before: Data, chosen: Chosen) -> Promise:
        every = np.arange(before.shape[1], dtype=np.int32)
        number = every if chosen is None else chosen.number
        promised, values = np.zeros(before.shape, dtype=np.bool_), before.copy()
        for part, schedule in plan.buckets:
            slot = part.slot
            inside = np.flatnonzero((number >= slot) & (number < slot + schedule.buffer))
            slots = SlotSelection(number[inside] - slot, schedule.buffer)
            both = promise.postcondition(before[:, inside], slots)
            promised[:, inside], values[:, inside] = both
        return promised, values

    return replace(promise, postcondition=postcondition) if plan.buckets else promise


def prove(plan: Plan, promise: Collective) -> None:
    """Raise :class:`simulator.schedules.semantics.WrongResult` unless each bucket of the step of
    `plan` computes what is promised; without buckets, all of it. Buckets that are not written out
    run once."""
    if not plan.is_priced:
        semantics.check(plan.schedule, _of_buckets(plan, promise))
        return
    number = Counter(part.slot for part, _ in plan.collectives)
    for part, _ in plan.buckets:
        if number[part.slot] != 1:
            raise semantics.WrongResult(
                f"{promise.name}: the collective at slot {part.slot} runs {number[part.slot]} "
                f"times in a step"
            )
    # Collectives of several sizes have the same operations.
    for schedule in {id(schedule.indices): schedule for _, schedule in plan.buckets}.values():
        semantics.check(schedule, promise)
