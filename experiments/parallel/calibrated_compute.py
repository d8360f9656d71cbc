"""The times of a device, fitted to measured steps on a machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from experiments import output
from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.parallel.compute_calibration import Factors, Row, calibrate
from experiments.parallel.measured_steps import MeasuredStep, read_steps
from experiments.parallel.plan_step import Training, work_of
from experiments.parallel.plan_text import Plan, parse_plan
from simulator.analysis.critical_path import trace_back
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.passes import COMPUTE, COPIES, HOST, STREAMS
from simulator.parallel.step import Step, write
from topologies.errors import InputError
from topologies.topology import Floats

KEPT = 4
"""Steps that stay written while a fit simulates them, at most: a large one takes 400 MB."""
BOUND = np.full(len(STREAMS), 2)
"""Which factor the times of a stream have: 0 that of the device, 1 that of launches, 2 none."""
BOUND[[COMPUTE, COPIES]], BOUND[HOST] = 0, 1


def calibrated_by(
    path: Path, times: DeviceTimes, groups: Callable[[Plan], GroupTimes]
) -> DeviceTimes:
    """The times with the factors that the steps of a file tell, where `groups` has the times of
    collectives. Says on stderr what they are.

    Raises InputError for a step that cannot be simulated.
    """
    rows = []
    for step in read_steps(path):
        try:
            rows.append(row_of(step, times, groups))
            rows[-1].path(Factors())
        except InputError as error:
            raise InputError(f"{step.where}: {error}") from None
    factors = calibrate(rows)
    output.note(
        f"{path.name}: {output.counted(len(rows), 'measured step')}: times of the device x "
        f"{factors.scale:.3f}, launches x {factors.launch:.3f}"
    )
    return factors.of(times)


def row_of(step: MeasuredStep, times: DeviceTimes, groups: Callable[[Plan], GroupTimes]) -> Row:
    """A measured step with times of a device that factors multiply, where `groups` has the times of
    collectives.

    Raises InputError for a step that cannot be simulated.
    """
    plan = parse_plan(step.plan)
    collectives = groups(plan)

    def path(factors: Factors) -> Floats:
        first = _written(step.model, plan, times, collectives)
        if factors == Factors():
            timeline = first.timeline
        elif "forward" in plan.pipeline.options:
            # The times of the device decide in which order its pipeline runs.
            timeline = _written(step.model, plan, factors.of(times), collectives).timeline
        else:
            factor = np.array([*factors, 1.0])[BOUND[first.graph.lane]]
            timeline = first.simulated(first.graph.seconds * factor)
        critical = trace_back(timeline)
        bound = BOUND[timeline.schedule.lane[critical.operation]]
        return np.bincount(bound, critical.seconds, 3).astype(np.float64)

    return Row(path, step.seconds)


@lru_cache(maxsize=KEPT)
def _written(model: str, plan: Plan, times: DeviceTimes, collectives: GroupTimes) -> Step:
    entry = find_transformer(model)
    training = Training(entry.name, entry.shape, entry.size, times)
    return write(work_of(training, plan, collectives))
