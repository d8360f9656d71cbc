"""A training run: a model, a strategy and a machine, simulated and measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Any, Literal

import numpy as np

from experiments.models.accelerators import ACCELERATORS
from experiments.profiles.interval_levels import interval_columns
from experiments.simulations.rules import DEFAULT, Rules
from experiments.training.library_costs import (
    LibraryCosts,
    costs_of,
    overhead_of,
    slower_calls,
    with_links,
)
from simulator.analysis.bubbles import CAUSES
from simulator.analysis.critical_path import PARTS, CriticalPath, QueueWait, critical_path, waits
from simulator.analysis.memory import MemoryTrace
from simulator.profile import Profile
from simulator.schedules import semantics
from simulator.schedules.timeline import Timeline
from simulator.steps.kinds import KINDS
from simulator.training import Strategy
from simulator.training.conditions import Conditions, Epochs
from simulator.training.footprint import footprint, kept
from simulator.training.measures import Measures, measure
from simulator.training.model import Model
from simulator.training.plan import Plan, Setting, prove
from simulator.training.plan_simulation import train
from simulator.training.priced_run import PricedTimeline
from simulator.training.size import WRITTEN
from simulator.uncertainty.interval import Interval
from topologies.catalogue import Blueprint
from topologies.topology import Topology
from topologies.variants import slowed


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
    profile: Profile | None = None
    """A calibrated library, whose fastest protocol is simulated."""

    def topology(self, ranks: int) -> Topology:
        """The machine with devices for `ranks` workers and their servers."""
        servers = self.strategy.servers(ranks)
        machine = self.machine if ranks > 1 else replace(self.machine, placement="node")
        fewest = 2 - servers if machine.kind == "shape" else 1
        topology = machine.build(max(ranks, fewest), servers, server_kind=self.strategy.server_kind)
        for link, factor in self.slow_links.items():
            topology = slowed(topology, link, factor)
        if self.profile is None:
            return topology
        merge = self.profile.memory.merge(self.model.gradients)
        return replace(topology, reduction=np.full_like(topology.reduction, merge))

    def setting(self, ranks: int) -> Setting:
        """Where and how long `ranks` workers train, and what of it is simulated."""
        symmetric = self.rules.symmetry == "auto"
        # Under fair sharing, rings that lost step share links with themselves.
        is_priced = self.detail == "auto" and self.rules.sharing == "fifo"
        most = WRITTEN if is_priced else inf
        topology, overhead = self.topology(ranks), None
        if self.profile is not None:
            overhead = overhead_of(self.profile, self.strategy, topology)
        return Setting(
            topology,
            ranks,
            self.steps,
            self.conditions,
            priced_beyond=most,
            symmetric=symmetric,
            force=self.rules.force,
            overhead=overhead,
        )

    def plan(self, ranks: int) -> Plan:
        """The operations of `ranks` workers."""
        return self.strategy.plan(self.model, self.setting(ranks))

    def run(self, ranks: int, plan: Plan | None = None) -> TrainingRun:
        """Simulate the job on `ranks` workers, whose operations are those of `plan`, if it is
        there already."""
        plan = plan or self.plan(ranks)
        if self.profile is None or not plan.volume:
            return TrainingRun(self, ranks, plan, train(plan, self.rules.run_exactly))
        costs = costs_of(self.profile, self.strategy, plan, self.rules)
        timeline = train(plan, self.rules.run_exactly, machine=costs.machine)
        return TrainingRun(self, ranks, plan, timeline, costs)

    def alone(self, ranks: int, costs: LibraryCosts | None = None) -> float:
        """Samples per second of a single worker, without disturbances.

        It runs where the first of `ranks` workers would run, or with a server the worker that is
        nearest to it. Its links have the `costs` of a library.
        """
        topology = replace(self, slow_links={}).topology(ranks)
        servers = topology.placement[ranks:][: self.strategy.servers(1)]
        worker = topology.placement[self._nearest(topology, ranks) if len(servers) else 0]
        topology = replace(topology, placement=np.append(worker, servers))
        plan = self.strategy.plan(self.model, Setting(topology, 1, self.steps, force=True))
        timeline = train(plan, self.rules.run_exactly, machine=costs and costs.machine)
        return measure(plan, timeline).samples_per_s

    def _nearest(self, topology: Topology, ranks: int) -> int:
        """The worker that reaches the first server soonest with all gradients."""

        def seconds(worker: int) -> float:
            links = list(topology.route(worker, ranks))
            slowest = topology.bandwidth[links].min(initial=inf)
            return float(topology.latency[links].sum() + self.model.gradients / slowest)

        return min(range(ranks), key=seconds)


CAUSE_KEYS = tuple(cause.replace(" ", "_") for cause in CAUSES)


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """A job that has been simulated."""

    job: Job
    ranks: int
    plan: Plan
    timeline: Timeline
    costs: LibraryCosts | None = None
    """What the library makes of the calls."""

    @cached_property
    def measures(self) -> Measures:
        """Times of steps, bubbles and communication."""
        return measure(self.plan, self.timeline)

    @cached_property
    def memory(self) -> MemoryTrace | None:
        """The memory of each rank over time, None if there are too many operations to trace it."""
        if len(self.plan.schedule) > WRITTEN:
            return None
        return footprint(self.plan, self.timeline)

    @property
    def held(self) -> float:
        """Bytes that the fullest worker holds at most; without messages on their way if the memory
        is not traced."""
        if self.memory is None:
            return kept(self.plan)
        return float(self.memory.peaks[: self.ranks].max())

    @property
    def capacity(self) -> float | None:
        """Bytes of the memory of a device, None if it is not known."""
        device = ACCELERATORS.get(self.plan.model.device)
        return device.capacity if device else None

    @property
    def places(self) -> list[int]:
        """The place of the worker that stands for each rank."""
        places: list[int] = self.plan.place_of.tolist()
        return places

    @property
    def simulated(self) -> dict[str, int]:
        """How many workers stand for all (`ranks`), how many collectives are timed as a whole, and
        how many of these have the time of an earlier one (`alike`)."""
        counts = {"ranks": len(self.plan.standing), "collectives": 0, "alike": 0}
        if isinstance(self.timeline, PricedTimeline):
            counts["collectives"] = len(self.plan.collectives)
            counts["alike"] = counts["collectives"] - len(self.timeline.alone)
        return counts

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
    def path(self) -> CriticalPath:
        """The critical path to the end of the measured steps."""
        last = self.measures.window.last
        if isinstance(self.timeline, PricedTimeline):
            return self.timeline.path(last)
        return critical_path(self.timeline, last)

    @property
    def length(self) -> float:
        """Seconds of the critical path."""
        return float(self.timeline.finish[self.measures.window.last])

    @cached_property
    def waits(self) -> list[QueueWait]:
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
        if promise is None:
            return "in the order of service: not proven"
        subject = "buckets" if self.plan.is_priced else "a step"
        return f"{subject} proven: {promise.name} of the gradients"

    def by_phase(self) -> dict[str, float]:
        """Seconds of computation on the critical path by kind."""
        total = dict[str, float]()
        compute = self.path.take(self.path.charged == PARTS.index("compute"))
        tasks = np.searchsorted(self.plan.first, compute.operation, side="right") - 1
        kinds = self.plan.graph.kind[tasks].tolist()
        for kind, seconds in zip(kinds, compute.seconds.tolist(), strict=True):
            if seconds > 0:
                total[KINDS[kind]] = total.get(KINDS[kind], 0.0) + seconds
        return dict(sorted(total.items(), key=lambda item: -item[1]))

    @cached_property
    def row(self) -> dict[str, Any]:
        """The run as a row of a table. Seconds are means over the workers, for a step; bytes are
        the peak of the fullest rank, and what all ranks send in a step."""
        measures, interval, memory = self.measures, self.interval, self.memory
        steps, staleness = measures.window.steps, measures.staleness
        rate, step = min(measures.samples_per_s, self.job.epochs.input_rate), self.step
        causes = (measures.bubbles.mean(axis=0) / steps).tolist()
        alone = self.job.alone(self.ranks, self.costs)
        return {
            "model": self.plan.model.name,
            "device": self.plan.model.device,
            "strategy": self.job.name,
            "ranks": self.ranks,
            "batch": self.plan.model.batch,
            "step_s": step,
            "samples_per_s": rate,
            # A share of what as many workers without communication would reach.
            "efficiency": rate / (self.ranks * alone),
            "computing_s": float(measures.computing.mean()) / steps,
            "restarting_s": float(measures.restarting.mean()) / steps,
            "exposed_s": float(measures.exposed.mean()) / steps,
            "hidden_s": float(measures.hidden.mean()) / steps,
            **{f"{cause}_s": seconds for cause, seconds in zip(CAUSE_KEYS, causes, strict=True)},
            "volume_B": self.plan.volume / self._steps,
            "peak_B": memory.peak if memory else self.held,
            "redundant_B": memory.peak_redundant if memory else None,
            "staleness": float(staleness.mean()) if len(staleness) else 0.0,
            "staleness_max": int(staleness.max(initial=0)),
            "fits": None if self.capacity is None else self.held <= self.capacity,
            **interval_columns(interval),
            "unsure": "; ".join(interval.unsure) if interval else None,
            **self.job.epochs.columns(self.samples, step, self.input_s),
        }

    @property
    def idle_s(self) -> float:
        """Seconds of a step in which a mean worker neither computes, restarts or communicates nor
        waits for input."""
        row = self.row
        busy = row["computing_s"] + row["restarting_s"] + row["exposed_s"] + self.input_s
        return float(row["step_s"] - busy)

    @property
    def step(self) -> float:
        """Seconds of a step, in which the input pipeline reads its samples."""
        return max(self.measures.step, self.least)

    @cached_property
    def interval(self) -> Interval | None:
        """The step with all calls at the same end of their intervals: a machine's errors are
        shared by its calls. None without a library that says how sure it is."""
        calls = self.costs and self.costs.interval
        if not calls:
            return None
        expected, low, high = (self._slower(factor) for factor in calls[:3])
        return calls._replace(expected=expected, low=low, high=high)

    def _slower(self, factor: float) -> float:

        def machine(topology: Topology) -> Topology:
            assert self.costs
            return with_links(self.costs.machine(topology), factor, 1 / factor)

        seconds = slower_calls(self.plan, factor)
        timeline = train(self.plan, self.job.rules.run_exactly, seconds, machine)
        return max(measure(self.plan, timeline).step, self.least)
