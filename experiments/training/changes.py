"""What changes of a machine or of its devices would save in a training run."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.training.job import Job, TrainingRun
from experiments.training.library_costs import with_links
from simulator.analysis.critical_path import worth
from simulator.steps.kinds import KINDS, RESTART
from simulator.training.measures import window
from simulator.training.plan import Plan
from simulator.training.plan_simulation import train
from simulator.training.size import AGAIN, OPERATION, QUICK
from topologies.topology import Topology

CHANGES = {
    "twice the bandwidth": (1.0, 2.0, 1.0),
    "half the latency": (0.5, 1.0, 1.0),
    "twice the compute": (1.0, 1.0, 2.0),
}
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
    """Seconds of a step with these multiples of links and devices."""

    def machine(topology: Topology) -> Topology:
        usual = run.costs.machine(topology) if run.costs else topology
        return with_links(usual, latency, bandwidth)

    plan, usual_seconds = run.plan, run.plan.schedule.seconds
    seconds, restarts = usual_seconds / compute, plan.first[plan.graph.kind == RESTART]
    seconds[restarts] = usual_seconds[restarts]
    timeline = train(plan, run.job.rules.training(machine), seconds)
    counted = window(plan, timeline)
    return float(timeline.finish[counted.last]) / counted.steps
