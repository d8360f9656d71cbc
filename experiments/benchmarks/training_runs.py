"""Predicted and measured training: `python -m experiments.benchmarks training FOLDER`.

DDP over gloo on links of known rate and delay, whose layers sleep; ResNet-50 under Horovod on nodes
whose all-reduces were measured. Predictions are compared only with runs that were not fitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments import output
from experiments.benchmarks import horovod_runs
from experiments.benchmarks.gloo_lab import Row, fit_software, read
from experiments.benchmarks.gloo_lab import lab as lab
from experiments.benchmarks.table_rows import rows_of
from experiments.benchmarks.training_steps import step
from experiments.models.model_catalogue import find as find_model
from simulator.collectives import find
from simulator.engines import simulate
from simulator.training.buckets import rebuilt
from simulator.training.ddp import DDP
from simulator.training.model import Layer, Model, Tensor
from topologies.shapes import star
from topologies.units import format_bytes, format_seconds

MIB = 2.0**20
NOISY = 0.25
"""Rows with a coefficient of variation (standard deviation over mean) above this are ignored."""
FITTED_RANKS = (2, 3)
COPYING = 10e9
"""Bytes/s that torch reads and writes to copy 64 MiB on one core of a machine like the lab's. No
training step is fitted to it."""


class Slept(NamedTuple):
    """A measured step of a DDP whose layers sleep."""

    ranks: int
    rate: float
    """Bits per second of a link."""
    delay: float
    """Seconds of a link, one way."""
    layers: int
    nbytes: float
    """Bytes of a layer's parameters."""
    forward: float
    """Seconds that the forward of a layer sleeps."""
    backward: float
    """Seconds that the backward of a layer sleeps."""
    buckets: int
    """The number of buckets, 0 under no_sync."""
    measured_forward: float
    """Seconds until the backward begins."""
    measured: float
    """Seconds of the step."""

    @property
    def role(self) -> str:
        """Whether the row is "fitted" (steps without communication) or "unseen"."""
        return "unseen" if self.buckets else "fitted"


class Overhead(NamedTuple):
    """Seconds by which a layer's forward and backward are longer than their sleep."""

    forward: float = 0.0
    backward: float = 0.0


def all_reduces(path: Path) -> list[Row]:
    """Gloo's own all-reduces in a sweep of its operations."""
    return [row for row in read(path) if row.operation == "all_reduce"]


def role_of(row: Row) -> str:
    """Whether a row is "fitted", "unseen", or ignored as "noisy"."""
    if row.variation > NOISY:
        return "noisy"
    return "fitted" if row.ranks in FITTED_RANKS else "unseen"


def sleeping_steps(path: Path) -> list[Slept]:
    """Steps of a DDP whose layers sleep."""
    return [
        Slept(
            ranks=int(row["p"]),
            rate=float(row["rate_bps"]),
            delay=float(row["delay_s"]),
            layers=int(row["layers"]),
            nbytes=float(row["layer_bytes"]),
            forward=float(row["tf_s"]),
            backward=float(row["tb_s"]),
            buckets=int(row["buckets"]),
            measured_forward=float(row["forward_s"]),
            measured=float(row["step_s"]),
        )
        for row in rows_of(path)
    ]


def reduced(row: Row, software: float) -> float:
    """Predicted seconds of an all-reduce by gloo."""
    schedule = find("gloo_ring").build(row.ranks, row.nbytes)
    return simulate(schedule, lab(row.ranks, row.rate, row.delay, software)).makespan


def calibrate(rows: Iterable[Row]) -> float:
    """Seconds of software for a message, from the fitted rows."""
    fitted = [row for row in rows if role_of(row) == "fitted"]
    return fit_software(
        lambda software: [reduced(row, software) / row.measured - 1 for row in fitted]
    )


def overhead(rows: Iterable[Slept]) -> Overhead:
    """The median overhead of the steps without communication."""
    quiet = [row for row in rows if row.role == "fitted"]
    backward = [(row.measured - row.measured_forward) / row.layers - row.backward for row in quiet]
    forward = [row.measured_forward / row.layers - row.forward for row in quiet]
    return Overhead(float(np.median(forward)), float(np.median(backward)))


def slept(row: Slept, software: float, extra: Overhead) -> float:
    """Predicted seconds of a step of DDP over gloo, which runs two collectives at a time."""
    model = Model(
        name="sleeping layers",
        batch=1,
        layers=tuple(
            Layer(
                str(k),
                row.forward + extra.forward,
                row.backward + extra.backward,
                tensors=(Tensor("w", row.nbytes),),
            )
            for k in range(row.layers)
        ),
        memory_bandwidth=COPYING,
    )
    if not row.buckets:
        return model.compute
    caps = (0.1 * MIB, 1.98 * row.nbytes, 1000 * MIB)
    cap = next(cap for cap in caps if len(rebuilt(model, cap)) == row.buckets)
    return step(
        model,
        lab(row.ranks, row.rate, row.delay, software),
        DDP(bucket=cap, algo="gloo_ring", streams=2),
    )


def bucket_sizes(ranks: int, buckets: Sequence[float]) -> list[float]:
    """The step of ResNet-50 over its computing time, for each size of bucket.

    The machine has V100s with a NIC of 100 Gbit/s each.
    """
    model = find_model("resnet50:batch=32,device=v100,dtype=amp")
    machine = star(ranks, bandwidth=10e9, latency=3e-6)
    return [step(model, machine, DDP(bucket=bucket)) / model.compute for bucket in buckets]


def table(folder: Path) -> str:
    """All tables, from a folder with gloo_lab, curves and training."""
    return "\n\n".join(
        (_lab_tables(folder / "gloo_lab"), horovod_runs.tables(folder), _bucket_table())
    )


def _lab_tables(folder: Path) -> str:
    sweep, steps = all_reduces(folder / "sweep.csv"), sleeping_steps(folder / "ddp_sleep.csv")
    software, extra = calibrate(sweep), overhead(steps)
    first = [["all-reduce", "ranks", "rate", "delay", "measured", "predicted", "error", ""]]
    for row in sweep:
        time = reduced(row, software)
        first.append(
            [format_bytes(row.nbytes), *_links(row), *_times(row.measured, time), role_of(row)]
        )
    second = [
        [
            "buckets",
            "ranks",
            "rate",
            "delay",
            "backward",
            "measured",
            "predicted",
            "error",
            "as told",
            "error",
            "",
        ]
    ]
    for slow in steps:
        fitted, nominal = slept(slow, software, extra), slept(slow, software, Overhead())
        cells = [*_times(slow.measured, fitted), *_times(slow.measured, nominal)[1:], slow.role]
        second.append([str(slow.buckets), *_links(slow), format_seconds(slow.backward), *cells])
    summary = (
        f"{format_seconds(software)} of software a hop; a layer sleeps "
        f"{format_seconds(extra.forward)} longer forward "
        f"and {format_seconds(extra.backward)} longer backward than told"
    )
    errors = [
        _summary(
            "all-reduce",
            [(role_of(row), reduced(row, software) / row.measured - 1) for row in sweep],
        ),
        _summary(
            "step", [(row.role, slept(row, software, extra) / row.measured - 1) for row in steps]
        ),
        _summary(
            "step as told",
            [(row.role, slept(row, software, Overhead()) / row.measured - 1) for row in steps],
        ),
    ]
    return "\n\n".join((output.align(first), output.align(second), "\n".join((summary, *errors))))


def _links(row: Row | Slept) -> list[str]:
    return [str(row.ranks), f"{row.rate / 1e6:g}Mbit/s", format_seconds(row.delay)]


def _times(measured: float, predicted: float) -> list[str]:
    return [format_seconds(measured), format_seconds(predicted), f"{predicted / measured - 1:+.1%}"]


def _summary(name: str, errors: Iterable[tuple[str, float]]) -> str:
    by_role: dict[str, list[float]] = {}
    for role, error in errors:
        by_role.setdefault(role, []).append(abs(error))
    parts = [f"{role} {np.median(e):.1%}, worst {max(e):.1%}" for role, e in by_role.items()]
    return f"|error| of {name}: median {'; '.join(parts)}"


def _bucket_table() -> str:
    sizes = [0.0, *(size * MIB for size in (1, 5, 10, 25, 50, 100))]
    rows = [["step / computing", *map(format_bytes, sizes)]]
    for ranks in (16, 32):
        rows.append([f"{ranks} ranks", *(f"{value:.3f}" for value in bucket_sizes(ranks, sizes))])
    return output.align(rows)
