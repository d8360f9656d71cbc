"""Several training runs: variants of a job at some numbers of workers, and plans; and what changes
of a machine or of its devices would save in a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments.output import Record, Value
from experiments.training.job import Job, TrainingRun
from experiments.training.strategy_options import SweptValue
from experiments.training.training_table import COLUMNS

if TYPE_CHECKING:
    from experiments.parallel.plan_job import PlanJob
from experiments.training.library_costs import with_links
from simulator.analysis.critical_path import worth
from simulator.steps.kinds import KINDS, RESTART
from simulator.training.measures import window
from simulator.training.plan import Plan
from simulator.training.plan_simulation import train
from simulator.training.size import AGAIN, OPERATION, QUICK
from topologies.topology import Topology

CHANGES = dict(zip(COLUMNS, ((1.0, 2.0, 1.0), (0.5, 1.0, 1.0), (1.0, 1.0, 2.0)), strict=True))
"""Multiples of latencies, of bandwidths, and of the rate of computations."""
WhatIf = Mapping[str, Mapping[str, float | None]]
"""Seconds of a step by what changes: to first order (`first_order`), and `simulated`."""


def simulates_again(job: Job, plan: Plan) -> bool:
    """Whether it is quick to simulate `plan` under each change, or asked for by `force`."""
    return job.rules.force or plan.operations <= QUICK


def run_seconds(plan: Plan, again: bool) -> float:
    """What it takes to simulate and explain `plan`, and `again` under each change, within a factor
    of about two."""
    times = 1 + again * len(CHANGES)
    return OPERATION.seconds * len(plan.schedule) + AGAIN.seconds * times * plan.operations


def what_if(run: TrainingRun, *, always: bool = False) -> WhatIf:
    """Seconds of a step under each change: to first order from the critical path of the run, and
    simulated. Large runs are simulated again `always`, or not at all. Routes stay."""
    again = always or simulates_again(run.job, run.plan)
    steps, spent = run.measures.window.steps, worth(run.path)
    # A faster device does not shorten restarts.
    computing = spent["compute"] - run.by_phase().get(KINDS[RESTART], 0.0)
    twice = spent["serialisation"], spent["latency"] + spent["gap"], computing
    return {
        name: {
            "first_order": max((run.length - seconds / 2) / steps, run.least),
            "simulated": max(_simulated(run, *CHANGES[name]), run.least) if again else None,
        }
        for name, seconds in zip(CHANGES, twice, strict=True)
    }


def _simulated(run: TrainingRun, latency: float, bandwidth: float, compute: float) -> float:

    def machine(topology: Topology) -> Topology:
        usual = run.costs.machine(topology) if run.costs else topology
        return with_links(usual, latency, bandwidth)

    plan, usual_seconds = run.plan, run.plan.schedule.seconds
    seconds, restarts = usual_seconds / compute, plan.first[plan.graph.kind == RESTART]
    seconds[restarts] = usual_seconds[restarts]
    timeline = train(plan, run.job.rules.run_exactly, seconds, machine)
    counted = window(plan, timeline)
    return float(timeline.finish[counted.last]) / counted.steps


class RunOutcome(NamedTuple):
    """What is kept of a training run."""

    record: dict[str, Value]
    """The run as a row."""
    failure: str = ""
    """How its result is wrong, "" if it is right."""


@dataclass(frozen=True)
class TrainingGrid:
    """Every variant of a job at every number of workers, then plans, numbered in that order from
    0."""

    swept: str
    """The option of which the variants have different values, if any."""
    variants: Sequence[tuple[SweptValue | None, Job]]
    """Its values with their jobs."""
    ranks: Sequence[int]
    """Numbers of workers."""
    resolved: Record
    """What options come to that the user leaves out or shortens: stored with the result."""
    plans: Sequence[tuple[SweptValue, PlanJob]] = ()
    """Values beside those of the variants, with plans."""

    @property
    def job(self) -> Job:
        """Everything but the number of workers, with the first value of the option."""
        return self.variants[0][1]

    @property
    def runs(self) -> list[tuple[SweptValue | None, Job | PlanJob, int]]:
        """The value, the job and the number of workers of each run."""
        jobs = ((value, job, p) for (value, job), p in product(self.variants, self.ranks))
        return [*jobs, *((value, plan, plan.gpus) for value, plan in self.plans)]

    @property
    def names(self) -> dict[str, str]:
        """How tables and pictures show the values."""
        return {value.text: value.name for value, *_ in self.runs if value}

    @property
    def costs(self) -> list[float]:
        """More seconds for more workers: how many is not known. Each run is a chunk, those of most
        workers first."""
        return [4.0 * p for *_, p in self.runs]

    def records(self) -> list[Record]:
        """The rows of the table."""
        return in_common([outcome.record for outcome in self.run(range(len(self.runs)))])

    def run(self, numbers: Sequence[int]) -> Iterator[RunOutcome]:
        """The runs with these numbers."""
        runs = self.runs
        for number in numbers:
            value, job, p = runs[number]
            record: dict[str, Value] = {self.swept: value.text} if value else {}
            if not isinstance(job, Job):
                yield RunOutcome(record | dict(job.row()))
                continue
            training = job.run(p)
            record |= training.row
            if self.plans:
                record["idle_s"] = training.idle_s
            if value is None:
                for name, seconds in what_if(training, always=True).items():
                    record[f"{COLUMNS[name]}_first_order_s"] = seconds["first_order"]
                    record[f"{COLUMNS[name]}_s"] = seconds["simulated"]
            yield RunOutcome(record, failure_of(training))

    def encode(self, outcome: RunOutcome) -> Any:
        """An outcome as JSON takes it."""
        return outcome

    def decode(self, encoded: Any) -> RunOutcome:
        """The outcome that was encoded."""
        return RunOutcome(*encoded)


def failure_of(training: TrainingRun) -> str:
    """How the result of a run is wrong, "" if it is right."""
    return f"{training.title}: {training.wrong}" if training.wrong else ""


def in_common(records: Sequence[Record]) -> list[Record]:
    """Rows with the columns that all of them have."""
    shared = [key for key in records[0] if all(key in record for record in records)]
    return [{key: record[key] for key in shared} for record in records]
