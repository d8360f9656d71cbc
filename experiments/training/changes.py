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
from topologies.topology import Floats, Topology

CHANGES = "twice the bandwidth", "half the latency", "twice the compute"
TWICE_BANDWIDTH, HALF_LATENCY, TWICE_COMPUTE = CHANGES
LINKS = {TWICE_BANDWIDTH: (1.0, 2.0), HALF_LATENCY: (0.5, 1.0)}
"""Multiples of latencies and of bandwidths."""
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
    steps = run.measures.window.steps
    half = {part: seconds / 2 / steps for part, seconds in worth(run.path).items()}
    # A faster device does not shorten restarts.
    restarts = run.by_phase().get(KINDS[RESTART], 0.0) / steps
    saved = {
        TWICE_BANDWIDTH: half["serialisation"],
        HALF_LATENCY: half["latency"] + half["gap"],
        TWICE_COMPUTE: half["compute"] - restarts / 2,
    }
    return {
        change: {
            "first_order": max(run.length / steps - seconds, run.least),
            "simulated": max(_simulated(run, change), run.least) if again else None,
        }
        for change, seconds in saved.items()
    }


def _simulated(run: TrainingRun, change: str) -> float:
    """Seconds of a step under a change."""

    def machine(topology: Topology) -> Topology:
        usual = run.costs.machine(topology) if run.costs else topology
        latency, bandwidth = LINKS.get(change, (1.0, 1.0))
        return with_links(usual, latency, bandwidth)

    seconds = _faster(run.plan) if change == TWICE_COMPUTE else run.plan.schedule.seconds
    timeline = train(run.plan, run.job.rules.training(machine), seconds)
    counted = window(run.plan, timeline)
    return float(timeline.finish[counted.last]) / counted.steps


def _faster(plan: Plan) -> Floats:
    """What computations take on a device that is twice as fast."""
    seconds = plan.schedule.seconds / 2
    restarts = plan.first[plan.graph.kind == RESTART]
    seconds[restarts] = plan.schedule.seconds[restarts]
    return seconds
