"""A training run: a model, a strategy and a machine, simulated and measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Literal, NamedTuple

import numpy as np

from experiments.output import Value
from experiments.simulations.rules import DEFAULT, Rules
from experiments.training.changes import (
    CHANGES,
    HALF_LATENCY,
    TWICE_BANDWIDTH,
    TWICE_COMPUTE,
    Change,
)
from experiments.training.epochs import Epochs
from simulator.analysis.critical_path import PARTS, Path, trace_back, worth
from simulator.analysis.memory import Memory
from simulator.analysis.waits import Wait, waits
from simulator.schedules import semantics
from simulator.schedules.timeline import Timeline
from simulator.training import Strategy
from simulator.training.conditions import Conditions
from simulator.training.explanation import explanation_of
from simulator.training.footprint import footprint
from simulator.training.measures import Measures, measure, window
from simulator.training.model import Model
from simulator.training.plan import RESTART, Plan, Setting, prove
from simulator.training.plan_simulation import train
from simulator.training.replay import Replayed
from simulator.training.size import AGAIN, OPERATION, QUICK, WRITTEN
from topologies.catalogue import Blueprint
from topologies.degraded import slowed
from topologies.topology import Topology


@dataclass(frozen=True)
class Job:
    """Everything that defines a run, except its number of workers."""

    model: Model
    name: str
    """The name of the strategy."""
    strategy: Strategy
    machine: Blueprint
    rules: Rules = DEFAULT
    steps: int = 1
    conditions: Conditions = field(default_factory=Conditions)
    slow_links: Mapping[str | int, float] = field(default_factory=dict)
    """The share of its bandwidth that each slow link, by rank or name, still has."""
    detail: Literal["auto", "transfers"] = "auto"
    """Whether every transfer is simulated, or only where that is quick."""
    epochs: Epochs = field(default_factory=Epochs)
    """The time of an epoch beside its steps, and the rate of the input."""

    def topology(self, ranks: int) -> Topology:
        """The machine with devices for `ranks` workers and their servers."""
        servers = self.strategy.servers(ranks)
        machine = self.machine if ranks > 1 else replace(self.machine, placement="node")
        fewest = 2 - servers if machine.kind == "shape" else 1
        topology = machine.build(max(ranks, fewest), servers, server_kind=self.strategy.server_kind)
        for link, factor in self.slow_links.items():
            topology = slowed(topology, link, factor)
        return topology

    def setting(self, ranks: int) -> Setting:
        """Where and how long `ranks` workers train, and what of it is simulated."""
        symmetric = self.rules.symmetry == "auto"
        replays = self.detail == "auto" and self.rules.training().replays
        most = WRITTEN if replays else inf
        return Setting(
            self.topology(ranks),
            ranks,
            self.steps,
            self.conditions,
            outline_beyond=most,
            symmetric=symmetric,
            force=self.rules.force,
        )

    def plan(self, ranks: int) -> Plan:
        """The operations of `ranks` workers."""
        return self.strategy.plan(self.model, self.setting(ranks))

    def run(self, ranks: int, plan: Plan | None = None) -> TrainingRun:
        """Simulate the job on `ranks` workers, whose operations are those of `plan`, if it is
        there already."""
        plan = plan or self.plan(ranks)
        return TrainingRun(self, ranks, plan, train(plan, self.rules.training()))

    def simulates_again(self, plan: Plan) -> bool:
        """Whether it is quick to simulate `plan` under each change, or asked for by `force`."""
        return self.rules.force or plan.operations <= QUICK

    def seconds(self, plan: Plan, again: bool) -> float:
        """What it takes to simulate and explain `plan`, and `again` under each change, within a
        factor of about two."""
        times = 1 + again * len(CHANGES)
        written = OPERATION.seconds * len(plan.schedule)
        return written + AGAIN.seconds * times * plan.operations

    def alone(self, ranks: int) -> float:
        """Samples per second of a single worker, without disturbances.

        It runs where the first of `ranks` workers and its server would run.
        """
        topology = replace(self, slow_links={}).topology(ranks)
        servers = topology.placement[ranks:][: self.strategy.servers(1)]
        topology = replace(topology, placement=np.append(topology.placement[:1], servers))
        plan = self.strategy.plan(self.model, Setting(topology, 1, self.steps, force=True))
        return measure(plan, train(plan, self.rules.training())).samples_per_s


WhatIf = Mapping[str, tuple[float, float | None]]
"""Seconds of a step, to first order and simulated, by what changes."""


@dataclass(frozen=True)
class TrainingRow:
    """A run in a table. Seconds are means over the workers, for a step."""

    model: str
    device: str
    strategy: str
    ranks: int
    """The number of workers."""
    batch: int
    """Samples of a worker in a step."""
    step_s: float
    samples_per_s: float
    """Samples per second of all workers together."""
    efficiency: float
    """`samples_per_s` as a share of what as many workers without communication would reach."""
    computing_s: float
    restarting_s: float
    """Time lost to restarts after a failure."""
    exposed_s: float
    """Communication while the worker does not compute."""
    hidden_s: float
    """Communication while the worker computes."""
    transfer_s: float
    """Bubbles in which the worker waits for messages."""
    contention_s: float
    """Bubbles in which such a message waits behind messages of other ranks."""
    slower_peer_s: float
    """Bubbles in which the worker waits for a computation of another rank."""
    drain_s: float
    """Bubbles at the end of the run, in which the worker has nothing left to do."""
    volume_B: float
    """Bytes that all ranks send in a step."""
    peak_B: float | None
    """Peak memory of the fullest rank, None if there are too many operations to trace it."""
    redundant_B: float | None
    """The peak amount of duplicate data over all ranks, None as above."""
    staleness: float
    """Mean number of updates between reading parameters and updating them."""
    staleness_max: int


class Simulated(NamedTuple):
    """What of a run has been simulated."""

    ranks: int
    """The workers that stand for all."""
    collectives: int
    """The collectives that are timed as a whole; 0: all transfers are simulated at their time."""
    replayed: int
    """Those of them that have the times of an earlier simulation."""
    rounds: int
    """How often collectives were simulated again, together."""

    def words(self, ranks: int) -> tuple[str, str]:
        """The same for people, of a run of `ranks` workers."""
        who = "all ranks" if ranks == self.ranks else f"{self.ranks} of {ranks} ranks"
        if not self.collectives:
            return who, "all transfers"
        rounds = f", {self.rounds} rounds" if self.rounds else ""
        simulated = self.collectives - self.replayed
        return who, (
            f"{self.collectives} collectives: {simulated} simulated, {self.replayed} "
            f"replayed{rounds}"
        )


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """A job that has been simulated."""

    job: Job
    ranks: int
    plan: Plan
    timeline: Timeline

    @cached_property
    def measures(self) -> Measures:
        """Times of steps, bubbles and communication."""
        return measure(self.plan, self.timeline)

    @cached_property
    def memory(self) -> Memory | None:
        """The memory of each rank over time, None if there are too many operations to trace it."""
        if self.plan.blocks or len(self.plan.schedule) > WRITTEN:
            return None
        return footprint(self.plan, self.timeline)

    @property
    def places(self) -> list[int]:
        """The place of the worker that stands for each rank."""
        ranks, shifts = np.arange(self.ranks), self.plan.shifts
        places: list[int] = (ranks if shifts is None else shifts.place(ranks)).tolist()
        return places

    @property
    def simulated(self) -> Simulated:
        """What stands for the run."""
        ranks, blocks = len(self.plan.standing), self.plan.blocks
        if not isinstance(self.timeline, Replayed):
            return Simulated(ranks, 0, 0, 0)
        replay = self.timeline.replay
        assert replay is not None
        return Simulated(ranks, len(blocks), replay.replayed, replay.counts.rounds)

    @property
    def samples(self) -> float:
        """Samples of a step, all workers together."""
        return self.measures.window.samples / self.measures.window.steps

    @property
    def least(self) -> float:
        """Seconds in which the input pipeline reads the samples of a step."""
        return self.job.epochs.reading(self.samples)

    @property
    def input_s(self) -> float:
        """Seconds of a step in which all workers wait for input."""
        return max(0.0, self.least - self.measures.step)

    @cached_property
    def path(self) -> Path:
        """The critical path to the end of the measured steps."""
        last = self.measures.window.last
        if isinstance(self.timeline, Replayed):
            return explanation_of(self.timeline).path(last)
        return trace_back(self.timeline, last)

    @property
    def length(self) -> float:
        """Seconds of the critical path."""
        return float(self.timeline.finish[self.measures.window.last])

    @cached_property
    def waits(self) -> list[Wait]:
        """The waits on the critical path behind messages of other ranks."""
        return waits(self.timeline, self.path.take(self.path.contended))

    @property
    def _steps(self) -> float:
        """Steps of the whole run. Without a fixed order of updates, p updates make a step."""
        updates = self.plan.updates
        return (
            len(updates.worker) / self.plan.workers
            if updates and len(updates.worker)
            else self.plan.steps
        )

    @property
    def title(self) -> str:
        """Model, batch, device, strategy, ranks and machine in words."""
        job, model = self.job, self.job.model
        what = f"{model.name}, batch {model.batch} on {model.device}, {job.name}"
        return f"{what}, {self.ranks} rank{'' if self.ranks == 1 else 's'} of {job.machine.text}"

    @cached_property
    def wrong(self) -> str:
        """How the result of a step differs from the strategy's promise, "" if it does not."""
        promise = self.job.strategy.promise
        if promise is None:
            return ""
        plan, strategy = self.plan, self.job.strategy
        if plan.steps > 1:
            setting = replace(self.job.setting(self.ranks), steps=1, conditions=Conditions())
            plan = strategy.plan(self.job.model, setting)
        try:
            prove(plan, promise)
        except semantics.WrongResult as error:
            return str(error)
        return ""

    @property
    def proof(self) -> str:
        """The promise that has been proven for a step."""
        promise = self.job.strategy.promise
        return (
            f"{'buckets' if self.plan.blocks else 'a step'} proven: {promise.name} of the gradients"
            if promise
            else "in the order of service: not proven"
        )

    def by_phase(self) -> dict[str, float]:
        """Seconds of computation on the critical path by the first word of the phase."""
        schedule, total = self.timeline.schedule, dict[str, float]()
        compute = self.path.take(self.path.charged == PARTS.index("compute"))
        phases = schedule.phase[compute.operation].tolist()
        for phase, seconds in zip(phases, compute.seconds.tolist(), strict=True):
            if seconds > 0:
                kind = schedule.phases[phase].partition(" ")[0]
                total[kind] = total.get(kind, 0.0) + seconds
        return dict(sorted(total.items(), key=lambda item: -item[1]))

    @cached_property
    def row(self) -> TrainingRow:
        """The run as a row of a table."""
        measures, steps = self.measures, self.measures.window.steps
        memory = self.memory
        rate = min(measures.samples_per_s, self.job.epochs.input_rate)
        causes = measures.bubbles.seconds.mean(axis=0) / steps
        return TrainingRow(
            model=self.plan.model.name,
            device=self.plan.model.device,
            strategy=self.job.name,
            ranks=self.ranks,
            batch=self.plan.model.batch,
            step_s=max(measures.step, self.least),
            samples_per_s=rate,
            efficiency=rate / (self.ranks * self.job.alone(self.ranks)),
            computing_s=float(measures.computing.mean()) / steps,
            restarting_s=float(measures.restarting.mean()) / steps,
            exposed_s=float(measures.exposed.mean()) / steps,
            hidden_s=float(measures.hidden.mean()) / steps,
            transfer_s=float(causes[0]),
            contention_s=float(causes[1]),
            slower_peer_s=float(causes[2]),
            drain_s=float(causes[3]),
            volume_B=self.plan.volume / self._steps,
            peak_B=memory.peak if memory else None,
            redundant_B=memory.peak_redundant if memory else None,
            staleness=float(measures.staleness.mean()) if len(measures.staleness) else 0.0,
            staleness_max=int(measures.staleness.max(initial=0)),
        )

    @property
    def record(self) -> dict[str, Value]:
        """The row with the time of epochs, as far as the job asks for it."""
        row = self.row
        return {**asdict(row), **self.job.epochs.columns(self.samples, row.step_s, self.input_s)}

    def what_if(self, *, always: bool = False) -> WhatIf:
        """Seconds of a step with twice the bandwidth, half the latency, and twice the compute.

        Each is a pair: to first order, from the critical path of this run, and simulated. Large
        runs are simulated again `always`, or not at all.
        """
        again = always or self.job.simulates_again(self.plan)
        steps = self.measures.window.steps
        half = {part: seconds / 2 / steps for part, seconds in worth(self.path).items()}
        now = self.length / steps
        first_order = {
            TWICE_BANDWIDTH: now - half["serialisation"],
            HALF_LATENCY: now - half["latency"] - half["gap"],
            TWICE_COMPUTE: now - half["compute"] + self._restarts() / 2,
        }
        return {
            name: (
                max(first_order[name], self.least),
                max(self._simulated(change), self.least) if again else None,
            )
            for name, change in CHANGES.items()
        }

    def _restarts(self) -> float:
        """Seconds of a step that restarts take on the critical path. A faster device does not
        shorten them."""
        return self.by_phase().get(RESTART, 0.0) / self.measures.window.steps

    def _simulated(self, change: Change) -> float:
        seconds, rules = change.seconds(self.plan), self.job.rules.training(change.machine)
        timeline = train(self.plan, rules, seconds)
        counted = window(self.plan, timeline)
        return float(timeline.finish[counted.last]) / counted.steps
