"""How far simulated steps were from measured ones, by the kind of plan."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.models.device_times import DeviceTimes
from experiments.output import counted
from topologies.topology import Topology

FILE = Path(__file__).with_suffix(".csv")
"""One row for each kind; `python -m experiments.studies plan-accuracy FOLDER` prints them."""


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
    """The mean of absolute errors."""
    bias: float
    """The mean error: below 0 if simulated steps are too short."""
    nine_of_ten: float
    """The absolute error that a tenth of the steps exceed."""


def kind_of(times: DeviceTimes, zero: int, span: str) -> PlanKind:
    """The kind of a plan."""
    as_specified = times == DeviceTimes(times.device, times.dtype)
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
