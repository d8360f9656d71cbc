"""Measured steps of plans: how far simulated ones were from them, by the kind of plan, and
calibration of the times of a device with a CSV of steps.

A step is bound by the device or by the CPU that launches its kernels. What a row tells of the two
is weighed against what is known before: tables of matrix products know a device well, and the
launch of a kernel is a guess.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments import output
from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.output import counted
from experiments.parallel.plan_step import Training, work_of
from experiments.parallel.plan_text import Plan, parse_plan
from simulator.analysis.critical_path import critical_path
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.passes import COMPUTE, COPIES, HOST, STREAMS
from simulator.parallel.step import Step, write
from topologies.errors import InputError
from topologies.readers.contents import text_of
from topologies.topology import Floats, Topology

FILE = Path(__file__).with_name("plan_errors.csv")
"""One row for each kind; `python -m experiments.studies plan-accuracy FOLDER` prints them."""
STARTS = 1.0, 4.0
"""Factors on the launch to start from: where it does not bind, the step tells nothing of it."""
PRECISE = 1e-9
"""The error of a step by its known paths, as a share of it."""
BOUND = np.full(len(STREAMS), 2)
"""Which factor the times of a stream have: 0 that of the device, 1 that of launches, 2 none."""
BOUND[[COMPUTE, COPIES]], BOUND[HOST] = 0, 1
MOST_ROWS = 1000
COLUMNS = "model", "plan", "seconds"


class PlanKind(NamedTuple):
    """What plans have in common whose errors are counted together, in words that reports show."""

    device: str
    math: str
    sharding: str
    """zero=3, or zero<3."""
    span: str
    """one node, several nodes, or no nodes."""
    compute: str
    """specified, or calibrated on one measured step."""


class PlanError(NamedTuple):
    """Errors of simulated steps as shares of the measured ones."""

    steps: int
    mean: float
    bias: float
    """The mean error: below 0 if simulated steps are too short."""
    nine_of_ten: float
    """The absolute error that a tenth of the steps exceed."""


def kind_of(times: DeviceTimes, zero: int, span: str) -> PlanKind:
    """The kind of a plan."""
    as_specified = times == DeviceTimes(times.device, times.dtype, power=times.power)
    compute = "specified" if as_specified else "calibrated"
    return PlanKind(times.device, times.math, "zero=3" if zero == 3 else "zero<3", span, compute)


def span_of(topology: Topology, gpus: int) -> str:
    """Whether the first GPUs are on one node."""
    nodes = np.unique(topology.node[topology.placement[:gpus]])
    if nodes[0] < 0:
        return "no nodes"
    return "one node" if len(nodes) == 1 else "several nodes"


@cache
def plan_errors() -> dict[PlanKind, PlanError]:
    """The errors of all kinds with measured steps."""
    with FILE.open(newline="") as file:
        _, *rows = csv.reader(file)
    return {
        PlanKind(*row[:5]): PlanError(int(row[5]), *(float(value) for value in row[6:]))
        for row in rows
    }


def mean_error(kind: PlanKind) -> tuple[float | None, str]:
    """The mean error of a kind, None if no such step was measured, and what it is of in words."""
    where = f"{kind.device} in {kind.math}, {kind.sharding}, {kind.span}"
    error = plan_errors().get(kind)
    if error is None:
        return (
            None,
            f"unknown: no measured step of {where}; --calibrate-compute takes steps of yours",
        )
    steps = counted(error.steps, "measured step")
    spread = f"nine of ten within {error.nine_of_ten:.0%}, {error.bias:+.0%} on average"
    return error.mean, f"on {steps} of {where}; {spread}"


def error_cells(error: float | None, measured: str) -> list[str]:
    """A mean error and what it is of, as a table shows them."""
    return ["" if error is None else f"{error:.1%}", measured]


class Factors(NamedTuple):
    """What rows tell."""

    scale: float = 1.0
    """The factor on the times of the device."""
    launch: float = 1.0

    def of(self, times: DeviceTimes) -> DeviceTimes:
        """The calibrated times."""
        return replace(times, scale=times.scale * self.scale, launch=times.launch * self.launch)


PathSeconds = Callable[[Factors], Floats]
"""The seconds of the critical path of a step with factors, shape (3,): of the device, of launches,
and of all else."""


def read_steps(path: Path) -> dict[str, tuple[str, str, float]]:
    """The steps in a CSV with the columns model, plan and seconds, by file and line: the model and
    the plan as options take them, and the seconds. More columns count for nothing.

    Raises InputError with file and line of the first mistake.
    """
    expected = f"a CSV of {', '.join(COLUMNS)}"
    text = text_of(path, 2**20, expected, f"take at most {MOST_ROWS} steps")
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    steps = {}
    try:
        missing = [column for column in COLUMNS if column not in (reader.fieldnames or ())]
        if missing:
            raise InputError(f"{path} line 1: no column {missing[0]}: expected {expected}")
        for row in reader:
            where = f"{path} line {reader.line_num}"
            steps[where] = _step(where, *(row[column] for column in COLUMNS))
            if len(steps) > MOST_ROWS:
                raise InputError(f"{path}: more than {MOST_ROWS} steps")
    except csv.Error as error:
        raise InputError(f"{path} line {reader.line_num}: {error}: expected a CSV") from None
    if not steps:
        raise InputError(f"{path} has no step: expected a line with {', '.join(COLUMNS)}")
    return steps


def _step(
    where: str, model: str | None, plan: str | None, text: str | None
) -> tuple[str, str, float]:
    if not model or not plan or not text:
        raise InputError(f'{where}: a value is missing: write gpt2,"dp=2,micro=1",0.25')
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise InputError(f"{where}: seconds is {text[:40]!r}: a number above 0")
    return model, plan, seconds


def calibrated_by(
    path: Path, times: DeviceTimes, groups: Callable[[Plan], GroupTimes]
) -> DeviceTimes:
    """The times with the factors that the steps of a file tell, where `groups` has the times of
    collectives. Says on stderr what they are.

    Raises InputError for a step that cannot be simulated.
    """
    steps, paths = read_steps(path), list[PathSeconds]()
    for where, (model, plan, _) in steps.items():
        try:
            # A large written step takes 400 MB, so few of them stay.
            paths.append(plan_critical_path(model, plan, times, groups, keeps=len(paths) < 4))
            paths[-1](Factors())
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
    factors = calibrate(paths, [seconds for *_, seconds in steps.values()])
    output.note(
        f"{path.name}: {output.counted(len(steps), 'measured step')}: times of the device x "
        f"{factors.scale:.3f}, launches x {factors.launch:.3f}"
    )
    return factors.of(times)


def plan_critical_path(
    model: str,
    text: str,
    times: DeviceTimes,
    groups: Callable[[Plan], GroupTimes],
    *,
    keeps: bool = True,
) -> PathSeconds:
    """The critical path of a step of a model and of the plan that `text` says, with times of a
    device that factors multiply, where `groups` has the times of collectives. It `keeps` the
    written step, or writes it for each simulation.

    Raises InputError for a step that cannot be simulated.
    """
    plan, entry = parse_plan(text), find_transformer(model)
    collectives = groups(plan)

    def written(factors: Factors) -> Step:
        training = Training(entry.name, entry.shape, entry.size, factors.of(times))
        return write(work_of(training.under(plan), plan, collectives))

    usual = cache(written) if keeps else written

    @cache
    def path(factors: Factors) -> Floats:
        if factors == Factors():
            timeline = usual(Factors()).timeline
        elif "forward" in plan.pipeline.options:
            # The times of the device decide in which order its pipeline runs.
            timeline = written(factors).timeline
        else:
            first, factor = usual(Factors()), np.array([*factors, 1.0])
            seconds = first.graph.seconds * factor[BOUND[first.graph.lane]]
            timeline = first.simulated(seconds).timeline
        critical = critical_path(timeline)
        bound = BOUND[timeline.schedule.lane[critical.operation]]
        return np.bincount(bound, critical.seconds, 3).astype(np.float64)

    return path


def calibrate(paths: Sequence[PathSeconds], measured: Sequence[float]) -> Factors:
    """The likeliest factors by the critical paths of steps and their measured seconds.

    All logarithms are taken as normal. So one step that is bound by the device moves the factor on
    its times half of the way, by the root of what the step says; one that is bound by the CPU moves
    the launch nearly all of the way.
    """
    # A step takes as long as its longest path, and the time of a path is linear in both factors.
    # So the likeliest factors by the paths that are known say where to simulate next, which adds
    # the path that is critical there, until no path is new.
    critical_paths = [np.zeros((0, 3)) for _ in paths]
    for start in STARTS:
        _learn(paths, critical_paths, Factors(launch=start))
    for _ in range(30):  # as paths are finite, an end; a handful of rounds is usual
        factors = _likeliest(critical_paths, np.log(measured))
        if not _learn(paths, critical_paths, factors):
            break
    return factors


def _learn(paths: Sequence[PathSeconds], critical_paths: list[Floats], factors: Factors) -> bool:
    """Add the critical path of each step to its known ones, seconds for factors of 1, shape (paths,
    3). Returns whether a step takes another time than the longest path that was known."""
    point, learnt = np.array([*factors, 1.0]), False
    for number, path in enumerate(paths):
        critical, seconds = path(factors), critical_paths[number] @ point
        step = critical.sum()
        learnt |= bool(abs(seconds.max(initial=0.0) - step) > PRECISE * step)
        # Where factors change the order of operations, an old path may take longer than the step.
        rest = critical_paths[number][seconds <= (1 + PRECISE) * step]
        critical_paths[number] = np.append(rest, [critical / point], axis=0)
    return learnt


def _likeliest(critical_paths: Sequence[Floats], measured: Floats) -> Factors:
    """The likeliest factors by known paths of each step and the logarithms of measured seconds."""
    from scipy.optimize import least_squares

    def doubts(logs: Floats) -> Floats:
        """How unlikely logarithms of factors are, in standard deviations: of each factor, then of
        each step."""
        point = np.append(np.exp(logs), 1.0)
        missed = np.log([(paths @ point).max() for paths in critical_paths]) - measured
        # Before a row is seen: tables know a device to 15%, launches depend on CPU and framework.
        # A step differs by 15% from a model with the right factors: some jobs run short of memory
        # or share a machine, which no model of compute knows.
        return np.concatenate([logs / (0.15, 1.0), missed / 0.15])

    fits = [
        least_squares(doubts, [0.0, np.log(start)], diff_step=[0.03] * 2, x_scale=0.1)
        for start in STARTS
    ]
    return Factors(*np.exp(min(fits, key=lambda fit: float(fit.cost)).x).tolist())
