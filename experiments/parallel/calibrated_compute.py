"""The times of a device, fitted to the measured steps on a machine that a file has: a CSV with the
columns model, plan and seconds."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments import output
from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.parallel.compute_calibration import Factors, Row, calibrate
from experiments.parallel.plan_step import Training, work_of
from experiments.parallel.plan_text import Plan, parse_plan
from simulator.analysis.critical_path import trace_back
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.passes import COMPUTE, COPIES, HOST, STREAMS
from simulator.parallel.step import Step, write
from topologies.errors import InputError
from topologies.readers.contents import text_of
from topologies.topology import Floats

KEPT = 4
"""Steps that stay written while a fit simulates them, at most: a large one takes 400 MB."""
BOUND = np.full(len(STREAMS), 2)
"""Which factor the times of a stream have: 0 that of the device, 1 that of launches, 2 none."""
BOUND[[COMPUTE, COPIES]], BOUND[HOST] = 0, 1
MOST_BYTES, MOST_ROWS = 2**20, 1000
COLUMNS = "model", "plan", "seconds"


class MeasuredStep(NamedTuple):
    """A step that was measured."""

    where: str
    """Its file and line, for messages."""
    model: str
    """The model, as `--model` takes it."""
    plan: str
    """The plan, as `--plan` takes it."""
    seconds: float
    """Seconds of the step."""


def read_steps(path: Path) -> tuple[MeasuredStep, ...]:
    """The steps in a CSV with the columns model, plan and seconds. More columns count for nothing.

    Raises InputError with file and line of the first mistake.
    """
    expected = f"a CSV of {', '.join(COLUMNS)}"
    text = text_of(path, MOST_BYTES, expected, f"take at most {MOST_ROWS} steps")
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    steps = []
    try:
        missing = [column for column in COLUMNS if column not in (reader.fieldnames or ())]
        if missing:
            raise InputError(f"{path} line 1: no column {missing[0]}: expected {expected}")
        for row in reader:
            steps.append(_step(row, f"{path} line {reader.line_num}"))
            if len(steps) > MOST_ROWS:
                raise InputError(f"{path}: more than {MOST_ROWS} steps")
    except csv.Error as error:
        raise InputError(f"{path} line {reader.line_num}: {error}: expected a CSV") from None
    if not steps:
        raise InputError(f"{path} has no step: expected a line with {', '.join(COLUMNS)}")
    return tuple(steps)


def _step(row: dict[str, str | None], where: str) -> MeasuredStep:
    model, plan, text = (row[column] for column in COLUMNS)
    if not model or not plan or not text:
        raise InputError(f'{where}: a value is missing: write gpt2,"dp=2,micro=1",0.25')
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise InputError(f"{where}: seconds is {text[:40]!r}: a number above 0")
    return MeasuredStep(where, model, plan, seconds)


def calibrated_by(
    path: Path, times: DeviceTimes, groups: Callable[[Plan], GroupTimes]
) -> DeviceTimes:
    """The times with the factors that the steps of a file tell, where `groups` has the times of
    collectives. Says on stderr what they are.

    Raises InputError for a step that cannot be simulated.
    """
    rows = []
    for number, step in enumerate(read_steps(path)):
        try:
            rows.append(row_of(step, times, groups, keeps=number < KEPT))
            rows[-1].path(Factors())
        except InputError as error:
            raise InputError(f"{step.where}: {error}") from None
    factors = calibrate(rows)
    output.note(
        f"{path.name}: {output.counted(len(rows), 'measured step')}: times of the device x "
        f"{factors.scale:.3f}, launches x {factors.launch:.3f}"
    )
    return factors.of(times)


def row_of(
    step: MeasuredStep,
    times: DeviceTimes,
    groups: Callable[[Plan], GroupTimes],
    *,
    keeps: bool = True,
) -> Row:
    """A measured step with times of a device that factors multiply, where `groups` has the times of
    collectives. The row `keeps` the written step, or writes it for each simulation.

    Raises InputError for a step that cannot be simulated.
    """
    plan, entry = parse_plan(step.plan), find_transformer(step.model)
    collectives = groups(plan)

    def written(times: DeviceTimes) -> Step:
        training = Training(entry.name, entry.shape, entry.size, times)
        return write(work_of(training, plan, collectives))

    usual = cache(written) if keeps else written

    def path(factors: Factors) -> Floats:
        if factors == Factors():
            timeline = usual(times).timeline
        elif "forward" in plan.pipeline.options:
            # The times of the device decide in which order its pipeline runs.
            timeline = written(factors.of(times)).timeline
        else:
            first, factor = usual(times), np.array([*factors, 1.0])
            timeline = first.simulated(first.graph.seconds * factor[BOUND[first.graph.lane]])
        critical = trace_back(timeline)
        bound = BOUND[timeline.schedule.lane[critical.operation]]
        return np.bincount(bound, critical.seconds, 3).astype(np.float64)

    return Row(cache(path), step.seconds)
