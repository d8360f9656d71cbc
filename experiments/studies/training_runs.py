"""Steps of DDP over gloo on links of known rate and delay, predicted and measured.

The layers sleep for known times. Predictions are compared only with runs that were not fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from experiments.studies.gloo_lab import LabRow, fit_software, lab, read
from experiments.studies.measured_rows import aligned, grouped, rows_of
from simulator.collectives import find
from simulator.engines import simulate
from simulator.training.buckets import rebuilt
from simulator.training.ddp import DDP
from simulator.training.measures import measure
from simulator.training.model import Layer, Model, Tensor
from simulator.training.plan import Setting
from simulator.training.plan_simulation import train
from topologies.topology import Topology
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


def all_reduces(path: Path) -> list[LabRow]:
    """Gloo's own all-reduces in a sweep of its operations."""
    return [row for row in read(path) if row.operation == "all_reduce"]


def role_of(row: LabRow) -> str:
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


def reduced(row: LabRow, software: float) -> float:
    """Predicted seconds of an all-reduce by gloo."""
    schedule = find("gloo_ring").build(row.ranks, row.nbytes)
    return simulate(schedule, lab(row.ranks, row.rate, row.delay, software)).makespan


def calibrate(rows: Iterable[LabRow]) -> float:
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


def step(model: Model, topology: Topology, ddp: DDP) -> float:
    """Seconds of one step on all ranks of `topology`."""
    plan = ddp.plan(model, Setting(topology, topology.ranks))
    return measure(plan, train(plan)).step


def main(folder: Path) -> str:
    """All rows, and errors by the use of the rows, of a folder with gloo_lab."""
    sweep = all_reduces(folder / "gloo_lab" / "sweep.csv")
    steps = sleeping_steps(folder / "gloo_lab" / "ddp_sleep.csv")
    software, extra = calibrate(sweep), overhead(steps)
    reduces = {"all-reduce": [reduced(row, software) for row in sweep]}
    slow = {
        name: [slept(row, software, longer) for row in steps]
        for name, longer in (("step", extra), ("step as told", Overhead()))
    }
    summary = (
        f"{format_seconds(software)} of software a hop; a layer sleeps "
        f"{format_seconds(extra.forward)} longer forward "
        f"and {format_seconds(extra.backward)} longer backward than told"
    )
    sizes = {"size": [format_bytes(row.nbytes) for row in sweep]}
    buckets = {"buckets": [str(row.buckets) for row in steps]}
    buckets["backward"] = [format_seconds(row.backward) for row in steps]
    parts = [
        aligned(sizes | _columns(sweep, reduces, role_of)),
        aligned(buckets | _columns(steps, slow, lambda row: row.role)),
        summary,
        *_errors(sweep, reduces, role_of),
        *_errors(steps, slow, lambda row: row.role),
    ]
    return "\n\n".join(parts)


Measured = TypeVar("Measured", LabRow, Slept)


def _columns(
    rows: Sequence[Measured],
    predicted: Mapping[str, Sequence[float]],
    role: Callable[[Measured], str],
) -> dict[str, list[str]]:
    """The links, the times, the relative error of each prediction, and the use of some rows."""
    columns = {
        "ranks": [str(row.ranks) for row in rows],
        "rate": [f"{row.rate / 1e6:g}Mbit/s" for row in rows],
        "delay": [format_seconds(row.delay) for row in rows],
        "measured": [format_seconds(row.measured) for row in rows],
    }
    for name, seconds in predicted.items():
        pairs = zip(rows, seconds, strict=True)
        columns[f"predicted {name}"] = [format_seconds(time) for time in seconds]
        columns[f"error of {name}"] = [f"{time / row.measured - 1:+.1%}" for row, time in pairs]
    return columns | {"use": [role(row) for row in rows]}


def _errors(
    rows: Sequence[Measured],
    predicted: Mapping[str, Sequence[float]],
    role: Callable[[Measured], str],
) -> Iterable[str]:
    """A line for each prediction: the median and the worst error, by the use of the rows."""
    for name, seconds in predicted.items():
        parts = []
        for use, pairs in grouped(
            zip(rows, seconds, strict=True), lambda pair: role(pair[0])
        ).items():
            errors = np.abs([time / row.measured - 1 for row, time in pairs])
            parts.append(f"{use} {np.median(errors):.1%}, worst {errors.max():.1%}")
        yield f"|error| of {name}: median {'; '.join(parts)}"
