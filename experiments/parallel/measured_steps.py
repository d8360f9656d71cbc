"""Measured steps of plans: how far simulated ones were from them, by the kind of plan; calibration
of the times of a device with a CSV of steps; intervals of whole steps; and the nearest one.

`measured_runs.csv` has published steps with their whole plans, the median of alike ones, as
:func:`experiments.studies.measured_plans.whole_plans` reads them, with their source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import exp, hypot, inf, log, log2
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments import output
from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.models.model_shapes import TransformerShape
from experiments.output import counted
from experiments.parallel.factor_fit import Factors, FitRow, PathSeconds, Sureness, fit, spreads
from experiments.parallel.plan_keys import check_recomputation, like_framework
from experiments.parallel.plan_step import Training, work_of
from experiments.parallel.plan_text import Plan, parse_plan
from experiments.shipped_tables import rows_of
from simulator.analysis.critical_path import critical_path
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.passes import COMPUTE, COPIES, HOST, STREAMS
from simulator.parallel.step import Step, write
from simulator.parallel.step_measures import length_of
from simulator.schedules.timeline import Timeline
from simulator.uncertainty.interval import LEVEL, Interval, quantile
from topologies.errors import InputError, naming
from topologies.readers.contents import csv_rows
from topologies.topology import Floats, Topology
from topologies.units import format_seconds

FILE = Path(__file__).with_name("plan_errors.csv")
"""One row for each kind; `python -m experiments.studies plan-accuracy FOLDER` prints them."""
BOUND = np.full(len(STREAMS), 2)
"""Which factor the times of a stream have: 0 that of the device, 1 that of launches, 2 none."""
BOUND[[COMPUTE, COPIES]], BOUND[HOST] = 0, 1
SHORTEST, LONGEST = 1e-6, 1e7
"""Seconds of a measured step."""
SHOWN = 8
"""Measured steps whose errors are shown after a fit: the farthest."""
HALF = 0.5
"""A row that counts less is called odd."""
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


def span_of(topology: Topology, gpus: int, *, links_alone: bool = False) -> str:
    """Whether the first GPUs are on one node. Measured steps are compared with plans whose
    collectives take what NCCL does, so a plan on `links_alone` has a span of its own."""
    nodes = np.unique(topology.node[topology.placement[:gpus]])
    if nodes[0] < 0:
        return "no nodes"
    span = "one node" if len(nodes) == 1 else "several nodes"
    return f"{span} by links alone" if links_alone else span


@cache
def plan_errors() -> dict[PlanKind, PlanError]:
    """The errors of all kinds with measured steps."""
    errors = {}
    for row in rows_of(FILE):
        steps, *shares = (float(row[name]) for name in PlanError._fields)
        errors[PlanKind(*(row[name] for name in PlanKind._fields))] = PlanError(int(steps), *shares)
    return errors


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


def read_steps(path: Path) -> dict[str, tuple[str, str, float]]:
    """The steps in a CSV with the columns model, plan and seconds, by file and line: the model and
    the plan as options take them, and the seconds. More columns count for nothing.

    Raises InputError with file and line of the first mistake.
    """
    rows = csv_rows(path, COLUMNS, "step")
    return {where: _step(where, *cells) for where, cells in rows.items()}


def _step(where: str, model: str, plan: str, text: str) -> tuple[str, str, float]:
    if not model or not plan or not text:
        raise InputError(f'{where}: a value is missing: write gpt2,"dp=2,micro=1",0.25')
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not SHORTEST <= seconds <= LONGEST:
        raise InputError(f"{where}: seconds is {text[:40]!r}: {SHORTEST:g} to {LONGEST:g}")
    return model, plan, seconds


def calibrated_by(
    path: Path,
    training: Training,
    groups: Callable[[Plan], GroupTimes],
    like: str | None = None,
) -> Training:
    """The model with the times that the steps of a file tell, where `groups` has the times of
    collectives, and plans have the defaults of a framework. Says on stderr what they are, and how
    far off the steps then are.

    Raises InputError for a step that cannot be simulated.
    """
    steps, rows, times = read_steps(path), list[FitRow](), training.times
    for where, (model, text, seconds) in steps.items():
        with naming(where):
            parsed, _ = like_framework(parse_plan(text), like, times.device)
            shape = find_transformer(model).shape
            check_recomputation(parsed, shape)
            plan = str(replace(parsed, implied=()))
            # A large written step takes 400 MB, so few of them stay.
            simulated = plan_critical_path(model, plan, times, groups, keeps=len(rows) < 4)
            simulated(Factors())
        precision = parsed.precision or times.dtype
        rows.append(FitRow(simulated, seconds, sizes_of(shape), precision))
    # A file is of the precision that most of its rows have.
    ((precision, _),) = Counter(row.precision for row in rows).most_common(1)
    fitted = fit(rows, sizes_of(training.shape), precision)
    output.note(
        f"{path.name}: {counted(len(steps), 'measured step')}: times of the device x "
        f"{fitted.factors.scale:.3f} (give or take {fitted.sureness.device:.1%}), launches x "
        f"{fitted.factors.launch:.3f}"
    )
    lines = sorted(
        zip(steps, fitted.misses, fitted.weights, strict=True), key=lambda line: -abs(line[1])
    )
    for where, miss, weight in lines[:SHOWN]:
        counts = f", counts {weight:.0%}" if weight < HALF else ""
        output.note(f"{where.rpartition('/')[2]}: simulated {np.expm1(miss):+.1%}{counts}")
    return replace(training, times=fitted.factors.of(times), sureness=fitted.sureness)


def sizes_of(shape: TransformerShape) -> TransformerShape:
    """What models have in common that share a factor: all sizes but the number of layers."""
    return replace(shape, blocks=1)


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
            timeline = first.simulated(seconds)
        return bound_seconds(timeline)

    return path


def bound_seconds(timeline: Timeline) -> Floats:
    """The seconds of the critical path of a step: of the device, of launches, and of all else,
    shape (3,)."""
    critical = critical_path(timeline)
    bound = BOUND[timeline.schedule.lane[critical.operation]]
    return np.bincount(bound, critical.seconds, 3).astype(np.float64)


def usual_sureness(shape: TransformerShape) -> Sureness:
    """How surely tables know a device and the launch of a kernel, without a measured step."""
    usual = spreads()
    model = usual.experts if shape.experts else usual.model
    return Sureness(hypot(usual.device, model, usual.precision), usual.launch)


def step_spread(seconds: Floats, sureness: Sureness, *, links: float = 0.0) -> float:
    """The standard deviation of the logarithm of a step, from the seconds of its critical path:
    of the device, of launches, and of all else, whose own is `links`. Shape (3,)."""
    usual, (device, launch) = spreads(), sureness
    launched = hypot(launch, usual.launched)
    shares = seconds / (seconds.sum() or 1.0)
    return hypot(*(shares * np.array([device, launched, links])).tolist(), usual.step)


def whole_interval(
    step: Step, training: Training, level: float, communication: Interval | None
) -> Interval | None:
    """The interval of a step, from that of its `communication` if a profile has one. None if
    neither a profile nor a measured step says how sure it is."""
    if communication is None and training.sureness is None:
        return None
    sureness = training.sureness or usual_sureness(training.shape)
    seconds = length_of(step)
    inner = communication or Interval(seconds, seconds, seconds, level or LEVEL)
    links = 0.0 if communication else spreads().links
    reach = quantile(inner.level) * step_spread(bound_seconds(step.timeline), sureness, links=links)
    expected, low, high = inner[:3]
    if not low > 0:
        return inner
    return inner._replace(
        low=expected * exp(-hypot(reach, log(expected / low))),
        high=expected * exp(hypot(reach, log(high / expected))),
    )


DEGREES = "tp", "pp", "cp", "ep", "micro"
FAR = 3.0
"""How many doublings of GPUs, degrees, sequence and batch of a GPU, together, a run may be away."""


def nearest_run(training: Training, plan: Plan) -> str:
    """The nearest run of the same model, device and precision, in words; empty if none is near.
    Among equally near ones the first of the file counts."""
    device, dtype = training.times.device, training.times.dtype
    nearest, least = "", inf
    for row in rows_of(Path(__file__).with_name("measured_runs.csv")):
        name, _, _ = row["model"].partition(":")
        if (name, row["device"], row["precision"]) != (training.name, device, dtype):
            continue
        entry, run = find_transformer(row["model"]), parse_plan(row["plan"])
        kinds = [(each.zero == 3, each.lora, each.recompute) for each in (run, plan)]
        if entry.shape != training.shape or kinds[0] != kinds[1]:
            continue
        away = abs(log2(entry.size / training.seq)) + _doublings(run, plan)
        if away <= FAR and away < least:
            least, seconds = away, format_seconds(float(row["seconds"]))
            nearest = f"{seconds} on {run.degrees.ranks} GPUs, {run} ({row['source']})"
    return nearest


def _doublings(run: Plan, plan: Plan) -> float:
    """How many doublings two plans are apart."""
    ranks = [each.degrees.ranks for each in (run, plan)]
    batch = run.sequences / ranks[0] * ranks[1] / plan.sequences
    degrees = sum(abs(log2(getattr(run, key) / getattr(plan, key))) for key in DEGREES)
    return abs(log2(ranks[0] / ranks[1])) + abs(log2(batch)) + degrees
