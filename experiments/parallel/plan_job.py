"""What trains on which machine: a plan of parallel training under conditions, and its steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from experiments import output
from experiments.models.kernel_times.nccl_calls import laws
from experiments.output import Record
from experiments.parallel.measured_steps import whole_interval
from experiments.parallel.plan_run import PlanRun
from experiments.parallel.plan_step import Training, interval_of, work_of
from experiments.parallel.plan_text import Plan
from experiments.profiles.interval_levels import level_of
from experiments.simulations.rules import Rules
from simulator.parallel.group_times import End, GroupTimes
from simulator.parallel.step import Step, write
from simulator.parallel.step_measures import length_of
from simulator.parallel.step_splits import chained, place_of, simulate, split_step, write_transfers
from simulator.profile import Profile
from simulator.steps import written
from simulator.training.conditions import Conditions, Epochs
from topologies import resources
from topologies.catalogue import Blueprint
from topologies.resources import Need
from topologies.topology import Numbers
from topologies.variants import slowed


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What trains on which machine, whatever the plan is."""

    training: Training
    machine: Blueprint
    rules: Rules
    profile: Profile | None
    """A calibrated library, whose protocols are simulated."""
    resolved: Record
    """What options come to that the user leaves out or shortens: stored with the result."""
    slow_links: Mapping[str | int, float] = field(default_factory=dict)
    """The share of its bandwidth that each slow link, by rank or name, still has."""
    ideal: bool = False
    """Whether collectives take what links take, as on shapes, under a profile and with their
    transfers. Else they take what NCCL does."""
    known: dict[tuple[int, bool, bool], GroupTimes] = field(default_factory=dict, repr=False)
    """Times of collectives that were simulated, by the ranks of the machine, and whether its slow
    links are slow, and NCCL runs. They take most of the time of a simulation, so steps that
    calibrate the device share them with the plan."""

    def software(self, links: object) -> Record:
        """Whose software collectives run under a plan with such `links`: stored with the result;
        empty on links alone."""
        return {} if self.ideal or links == "ideal" else {"software": "nccl"}

    def groups(self, plan: Plan) -> GroupTimes:
        """The times of collectives under a plan."""
        ranks, usual, software = plan.degrees.ranks, None, self.software(plan.links)
        if (key := (ranks, bool(self.slow_links), bool(software))) not in self.known:
            # A shape has at least two devices, also for a single GPU.
            blueprint = self.machine.for_training(ranks)
            if blueprint != self.machine:
                note = "64 GPUs of each rack are used, as runs with groups of 16 to 64 ranks do"
                output.note(f"{note}: used=72 fills racks")
            machine = blueprint.build(max(ranks, 2 if self.machine.kind == "shape" else 1))
            for link, factor in self.slow_links.items():
                machine = slowed(machine, link, factor)
                usual = replace(self, slow_links={}).groups(plan)
            end: End | None = "time" if level_of(self.profile) else None
            self.known[key] = GroupTimes(
                machine,
                plan.degrees,
                profile=self.profile,
                run=self.rules.run,
                end=end,
                usual=usual,
                laws=laws(self.training.times.device) if software else {},
                takes_turns=self.rules.sharing == "fair",
            )
        return self.known[key].under(plan.degrees)


@dataclass(frozen=True, kw_only=True)
class PlanJob(Setting):
    """A plan of parallel training on as many GPUs as it has."""

    plan: Plan
    transfers: bool
    """Whether every transfer of all ranks is simulated, too."""
    conditions: Conditions = field(default_factory=Conditions)
    steps: int = 1
    epochs: Epochs = field(default_factory=Epochs)
    defaults: str = ""
    """The framework whose defaults the plan has, and what they are; empty for none."""

    def step(self) -> Step:
        """The operations of a step."""
        return write(work_of(self.training, self.plan, self.groups(self.plan)))

    def answer(self) -> PlanRun:
        """The simulated steps.

        Raises InputError for a rank that does not exist, and unless by force if that takes hours or
        more memory than is free.
        """
        step, level, transfers_s = self.step(), level_of(self.profile), None
        if self.transfers:
            transfers = write_transfers(step, force=self.rules.force)
            written.prove(transfers)
            transfers_s = simulate(step, transfers).makespan
        plain = whole = step
        places: Numbers = step.graph.place_of
        if self.steps > 1 or self.slow_links or not self.conditions.alike:
            places = self._places(step)
            plain = replace(self, slow_links={}).step() if self.slow_links else step
            whole = chained(split_step(step, places), self.conditions, self.steps)
            if self.steps > 1:
                split = split_step(plain, plain.graph.place_of)
                plain = chained(split, Conditions(), self.steps)

        def seconds_of(changed: Step) -> float:
            if whole is not step:
                changed = chained(split_step(changed, places), self.conditions, self.steps)
            return length_of(changed) / self.steps

        return PlanRun(
            self.training,
            self.plan,
            step,
            plain,
            whole,
            self.conditions,
            self.steps,
            transfers_s,
            whole_interval(
                step,
                self.training,
                level,
                interval_of(step.work, level, seconds=seconds_of) if level else None,
            ),
            self.epochs,
            self.defaults,
        )

    def _places(self, step: Step) -> Numbers:
        places = place_of(step, self.conditions, self.steps)
        count = int(places.max()) + 1
        tasks = len(step.graph) * count / step.graph.places
        tasks *= len(self.conditions.attempts(self.steps))
        # To write, simulate and measure a task takes 5 us and 1500 bytes.
        need = Need(tasks * 5e-6, tasks * 1500.0)
        if self.conditions.sigma or self.conditions.observed:
            instead = f"{count} places instead of {step.graph.places}"
            lasts = resources.duration(need.seconds)
            output.note(f"ranks differ by noise: {instead}, some {lasts} of CPU")
        if not self.rules.force:
            subject = f"{count} places have {tasks:.3g} tasks"
            resources.check(subject, need, "take fewer steps or ranks")
        return places

    def on_links(self) -> PlanJob:
        """The job where collectives take what links take, as those of strategies do."""
        stored = {name: value for name, value in self.resolved.items() if name != "software"}
        return replace(self, ideal=True, resolved=stored)

    @property
    def gpus(self) -> int:
        return self.plan.degrees.ranks

    def row(self) -> Record:
        return self.answer().table_row

    def records(self) -> list[Record]:
        return [self.answer().record]
