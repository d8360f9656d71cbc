"""Asynchronous SGD with a parameter server, also with a bound on how far workers may be ahead of
each other.

After Dean et al., Large Scale Distributed Deep Networks, NeurIPS 2012, and Ho et al., More
Effective Distributed ML via a Stale Synchronous Parallel Parameter Server, NeurIPS 2013.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

import numpy as np

from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.steps import kinds
from simulator.steps.kinds import Label
from simulator.training.conditions import Failure
from simulator.training.model import Model
from simulator.training.plan import Holdings, Plan, Setting, Updates
from simulator.training.strategy import WHERE, Served, option
from simulator.training.trainer import ServerTrainer, columns
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
        return _Cycles(self, model, setting).run()


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


class _Cycles(ServerTrainer):
    """The cycles of one run, one after the other, with a server for each share of the parameters.

    A worker has slots for the shares of its gradient and of its copy of the parameters. A server
    has a slot for the gradients of each worker, and slots for its share of the parameters.
    """

    def __init__(self, options: ASGD, model: Model, setting: Setting) -> None:
        self.options, self.failure = options, setting.conditions.failure
        self.bound = options.bound if isinstance(options, SSP) else None
        ranks = setting.ranks
        self.shares = shares = ranks if options.server == "sharded" else 1
        # Each worker pulls, asks, pushes, and has an update and its result at every server.
        step, once = ranks * (5 * shares + 2 + (shares > 1)), ranks * (shares + (shares == 1))
        setting.check_size(step, once, repeats=False)
        self.forwards, self.backwards = model.forward_of(ranks), model.backward_of(ranks)
        self.copy, self.inbox, self.weights = self.shares, 2 * self.shares, 2 * self.shares + ranks
        self.seconds = options.updating(model) / self.shares
        # Round by round, every worker turns to another server, lest all queue for the same one.
        self.share = (
            np.arange(ranks, dtype=np.int32) + np.arange(self.shares, dtype=np.int32)[:, None]
        ) % self.shares
        self.first = ranks * options.servers(ranks)
        share = model.parameters / model.gradients / self.shares
        builder = ScheduleBuilder(
            ranks,
            model.gradients,
            slots=self.shares,
            scratch=[share] * self.shares + [1 / self.shares] * ranks + [share],
            unordered=1,
            servers=options.servers(ranks),
        )
        # A failure repeats no steps of others.
        conditions = replace(setting.conditions, failure=None)
        setting = replace(setting, conditions=conditions)
        super().__init__(model, setting, builder, LANES, together=False)
        self.asked = np.full(self.share.shape, -1, dtype=np.int32)
        self.applied = self.asked.copy()
        """The latest request of each worker to the server of each share, and its latest update
        there."""
        self._ask(np.arange(ranks, dtype=np.int32))
        self.updates: list[Updates] = [Updates(*np.zeros((3, 0), dtype=np.int32))]

    def _cycle(self, workers: Ints, failure: Failure | None = None) -> None:
        """Pull, forward, backward, push and update. In a failure the workers are away after their
        forward.

        A worker that has asked gets the parameters when they include its own update and the clock
        allows it.
        """
        builder, phase, factor = self.builder, self.phase, self.factor[workers]
        worker, share = np.tile(workers, self.shares), self.share[:, workers].ravel()
        asked, applied = self.asked[:, workers].ravel(), self.applied[:, workers].ravel()
        server, clock = self.first + share, np.full(len(worker), self._clock())
        phase(Label(kinds.PULL))
        pulled = builder.copy(
            server,
            worker,
            slot=self.weights,
            target=self.copy + share,
            after=columns(asked, applied, clock),
        )
        self.note(worker, asked, pulled)
        phase(Label(kinds.FORWARD))
        copies = {"reads": self.copy, "count": self.shares}
        forward = builder.compute(workers, self.forwards[workers] * factor, **copies)
        if failure:
            phase(Label(kinds.RESTART))
            away = failure.timeout + failure.restart
            self._ask(workers, builder.compute(workers, away, after=columns(forward)))
            return
        phase(Label(kinds.BACKWARD))
        seconds, after = self.backwards[workers] * factor, columns(forward)
        backward = builder.compute(workers, seconds, writes=0, after=after, **copies)
        self._ask(workers, backward)
        phase(Label(kinds.PUSH))
        inbox = self.inbox + worker
        pushed = builder.copy(worker, server, slot=share, target=inbox)
        self.note(worker, pushed, pushed)
        phase(Label(kinds.UPDATE))
        updated = builder.compute(server, self.seconds, lane=SERVER_LANE, reads=inbox)
        self.applied[:, workers] = builder.reduce(
            server, server, slot=inbox, target=self.weights, after=columns(updated)
        ).reshape(self.shares, -1)
        of_share_0 = np.argmin(self.share[:, workers], axis=0)
        pulls = pulled.reshape(self.shares, -1)[of_share_0, np.arange(len(workers))]
        self.updates.append(Updates(workers, pulls, self.applied[of_share_0, workers]))

    def _ask(self, workers: Ints, after: Ints | None = None) -> None:
        self.phase(Label(kinds.PULL))
        worker, share = np.tile(workers, self.shares), self.share[:, workers]
        waits = None if after is None else np.tile(after, self.shares)
        asked = self.builder.signal(worker, self.first + share.ravel(), after=columns(waits))
        self.asked[:, workers] = asked.reshape(share.shape)

    def _holdings(self) -> Holdings:
        """Memory outside of slots: the buffers of workers, and the optimizer state at the
        servers."""
        ranks, state = self.setting.ranks, self.model.parameters * self.model.state
        nbytes = np.zeros(ranks + self.options.servers(ranks))
        nbytes[:ranks] = self.model.buffers
        nbytes[self.first : self.first + self.shares] += state / self.shares
        return Holdings(nbytes, state + self.model.buffers)

    def _words(self) -> tuple[str, ...]:
        text = f"an update takes {format_seconds(self.seconds)}"
        if not self.options.update:
            memory = self.options.memory(self.model)
            rate = f" at {format_bandwidth(memory)}"
            text += rate if memory < inf else ", since no memory bandwidth is known"
        if self.shares == 1:
            return (text,)
        return text, f"staleness is that of 1 of {self.shares} shares"

    def run(self) -> Plan:
        """Run all cycles."""
        for step in range(self.setting.steps):
            self._step(step)
        return self.plan(
            updates=Updates(*map(np.concatenate, zip(*self.updates, strict=True))),
            holdings=self._holdings(),
            words=self._words(),
        )

    def _step(self, step: int) -> None:
        conditions, failure = self.setting.conditions, self.failure
        workers = np.flatnonzero(conditions.has_input(step, self.setting.ranks)).astype(np.int32)
        if failure and failure.step == step and failure.rank in workers:
            self._cycle(np.array([failure.rank], dtype=np.int32), failure)
        if len(workers):
            self._cycle(workers)
        self.end(self._ended())

    def _clock(self) -> int:
        """The operation at which all workers have finished the cycle that must precede the next, or
        -1."""
        if self.bound is None or len(self.ends) <= self.bound:
            return -1
        self.phase(Label(kinds.CLOCK))
        before = self.ends[-self.bound - 1]
        return int(self.builder.compute(self.first, 0.0, lane=CLOCK_LANE, after=before)[0])

    def _ended(self) -> Ints:
        """The operation after which the latest update of each worker is in all shares. At the end
        of the run it is the worker's own: until then it waits for its update."""
        last: Ints = np.where(self.applied < 0, self.asked, self.applied)
        if self.shares == 1 and len(self.ends) < self.setting.steps - 1:
            return np.asarray(last[0])
        self.phase(Label(kinds.APPLIED))
        return self.builder.compute(
            np.arange(self.setting.ranks), 0.0, lane=CLOCK_LANE, after=last.T
        )


STRATEGIES = {"asgd": ASGD, "ssp": SSP}
