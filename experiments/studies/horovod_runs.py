"""ResNet-50 under Horovod on nodes whose all-reduces were measured, and the sizes of buckets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from experiments.calibration import LinkFit, fit_links
from experiments.measurements import read
from experiments.models.model_catalogue import find as find_model
from experiments.studies.measured_rows import aligned, rows_of
from experiments.studies.training_runs import MIB, step
from simulator.collectives import find
from simulator.training.conditions import Epochs
from simulator.training.ddp import DDP
from simulator.training.model import Model
from topologies.shapes import star
from topologies.units import format_bytes, format_seconds

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


def bucket_sizes(ranks: int, buckets: Sequence[float]) -> list[float]:
    """The step of ResNet-50 over its computing time, for each size of bucket.

    The machine has V100s with a NIC of 100 Gbit/s each.
    """
    model = find_model("resnet50:batch=32,device=v100,dtype=amp")
    machine = star(ranks, bandwidth=10e9, latency=3e-6)
    return [step(model, machine, DDP(bucket=bucket)) / model.compute for bucket in buckets]


def main(folder: Path) -> str:
    """Measured and predicted losses, by bucket too, whole runs by the time of an epoch beside its
    steps, and steps by the size of buckets."""
    measured = runs(folder / "training" / "abci_v100_resnet50_horovod.csv")
    fits = {
        least: {
            run.gpus: curve_fit(
                folder / "curves" / f"abci_v100_nccl_ar_p{run.gpus}.csv", run.gpus, least
            )
            for run in measured
        }
        for least in (0.0, 65536.0, LARGE, 4 * MIB)
    }
    predicted = losses(measured, fits[LARGE])
    steps = {
        "nodes": [str(run.nodes) for run in measured],
        "GPUs": [str(run.gpus) for run in measured],
        "step": [format_seconds(run.step) for run in measured],
        "loss": [f"{run.loss:.2%}" for run in measured],
        "predicted": [f"{loss.loss:.2%}" for loss in predicted],
        "exposed": [format_seconds(loss.exposed) for loss in predicted],
    }
    by_bucket = {"curves fitted from": [format_bytes(least) for least in fits]}
    for size in (10 * MIB, 25 * MIB, FUSION, 128 * MIB):
        cells = [losses(measured, curves, size)[1:] for curves in fits.values()]
        by_bucket[f"bucket {format_bytes(size)}"] = [
            " ".join(f"{loss.loss:.2%}" for loss in row) for row in cells
        ]
    pauses = {f"{pause:g} s": pause for pause in STATED}
    pauses["fitted to 2 nodes"] = fitted_pause(measured, fits[LARGE])
    whole = {"beside steps": [*pauses], "seconds": [format_seconds(p) for p in pauses.values()]}
    seconds = [run_seconds(measured, fits[LARGE], pause) for pause in pauses.values()]
    for number, run in enumerate(measured[1:], 1):
        times = [row[number] for row in seconds]
        whole |= {
            f"{run.nodes} nodes ({format_seconds(run.seconds)})": [*map(format_seconds, times)],
            f"error on {run.nodes}": [f"{time / run.seconds - 1:+.2%}" for time in times],
            f"speedup ({measured[0].seconds / run.seconds:.3f})": [
                f"{measured[0].seconds / time:.3f}" for time in times
            ],
        }
    sizes = [0.0, *(size * MIB for size in (1, 5, 10, 25, 50, 100))]
    by_ranks = {"bucket": [*map(format_bytes, sizes)]}
    for ranks in (16, 32):
        shares = bucket_sizes(ranks, sizes)
        by_ranks[f"step / computing, {ranks} ranks"] = [f"{share:.3f}" for share in shares]
    return "\n\n".join(map(aligned, (steps, by_bucket, whole, by_ranks)))
