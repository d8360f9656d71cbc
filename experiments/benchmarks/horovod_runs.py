"""ResNet-50 under Horovod on nodes whose all-reduces were measured: predicted and measured runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from experiments import output
from experiments.benchmarks.table_rows import rows_of
from experiments.benchmarks.training_steps import step
from experiments.calibration import LinkFit, fit_links
from experiments.measurements import read
from experiments.models.model_catalogue import find as find_model
from simulator.collectives import find
from simulator.training.ddp import DDP
from simulator.training.epochs import Epochs
from simulator.training.model import Model
from topologies.shapes import star
from topologies.units import format_bytes, format_seconds

MIB = 2.0**20
FUSION = 64 * MIB
"""The default size of Horovod's fusion buffer at that time."""
LARGE = MIB
"""Curves are fitted from this size on. Buckets are larger; smaller messages use other protocols."""
IMAGES, EPOCHS, BATCH = 1_281_167, 90, 96
"""Of ImageNet, of a run, and of a GPU."""
STATED = (0.0, 8.0, 10.0, 12.0)
"""Seconds of an epoch beside its steps, for comparison with the fitted ones."""


class Nodes(NamedTuple):
    """A measured training run."""

    nodes: int
    gpus: int
    """GPUs of all nodes."""
    step: float
    """Seconds of a step."""
    loss: float
    """The share by which a step is longer than on one node."""

    @property
    def samples(self) -> int:
        """Samples of a step."""
        return self.gpus * BATCH

    @property
    def seconds(self) -> float:
        """Seconds of the run."""
        return self.step * EPOCHS * IMAGES / self.samples


class Loss(NamedTuple):
    """A predicted training run."""

    loss: float
    """The share by which a step is longer than on one node."""
    exposed: float
    """Seconds by which a step is longer than its computing: exposed communication, copies, and
    interference."""


def runs(path: Path) -> list[Nodes]:
    """Runs of 90 epochs of ImageNet, the first on one node."""
    rows = rows_of(path)
    steps = [
        float(row["train_seconds"]) * int(row["gpus"]) * BATCH / (EPOCHS * IMAGES) for row in rows
    ]
    return [
        Nodes(int(row["nodes"]), int(row["gpus"]), seconds, seconds / steps[0] - 1)
        for row, seconds in zip(rows, steps, strict=True)
    ]


def curve_fit(path: Path, ranks: int, least: float = LARGE) -> LinkFit:
    """α and β of a ring through a switch, from the sizes of a curve from `least` bytes on.

    Other algorithms would fit as well, since each takes a constant and a slope.
    """
    points = [point for point in read(path).curves[0].points if point.size >= least]
    sizes, seconds = [float(point.size) for point in points], [point.time_s for point in points]
    return fit_links(
        find("ring").build(ranks, 1.0),
        sizes,
        seconds,
        lambda a, b: star(ranks, latency=a, bandwidth=b),
    )


def losses(
    measured: Sequence[Nodes], fits: Mapping[int, LinkFit], bucket: float = FUSION
) -> list[Loss]:
    """Predicted losses of ResNet-50 on more nodes, by exposed communication.

    The time of computing is the measured step on one node without its exposed communication; each
    layer has its estimated share of it. Buckets are as in DDP: the tensor that reaches `bucket`
    bytes closes a bucket.
    """
    horovod, model = (
        DDP(bucket=bucket, broadcast_buffers=False),
        find_model(f"resnet50:batch={BATCH},device=v100,dtype=fp32"),
    )
    machines = [
        star(run.gpus, latency=fits[run.gpus].latency, bandwidth=fits[run.gpus].bandwidth)
        for run in measured
    ]
    for _ in range(4):
        missing = measured[0].step - step(model, machines[0], horovod)
        model = _slower(model, 1 + missing / model.compute)
    steps = [step(model, machine, horovod) for machine in machines]
    return [Loss(seconds / steps[0] - 1, seconds - model.compute) for seconds in steps]


def _slower(model: Model, factor: float) -> Model:
    layers = [
        replace(layer, forward=layer.forward * factor, backward=layer.backward * factor)
        for layer in model.layers
    ]
    return replace(model, layers=tuple(layers), optimizer=model.optimizer * factor)


def run_seconds(
    measured: Sequence[Nodes], fits: Mapping[int, LinkFit], pause: float
) -> list[float]:
    """Predicted seconds of each run, if an epoch takes `pause` seconds beside its steps.

    Only the first run is looked at: the rest of its time are steps, and on more nodes steps are
    longer by their exposed communication.
    """
    epochs, first = Epochs(EPOCHS, IMAGES, pause), measured[0]
    steps = epochs.training(first.samples, 0.0)["epoch_steps"]
    alone = first._replace(step=(first.seconds / EPOCHS - pause) / steps)
    return [
        epochs.training(run.samples, alone.step * (1 + loss.loss))["training_s"]
        for run, loss in zip(measured, losses([alone, *measured[1:]], fits), strict=True)
    ]


def fitted_pause(measured: Sequence[Nodes], fits: Mapping[int, LinkFit]) -> float:
    """Seconds of an epoch beside its steps, from the first two runs.

    The prediction is almost linear in them, so three steps of the secant method suffice.
    """
    first, second = measured[:2]

    def excess(pause: float) -> float:
        return run_seconds((first, second), fits, pause)[1] - second.seconds

    (before, low), pause = (0.0, excess(0.0)), STATED[-1]
    for _ in range(3):
        high = excess(pause)
        if high == low:
            break
        (before, low), pause = (pause, high), pause - high * (pause - before) / (high - low)
    return max(0.0, pause)


def tables(folder: Path) -> str:
    """Measured and predicted losses, by bucket, and whole runs by the time of an epoch."""
    measured = runs(folder / "training" / "abci_v100_resnet50_horovod.csv")

    def fits(least: float) -> dict[int, LinkFit]:
        names = {run.gpus: f"abci_v100_nccl_ar_p{run.gpus}.csv" for run in measured}
        return {
            gpus: curve_fit(folder / "curves" / name, gpus, least) for gpus, name in names.items()
        }

    by_least = {least: fits(least) for least in (0.0, 65536.0, LARGE, 4 * MIB)}
    rows = [["ResNet-50", "GPUs", "step", "loss", "predicted", "without communication", "exposed"]]
    for run, loss in zip(measured, losses(measured, by_least[LARGE]), strict=True):
        nodes = f"{run.nodes} node{'s' * (run.nodes > 1)}"
        shares = [f"{value:.2%}" for value in (run.loss, loss.loss, 0.0)]
        rows.append(
            [nodes, str(run.gpus), format_seconds(run.step), *shares, format_seconds(loss.exposed)]
        )
    sizes = (10 * MIB, 25 * MIB, FUSION, 128 * MIB)
    by_bucket = [["curves fitted from", *(f"bucket {format_bytes(size)}" for size in sizes)]]
    for least, curves in by_least.items():
        predicted = [losses(measured, curves, size)[1:] for size in sizes]
        cells = [" ".join(f"{loss.loss:.2%}" for loss in row) for row in predicted]
        by_bucket.append([format_bytes(least), *cells])
    by_pause = _pauses(measured, by_least[LARGE])
    return "\n\n".join(output.align(lines) for lines in (rows, by_bucket, by_pause))


def _pauses(measured: Sequence[Nodes], fits: Mapping[int, LinkFit]) -> list[list[str]]:
    """Whole runs predicted from that on one node, by the time of an epoch beside its steps."""
    lines = [
        ["beside steps", "", "nodes", "measured", "predicted", "error", "speedup", "predicted"]
    ]
    stated = [(pause, "stated") for pause in STATED]
    for pause, origin in [*stated, (fitted_pause(measured, fits), "fitted to 2 nodes")]:
        predicted = run_seconds(measured, fits, pause)
        for run, seconds in zip(measured[1:], predicted[1:], strict=True):
            speedups = [measured[0].seconds / time for time in (run.seconds, seconds)]
            lines.append(
                [
                    format_seconds(pause),
                    origin,
                    str(run.nodes),
                    *(format_seconds(time) for time in (run.seconds, seconds)),
                    f"{seconds / run.seconds - 1:+.2%}",
                    *(f"{speedup:.3f}" for speedup in speedups),
                ]
            )
    return lines
