"""One training run: a model, a strategy and a machine; simulated, measured, explained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from experiments.simulations.sweep import DEFAULT, Rules
from simulator.analysis.critical_path import Segment, critical_path, worth
from simulator.analysis.memory import Memory
from simulator.analysis.waits import Wait, waits
from simulator.schedules import semantics
from simulator.schedules.schedule import COMPUTE as COMPUTATION
from simulator.schedules.timeline import Timeline
from simulator.training import Strategy
from simulator.training.conditions import Conditions
from simulator.training.footprint import footprint
from simulator.training.measures import Measures, measure, window
from simulator.training.model import Model
from simulator.training.plan import RESTART, Plan, Setting
from simulator.training.run import train
from topologies.catalogue import Blueprint
from topologies.degraded import slowed
from topologies.topology import Topology


@dataclass(frozen=True)
class Job:
    """What is asked: everything but the number of ranks."""

    model: Model
    name: str
    strategy: Strategy
    machine: Blueprint
    rules: Rules = DEFAULT
    steps: int = 1
    conditions: Conditions = field(default_factory=Conditions)
    slow_links: Mapping[str, float] = field(default_factory=dict)

    def topology(self, ranks: int) -> Topology:
        """The machine with devices for `ranks` workers and the servers that they need."""
        servers = self.strategy.servers(ranks)
        machine = self.machine if ranks > 1 else replace(self.machine, placement="node")
        fewest = 2 - servers if machine.kind == "shape" else 1
        topology = machine.build(max(ranks, fewest), servers, server_kind=self.strategy.server_kind)
        for link, factor in self.slow_links.items():
            topology = slowed(topology, link, factor)
        return topology

    def run(self, ranks: int) -> Run:
        """The job on `ranks` workers."""
        setting = Setting(self.topology(ranks), ranks, self.steps, self.conditions)
        plan = self.strategy.plan(self.model, setting)
        return Run(self, ranks, plan, train(plan, self.rules.simulate))

    def alone(self, ranks: int) -> float:
        """Samples per second of the first of `ranks` workers by itself (with its server) where
        nothing disturbs."""
        topology = replace(self, slow_links={}).topology(ranks)
        servers = topology.placement[ranks:][: self.strategy.servers(1)]
        topology = replace(topology, placement=np.append(topology.placement[:1], servers))
        plan = self.strategy.plan(self.model, Setting(topology, 1, self.steps))
        return measure(plan, train(plan, self.rules.simulate)).samples_per_s


TRACED = 2_000_000
"""Operations up to which the memory is followed: beyond, that takes longer than everything else."""


@dataclass(frozen=True)
class Row:
    """One run, units in the names: all are means over ranks, and over steps where they are of a
    step. Memory is traced up to `TRACED` operations."""

    model: str
    device: str
    strategy: str
    ranks: int
    batch: int
    step_s: float
    samples_per_s: float
    efficiency: float
    computing_s: float
    restarting_s: float
    exposed_s: float
    hidden_s: float
    transfer_s: float
    contention_s: float
    slower_peer_s: float
    drain_s: float
    volume_B: float
    peak_B: float | None
    redundant_B: float | None
    staleness: float
    staleness_max: int


@dataclass(frozen=True, eq=False)
class Run:
    """A job that has been simulated."""

    job: Job
    ranks: int
    plan: Plan
    timeline: Timeline

    @cached_property
    def measures(self) -> Measures:
        """What it costs."""
        return measure(self.plan, self.timeline)

    @cached_property
    def memory(self) -> Memory | None:
        """What is held over time, if that is not too much to follow."""
        return footprint(self.plan, self.timeline) if len(self.plan.schedule) <= TRACED else None

    @cached_property
    def path(self) -> list[Segment]:
        """The critical path to the end of what is counted."""
        return critical_path(self.timeline, self.measures.window.last)

    @property
    def length(self) -> float:
        """Seconds of the critical path."""
        return float(self.timeline.finish[self.measures.window.last])

    @cached_property
    def waits(self) -> list[Wait]:
        """Who waits behind whom on the critical path."""
        return waits(self.timeline, self.path)

    @property
    def _steps(self) -> float:
        """Steps of the whole run; without a fixed order of updates, p updates are a step."""
        updates = self.plan.updates
        return (
            len(updates.worker) / self.plan.workers
            if updates and len(updates.worker)
            else self.plan.steps
        )

    @property
    def title(self) -> str:
        """What ran where, in words."""
        job, model = self.job, self.job.model
        what = f"{model.name}, batch {model.batch} on {model.device}, {job.name}"
        return f"{what}, {self.ranks} rank{'' if self.ranks == 1 else 's'} of {job.machine.text}"

    @cached_property
    def wrong(self) -> str:
        """What a step computes that it should not, or nothing."""
        promise = self.job.strategy.promise
        if promise is None:
            return ""
        topology = self.job.topology(self.ranks)
        plan = self.plan
        if plan.steps > 1:
            plan = self.job.strategy.plan(self.job.model, Setting(topology, self.ranks))
        try:
            semantics.check(plan.schedule, promise)
        except semantics.WrongResult as error:
            return str(error)
        return ""

    @property
    def proof(self) -> str:
        """What has been proven of a step."""
        promise = self.job.strategy.promise
        return (
            f"a step proven: {promise.name} of the gradients"
            if promise
            else "in the order of service: not proven"
        )

    def by_phase(self) -> dict[str, float]:
        """Seconds of computation on the critical path by kind of phase."""
        schedule, total = self.timeline.schedule, dict[str, float]()
        for segment in self.path:
            if segment.part == "compute" and segment.seconds > 0 and not segment.contended:
                kind = schedule.phases[schedule.phase[segment.operation]].partition(" ")[0]
                total[kind] = total.get(kind, 0.0) + segment.seconds
        return dict(sorted(total.items(), key=lambda item: -item[1]))

    @cached_property
    def row(self) -> Row:
        """The run as a row of a table."""
        found, steps = self.measures, self.measures.window.steps
        memory = self.memory
        causes = found.bubbles.seconds.mean(axis=0) / steps
        return Row(
            model=self.plan.model.name,
            device=self.plan.model.device,
            strategy=self.job.name,
            ranks=self.ranks,
            batch=self.plan.model.batch,
            step_s=found.step,
            samples_per_s=found.samples_per_s,
            efficiency=found.samples_per_s / (self.ranks * self.job.alone(self.ranks)),
            computing_s=float(found.computing.mean()) / steps,
            restarting_s=float(found.restarting.mean()) / steps,
            exposed_s=float(found.exposed.mean()) / steps,
            hidden_s=float(found.hidden.mean()) / steps,
            transfer_s=float(causes[0]),
            contention_s=float(causes[1]),
            slower_peer_s=float(causes[2]),
            drain_s=float(causes[3]),
            volume_B=self.timeline.schedule.volume / self._steps,
            peak_B=memory.peak if memory else None,
            redundant_B=memory.peak_redundant if memory else None,
            staleness=float(found.staleness.mean()) if len(found.staleness) else 0.0,
            staleness_max=int(found.staleness.max(initial=0)),
        )

    def what_if(self) -> dict[str, tuple[float, float]]:
        """Seconds a step with twice the bandwidth, half the latency and twice the compute: to first
        order from what each is worth on the critical path, and simulated."""
        steps = self.measures.window.steps
        half = {part: seconds / 2 / steps for part, seconds in worth(self.path).items()}
        now = self.length / steps
        first_order = {
            TWICE_BANDWIDTH: now - half["serialisation"],
            HALF_LATENCY: now - half["latency"] - half["gap"],
            TWICE_COMPUTE: now - half["compute"] + self._restarts() / 2,
        }
        return {
            name: (first_order[name], self._simulated(change)) for name, change in CHANGES.items()
        }

    def _restarts(self) -> float:
        """Seconds a step that restarts take on the critical path: no device makes them faster."""
        return self.by_phase().get(RESTART, 0.0) / self.measures.window.steps

    def _simulated(self, change: Callable[[Plan], Plan]) -> float:
        timeline = train(plan := change(self.plan), self.job.rules.simulate)
        counted = window(plan, timeline)
        return float(timeline.finish[counted.last]) / counted.steps


TWICE_BANDWIDTH, HALF_LATENCY, TWICE_COMPUTE = (
    "twice the bandwidth",
    "half the latency",
    "twice the compute",
)


def _wider(plan: Plan) -> Plan:
    return replace(
        plan, topology=replace(plan.topology, medium_bandwidth=plan.topology.medium_bandwidth * 2)
    )


def _sooner(plan: Plan) -> Plan:
    topology = plan.topology
    return replace(
        plan,
        topology=replace(
            topology, latency=topology.latency / 2, medium_gap=topology.medium_gap / 2
        ),
    )


def _faster(plan: Plan) -> Plan:
    schedule = plan.schedule
    restarts = np.array([phase == RESTART for phase in schedule.phases])[schedule.phase]
    computed = (schedule.kind == COMPUTATION) & ~restarts
    return replace(
        plan,
        schedule=replace(
            schedule, seconds=np.where(computed, schedule.seconds / 2, schedule.seconds)
        ),
    )


CHANGES: dict[str, Callable[[Plan], Plan]] = {
    TWICE_BANDWIDTH: _wider,
    HALF_LATENCY: _sooner,
    TWICE_COMPUTE: _faster,
}
