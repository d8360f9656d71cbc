"""Asynchronous SGD with a parameter server, also with a bound on how far workers may be ahead of
each other.

After Dean et al., Large Scale Distributed Deep Networks, NeurIPS 2012, and Ho et al., More
Effective Distributed ML via a Stale Synchronous Parallel Parameter Server, NeurIPS 2013.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

import numpy as np

from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.steps import kinds
from simulator.steps.kinds import Label
from simulator.training.conditions import Failure
from simulator.training.model import Model
from simulator.training.plan import (
    Holdings,
    Plan,
    Setting,
    Updates,
)
from simulator.training.server_trainer import ServerTrainer
from simulator.training.size import Size
from simulator.training.strategy import WHERE, Served, option
from simulator.training.trainer import columns
from topologies.errors import InputError
from topologies.topology import Ints
from topologies.units import format_bandwidth, format_seconds

LANES = ("compute", "communication", "server", "clock")
SERVER_LANE, CLOCK_LANE = 2, 3
"""Lanes of a server. Updates take turns on the first, and do not delay the computations of a worker
on the same device. Operations that take no time are on the second."""


@dataclass(frozen=True)
class ASGD(Served):
    """Workers and a parameter server, without any waiting between workers.

    A worker pulls the parameters, runs forward and backward, and pushes the gradient. The server
    updates in order of arrival. A worker asks for the next parameters when it begins its push. It
    gets them when they include its own gradient.

    A worker without input stops. A worker that fails loses its cycle and is away for timeout and
    restart, while others go on. If the machine merges at γ, that time is added to an update.
    """

    server: str = option("gpu", WHERE)

    @property
    def usual_steps(self) -> int:
        """Enough to fill the queue at the server."""
        return 20

    def plan(self, model: Model, setting: Setting) -> Plan:
        """The updates of `setting` as a schedule. Each worker makes as many as there are steps."""
        return _Cycles(self, model, setting, None).plan()

    def size(self, setting: Setting) -> Size:
        """Operations of a run: each worker pulls, asks, pushes, and has an update and its result at
        every server."""
        ranks, shares = setting.ranks, setting.ranks if self.server == "sharded" else 1
        return Size(ranks * (5 * shares + 2 + (shares > 1)), ranks * (shares + (shares == 1)))


@dataclass(frozen=True)
class SSP(ASGD):
    """As ASGD, but a worker is at most `bound` cycles ahead.

    Its pull for cycle c waits until the updates of cycle c - bound - 1 of all workers with input
    are applied. Servers of shares know that at once. Between a pull and its update, at most 2 x
    bound + 1 updates of every other worker are applied. With a bound of 0 all cycles begin
    together.
    """

    bound: int = option(3, "cycles that a worker may be ahead of the slowest; 0: none")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bound < 0:
            raise InputError(f"bound is {self.bound}: it is 0 or more")

    def plan(self, model: Model, setting: Setting) -> Plan:
        """The updates of `setting`, as many a worker as there are steps, as a schedule."""
        return _Cycles(self, model, setting, self.bound).plan()


class _Cycle(NamedTuple):
    """One cycle of some `workers` as a separate schedule, and numbers of its operations."""

    workers: Ints
    schedule: Schedule
    pulled: Ints
    """The pulls, one for each share."""
    trained: Ints
    """The operation with which each worker has trained."""
    asked: Ints
    """The requests for the next pulls, one for each share."""
    pushed: Ints
    """The pushes, one for each share."""
    applied: Ints
    """The updates, one for each share."""


class _Cycles:
    """The cycles of one run, one after the other, with a server for each share of the parameters.

    A cycle is made once for the workers that take part. Each step adds it with the factors of the
    step.

    A worker has slots for the shares of its gradient and of its copy of the parameters. A server
    has a slot for the gradients of each worker, and slots for its share of the parameters.
    """

    def __init__(self, options: ASGD, model: Model, setting: Setting, bound: int | None) -> None:
        setting.check_size(options.size(setting), repeats=False)
        self.options, self.model, self.setting, self.bound = options, model, setting, bound
        ranks = setting.ranks
        self.shares = ranks if options.server == "sharded" else 1
        self._forward, self._backward = model.forward_of(ranks), model.backward_of(ranks)
        self.copy, self.inbox, self.weights = self.shares, 2 * self.shares, 2 * self.shares + ranks
        self.seconds = options.updating(model) / self.shares
        # Round by round, every worker turns to another server, lest all queue for the same one.
        self.share = (
            np.arange(ranks, dtype=np.int32) + np.arange(self.shares, dtype=np.int32)[:, None]
        ) % self.shares
        self.first = ranks * options.servers(ranks)
        # A failure repeats no steps of others.
        conditions = replace(setting.conditions, failure=None)
        setting, builder = replace(setting, conditions=conditions), self._builder()
        self.trainer = ServerTrainer(model, setting, builder, LANES, together=False)
        self.builder, self.cycles = self.trainer.builder, dict[bytes, _Cycle]()
        worker = np.tile(np.arange(ranks, dtype=np.int32), self.shares)
        asked = self._ask(self.builder, worker, self.share.ravel())
        self.asked = asked.reshape(self.share.shape)
        self.applied = np.full_like(self.asked, -1)
        self.ends: list[Ints] = []
        self.updates: list[Updates] = [Updates(*np.zeros((3, 0), dtype=np.int32))]

    def _builder(self) -> ScheduleBuilder:
        """A builder for the whole run, or for a cycle."""
        share = self.model.parameters / self.model.gradients / self.shares
        return ScheduleBuilder(
            self.setting.ranks,
            self.model.gradients,
            slots=self.shares,
            scratch=[share] * self.shares + [1 / self.shares] * self.setting.ranks + [share],
            unordered=1,
            servers=self.options.servers(self.setting.ranks),
        )

    def _cycle(self, workers: Ints, failure: Failure | None = None) -> _Cycle:
        """Pull, forward, backward, push and update. In a failure the workers are away after their
        forward."""
        builder, empty = self._builder(), np.zeros(0, dtype=np.int32)
        worker, share = np.tile(workers, self.shares), self.share[:, workers].ravel()
        server = self.first + share
        name = self.trainer.phase
        name(Label(kinds.PULL), builder)
        pulled = builder.copy(server, worker, slot=self.weights, target=self.copy + share)
        name(Label(kinds.FORWARD), builder)
        forward = builder.compute(
            workers, self._forward[workers], reads=self.copy, count=self.shares
        )
        if failure:
            name(Label(kinds.RESTART), builder)
            back = builder.compute(
                workers, failure.timeout + failure.restart, after=columns(forward)
            )
            requests = self._ask(builder, worker, share, np.tile(back, self.shares))
            return _Cycle(workers, builder.build(), pulled, forward, requests, empty, empty)
        name(Label(kinds.BACKWARD), builder)
        backward = builder.compute(
            workers,
            self._backward[workers],
            reads=self.copy,
            writes=0,
            count=self.shares,
            after=columns(forward),
        )
        requests = self._ask(builder, worker, share, np.tile(backward, self.shares))
        name(Label(kinds.PUSH), builder)
        inbox = self.inbox + worker
        pushed = builder.copy(worker, server, slot=share, target=inbox)
        name(Label(kinds.UPDATE), builder)
        updated = builder.compute(server, self.seconds, lane=SERVER_LANE, reads=inbox)
        applied = builder.reduce(
            server, server, slot=inbox, target=self.weights, after=columns(updated)
        )
        trained = np.concatenate((forward, backward))
        return _Cycle(workers, builder.build(), pulled, trained, requests, pushed, applied)

    def _ask(
        self, builder: ScheduleBuilder, worker: Ints, share: Ints, after: Ints | None = None
    ) -> Ints:
        """Workers ask the servers of shares for the next pull."""
        self.trainer.phase(Label(kinds.PULL), builder)
        return builder.signal(worker, self.first + share, after=columns(after))

    def _holdings(self) -> Holdings:
        """Memory outside of slots: the buffers of workers, and the optimizer state at the
        servers."""
        ranks, state = self.setting.ranks, self.model.parameters * self.model.state
        nbytes = np.zeros(ranks + self.options.servers(ranks))
        nbytes[:ranks] = self.model.buffers
        nbytes[self.first : self.first + self.shares] += state / self.shares
        return Holdings(nbytes, state + self.model.buffers)

    def _words(self) -> tuple[str, ...]:
        """How long an update takes and why, and to what staleness refers."""
        text = f"an update takes {format_seconds(self.seconds)}"
        if not self.options.update:
            memory = self.options.memory(self.model)
            rate = f" at {format_bandwidth(memory)}"
            text += rate if memory < inf else ", since no memory bandwidth is known"
        if self.shares == 1:
            return (text,)
        return text, f"staleness is that of 1 of {self.shares} shares"

    def plan(self) -> Plan:
        """Run all cycles."""
        for step in range(self.setting.steps):
            self._step(step)
        return self.trainer.plan(
            updates=Updates(*map(np.concatenate, zip(*self.updates, strict=True))),
            holdings=self._holdings(),
            words=self._words(),
        )

    def _step(self, step: int) -> None:
        conditions, failure = self.setting.conditions, self.setting.conditions.failure
        workers = np.flatnonzero(conditions.has_input(step, self.setting.ranks)).astype(np.int32)
        if failure and failure.step == step and failure.rank in workers:
            self._add(self._cycle(np.array([failure.rank], dtype=np.int32), failure))
        if len(workers):
            key = workers.tobytes()
            if key not in self.cycles:
                self.cycles[key] = self._cycle(workers)
            self._update(self.cycles[key], self._add(self.cycles[key]))
        self.ends.append(self._ended())
        self.trainer.end(self.ends[-1])

    def _add(self, cycle: _Cycle) -> int:
        """Add the operations of a cycle. Returns the number of the first.

        A worker that has asked gets the parameters when they include its own update and the clock
        allows it.
        """
        child, workers = cycle.schedule, cycle.workers
        requests, applied = self.asked[:, workers], self.applied[:, workers]
        after = np.full((len(child), 3), -1, dtype=np.int32)
        after[cycle.pulled, 0] = requests.ravel()
        after[cycle.pulled, 1] = applied.ravel()
        after[cycle.pulled, 2] = self._clock()
        seconds = child.seconds.copy()
        seconds[cycle.trained] *= self.trainer.factor[child.rank[cycle.trained]]
        first = int(self.builder.inline(replace(child, seconds=seconds), after=after)[0])
        self._note(workers, requests, first + cycle.pulled)
        self.asked[:, workers] = (first + cycle.asked).reshape(requests.shape)
        return first

    def _update(self, cycle: _Cycle, first: int) -> None:
        """Note which parameters the updates of a cycle started from, and when they were applied."""
        workers, share = cycle.workers, self.share[:, cycle.workers]
        pulled = first + cycle.pulled.reshape(share.shape)
        applied = first + cycle.applied.reshape(share.shape)
        share_0 = np.argmin(share, axis=0), np.arange(len(workers))
        self.updates.append(Updates(workers, pulled[share_0], applied[share_0]))
        self.applied[:, workers] = applied
        self._note(workers, first + cycle.pushed, first + cycle.pushed)

    def _clock(self) -> int:
        """The operation at which all workers have finished the cycle that must precede the next, or
        -1."""
        if self.bound is None or len(self.ends) <= self.bound:
            return -1
        self.trainer.phase(Label(kinds.CLOCK))
        before = self.ends[-self.bound - 1]
        return int(self.builder.compute(self.first, 0.0, lane=CLOCK_LANE, after=before)[0])

    def _ended(self) -> Ints:
        """The operation after which the latest update of each worker is in all shares. At the end
        of the run it is the worker's own: until then it waits for its update."""
        last: Ints = np.where(self.applied < 0, self.asked, self.applied)
        if self.shares == 1 and len(self.ends) < self.setting.steps - 1:
            return np.asarray(last[0])
        self.trainer.phase(Label(kinds.APPLIED))
        return self.builder.compute(
            np.arange(self.setting.ranks), 0.0, lane=CLOCK_LANE, after=last.T
        )

    def _note(self, workers: Ints, first: Ints, last: Ints) -> None:
        """Note a message of each worker with each server."""
        self.trainer.note(np.tile(workers, self.shares), first.ravel(), last.ravel())


STRATEGIES = {"asgd": ASGD, "ssp": SSP}
