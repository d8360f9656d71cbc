"""Training steps predicted and measured, of DDP over gloo and of ResNet-50 under Horovod.

Links of the DDP have a known rate and delay, and its layers sleep for known times. Nodes of Horovod
have measured all-reduces. Predictions are compared only with runs that were not fitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import root_scalar

from experiments.calibration import LinkFit, fit_links
from experiments.measurements import read as read_curves
from experiments.models.model_catalogue import find as find_model
from experiments.shipped_tables import rows_of
from experiments.studies.gloo_lab import fit_software, lab, read
from experiments.studies.measured_rows import aligned
from simulator.collectives import find
from simulator.engines import simulate
from simulator.training.buckets import rebuilt
from simulator.training.conditions import Epochs
from simulator.training.ddp import DDP
from simulator.training.measures import measure
from simulator.training.model import Layer, Model, Tensor
from simulator.training.plan import Setting
from simulator.training.plan_simulation import train
from topologies.shapes import star
from topologies.topology import Topology
from topologies.units import format_bytes, format_seconds

MIB = 2.0**20
NOISY = 0.25
"""Rows with a coefficient of variation (standard deviation over mean) above this are ignored."""
FITTED_RANKS = (2, 3)
COLUMNS = {
    **{"p": "ranks", "rate_bps": "rate", "delay_s": "delay", "layers": "layers"},
    **{"layer_bytes": "nbytes", "tf_s": "forward", "tb_s": "backward", "buckets": "buckets"},
    **{"forward_s": "measured_forward", "step_s": "measured"},
}
"""Our names of the columns of a table of sleeping layers. Layers have `nbytes` bytes of parameters
and sleep `forward` and `backward` seconds; `buckets` is 0 under no_sync; `measured_forward` are
seconds until the backward begins, `measured` those of the step."""
COPYING = 10e9
"""Bytes/s that torch reads and writes to copy 64 MiB on one core of a machine like the lab's. No
training step is fitted to it."""


Overhead = tuple[float, float]
"""Seconds by which a layer's forward and backward are longer than their sleep."""
AS_TOLD = 0.0, 0.0
"""That of layers which sleep as long as they should."""


def all_reduces(path: Path) -> pd.DataFrame:
    """Gloo's own all-reduces in a sweep of its operations. `use`: fitted, unseen, or ignored as
    noisy."""
    rows = read(path).query("operation == 'all_reduce'")
    use = np.where(rows["ranks"].isin(FITTED_RANKS), "fitted", "unseen")
    return rows.assign(use=np.where(rows["variation"] > NOISY, "noisy", use))


def sleeping_steps(path: Path) -> pd.DataFrame:
    """Steps of a DDP whose layers sleep, by the names of :data:`COLUMNS`. `use`: steps without
    communication are fitted, others unseen."""
    rows = pd.DataFrame(rows_of(path))[[*COLUMNS]].rename(columns=COLUMNS).astype(float)
    rows = rows.astype(dict.fromkeys(("ranks", "layers", "buckets"), int))
    return rows.assign(use=np.where(rows["buckets"] > 0, "unseen", "fitted"))


def reduced(row: Any, software: float) -> float:
    """Predicted seconds of an all-reduce by gloo."""
    schedule = find("gloo_ring").build(row.ranks, row.nbytes)
    return simulate(schedule, lab(row.ranks, row.rate, row.delay, software)).makespan


def calibrate(rows: pd.DataFrame) -> float:
    """Seconds of software for a message, from the fitted rows."""
    fitted = rows[rows["use"] == "fitted"]

    def errors(software: float) -> pd.Series[float]:
        return [reduced(row, software) for row in fitted.itertuples()] / fitted["measured"] - 1

    return fit_software(errors)


def overhead(rows: pd.DataFrame) -> Overhead:
    """The median overhead of the steps without communication."""
    quiet = rows[rows["use"] == "fitted"]
    whole = quiet["measured"] - quiet["measured_forward"]
    backward = whole / quiet["layers"] - quiet["backward"]
    forward = quiet["measured_forward"] / quiet["layers"] - quiet["forward"]
    return float(forward.median()), float(backward.median())


def slept(row: Any, software: float, extra: Overhead) -> float:
    """Predicted seconds of a step of DDP over gloo, which runs two collectives at a time."""
    forward, backward = row.forward + extra[0], row.backward + extra[1]
    tensors = (Tensor("w", row.nbytes),)
    layers = tuple(Layer(str(k), forward, backward, tensors=tensors) for k in range(row.layers))
    model = Model("sleeping layers", batch=1, layers=layers, memory_bandwidth=COPYING)
    if not row.buckets:
        return model.compute
    caps = (0.1 * MIB, 1.98 * row.nbytes, 1000 * MIB)
    cap = next(cap for cap in caps if len(rebuilt(model, cap)) == row.buckets)
    machine = lab(row.ranks, row.rate, row.delay, software)
    return step(model, machine, DDP(bucket=cap, algo="gloo_ring", streams=2))


def step(model: Model, topology: Topology, ddp: DDP) -> float:
    """Seconds of one step on all ranks of `topology`."""
    plan = ddp.plan(model, Setting(topology, topology.ranks))
    return measure(plan, train(plan)).step


def _gloo_tables(folder: Path) -> list[str]:
    """All rows, and errors by the use of the rows."""
    sweep = all_reduces(folder / "gloo_lab" / "sweep.csv")
    steps = sleeping_steps(folder / "gloo_lab" / "ddp_sleep.csv")
    software, extra = calibrate(sweep), overhead(steps)
    reduces = {"all-reduce": [reduced(row, software) for row in sweep.itertuples()]}
    slow = {
        name: [slept(row, software, longer) for row in steps.itertuples()]
        for name, longer in (("step", extra), ("step as told", AS_TOLD))
    }
    forward, backward = map(format_seconds, extra)
    summary = (
        f"{format_seconds(software)} of software a hop; a layer sleeps {forward} longer forward "
        f"and {backward} longer backward than told"
    )
    sizes = {"size": sweep["nbytes"].map(format_bytes)}
    buckets = {
        "buckets": steps["buckets"].map(str),
        "backward": steps["backward"].map(format_seconds),
    }
    return [
        aligned(sizes | _columns(sweep, reduces)),
        aligned(buckets | _columns(steps, slow)),
        summary,
        *_errors(sweep, reduces),
        *_errors(steps, slow),
    ]


Predicted = Mapping[str, Sequence[float]]
"""Predicted seconds of some rows, by what is predicted."""


def _columns(rows: pd.DataFrame, predicted: Predicted) -> dict[str, pd.Series[str]]:
    """The links, the times, the relative error of each prediction, and the use of some rows."""
    columns = {
        "ranks": rows["ranks"].map(str),
        "rate": (rows["rate"] / 1e6).map("{:g}Mbit/s".format),
        "delay": rows["delay"].map(format_seconds),
        "measured": rows["measured"].map(format_seconds),
    }
    for name, seconds in predicted.items():
        columns[f"predicted {name}"] = pd.Series(seconds).map(format_seconds)
        columns[f"error of {name}"] = (seconds / rows["measured"] - 1).map("{:+.1%}".format)
    return columns | {"use": rows["use"]}


def _errors(rows: pd.DataFrame, predicted: Predicted) -> Iterator[str]:
    """A line for each prediction: the median and the worst error, by the use of the rows."""
    for name, seconds in predicted.items():
        off = (seconds / rows["measured"] - 1).abs().groupby(rows["use"], sort=False)
        parts = [f"{use} {each.median():.1%}, worst {each.max():.1%}" for use, each in off]
        yield f"|error| of {name}: median {'; '.join(parts)}"


FUSION = 64 * MIB
"""The default size of Horovod's fusion buffer at that time."""
BUCKETS = 10 * MIB, 25 * MIB, FUSION, 128 * MIB
LARGE = MIB
"""Curves are fitted from this size on. Buckets are larger; smaller messages use other protocols."""
IMAGES, EPOCHS, BATCH = 1_281_167, 90, 96
"""Of ImageNet, of a run, and of a GPU."""
STATED = (0.0, 8.0, 10.0, 12.0)
"""Seconds of an epoch beside its steps, for comparison with the fitted ones."""


def runs(path: Path) -> pd.DataFrame:
    """Runs of 90 epochs of ImageNet, the first on one node: `nodes`, the `gpus` of all of them,
    `seconds` of the run and of a `step`, and the `loss`, by which a step is longer than on one
    node."""
    table = pd.DataFrame(rows_of(path))
    counts, seconds = table[["nodes", "gpus"]].astype(int), table["train_seconds"].astype(float)
    steps = seconds * counts["gpus"] * BATCH / (EPOCHS * IMAGES)
    return counts.assign(seconds=seconds, step=steps, loss=steps / steps.iloc[0] - 1)


def curve_fit(path: Path, ranks: int, least: float = LARGE) -> LinkFit:
    """α and β of a ring through a switch, from the sizes of a curve from `least` bytes on.

    Other algorithms would fit as well, since each takes a constant and a slope.
    """
    points = [point for point in read_curves(path).curves[0].points if point.size >= least]
    sizes, seconds = [float(point.size) for point in points], [point.time_s for point in points]
    schedule = find("ring").build(ranks, 1.0)
    return fit_links(schedule, sizes, seconds, lambda a, b: star(ranks, latency=a, bandwidth=b))


def losses(
    measured: pd.DataFrame, fits: Mapping[int, LinkFit], bucket: float = FUSION
) -> pd.DataFrame:
    """Predicted losses of ResNet-50 on more nodes, by exposed communication: the `loss`, and the
    `exposed` seconds by which a step is longer than its computing, with copies and interference.

    The time of computing is the measured step on one node without its exposed communication; each
    layer has its estimated share of it. Buckets are as in DDP: the tensor that reaches `bucket`
    bytes closes a bucket.
    """
    horovod = DDP(bucket=bucket, broadcast_buffers=False)
    model = find_model(f"resnet50:batch={BATCH},device=v100,dtype=fp32")
    machines = [
        star(gpus, latency=fits[gpus].latency, bandwidth=fits[gpus].bandwidth)
        for gpus in measured["gpus"]
    ]
    for _ in range(4):
        missing = measured["step"].iloc[0] - step(model, machines[0], horovod)
        factor = 1 + missing / model.compute
        layers = [
            replace(layer, forward=layer.forward * factor, backward=layer.backward * factor)
            for layer in model.layers
        ]
        model = replace(model, layers=tuple(layers), optimizer=model.optimizer * factor)
    steps = np.array([step(model, machine, horovod) for machine in machines])
    return pd.DataFrame({"loss": steps / steps[0] - 1, "exposed": steps - model.compute})


def run_seconds(measured: pd.DataFrame, fits: Mapping[int, LinkFit], pause: float) -> list[float]:
    """Predicted seconds of each run, if an epoch takes `pause` seconds beside its steps.

    Only the first run is looked at: the rest of its time are steps, and on more nodes steps are
    longer by their exposed communication.
    """
    epochs, samples = Epochs(EPOCHS, IMAGES, pause), measured["gpus"] * BATCH
    count = epochs.training(int(samples.iloc[0]), 0.0)["epoch_steps"]
    alone = (measured["seconds"].iloc[0] / EPOCHS - pause) / count
    steps = alone * (1 + losses(measured.assign(step=alone), fits)["loss"])
    pairs = zip(samples.tolist(), steps.tolist(), strict=True)
    return [epochs.training(each, seconds)["training_s"] for each, seconds in pairs]


def fitted_pause(measured: pd.DataFrame, fits: Mapping[int, LinkFit]) -> float:
    """Seconds of an epoch beside its steps, from the first two runs. The prediction is almost
    linear in them."""
    first = measured.iloc[:2]

    def excess(pause: float) -> float:
        return run_seconds(first, fits, pause)[1] - float(first["seconds"].iloc[1])

    solution = root_scalar(excess, method="secant", x0=0.0, x1=STATED[-1], maxiter=3)
    return max(0.0, float(solution.root))


def bucket_sizes(ranks: int, buckets: Sequence[float]) -> list[float]:
    """The step of ResNet-50 over its computing time, for each size of bucket.

    The machine has V100s with a NIC of 100 Gbit/s each.
    """
    model = find_model("resnet50:batch=32,device=v100,dtype=amp")
    machine = star(ranks, bandwidth=10e9, latency=3e-6)
    return [step(model, machine, DDP(bucket=bucket)) / model.compute for bucket in buckets]


def _horovod_tables(folder: Path) -> list[str]:
    """Measured and predicted losses, by bucket too, whole runs by the time of an epoch beside its
    steps, and steps by the size of buckets."""
    measured = runs(folder / "training" / "abci_v100_resnet50_horovod.csv")
    curves = folder / "curves"
    fits = {
        gpus: curve_fit(curves / f"abci_v100_nccl_ar_p{gpus}.csv", gpus)
        for gpus in measured["gpus"]
    }
    predicted = losses(measured, fits)
    steps = {
        "nodes": measured["nodes"].map(str),
        "GPUs": measured["gpus"].map(str),
        "step": measured["step"].map(format_seconds),
        "loss": measured["loss"].map("{:.2%}".format),
        "predicted": predicted["loss"].map("{:.2%}".format),
        "exposed": predicted["exposed"].map(format_seconds),
    }
    by_bucket = {
        "bucket": [format_bytes(size) for size in BUCKETS],
        "predicted": [
            " ".join(losses(measured, fits, size)["loss"].iloc[1:].map("{:.2%}".format))
            for size in BUCKETS
        ],
    }
    pauses = {f"{pause:g} s": pause for pause in STATED}
    pauses["fitted to 2 nodes"] = fitted_pause(measured, fits)
    whole = {"beside steps": [*pauses], "seconds": [format_seconds(p) for p in pauses.values()]}
    times = np.array([run_seconds(measured, fits, pause) for pause in pauses.values()]).T
    alone, *more = zip(measured["nodes"], measured["seconds"], times.tolist(), strict=True)
    for nodes, seconds, row in more:
        whole |= {
            f"{nodes} nodes ({format_seconds(seconds)})": [*map(format_seconds, row)],
            f"error on {nodes}": [f"{time / seconds - 1:+.2%}" for time in row],
            f"speedup ({alone[1] / seconds:.3f})": [f"{alone[1] / time:.3f}" for time in row],
        }
    sizes = [0.0, *(size * MIB for size in (1, 5, 10, 25, 50, 100))]
    by_ranks = {"bucket": [*map(format_bytes, sizes)]}
    for ranks in (16, 32):
        shares = bucket_sizes(ranks, sizes)
        by_ranks[f"step / computing, {ranks} ranks"] = [f"{share:.3f}" for share in shares]
    return [aligned(steps), aligned(by_bucket), aligned(whole), aligned(by_ranks)]


def main(folder: Path) -> str:
    """The tables of a folder with gloo_lab, training and curves."""
    return "\n\n".join([*_gloo_tables(folder), *_horovod_tables(folder)])
