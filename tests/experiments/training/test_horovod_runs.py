"""Runs of ResNet-50 under Horovod on nodes with measured all-reduces, predicted and measured."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import root_scalar

from experiments.calibration import LinkFit, fit_links
from experiments.measurements import read as read_curves
from experiments.models.model_catalogue import find as find_model
from experiments.shipped_tables import rows_of
from simulator.collectives import find
from simulator.training.conditions import Epochs
from simulator.training.ddp import DDP
from simulator.training.measures import measure
from simulator.training.model import Model
from simulator.training.plan import Setting
from simulator.training.plan_simulation import train
from topologies.shapes import star
from topologies.topology import Topology

MEASURED = Path(__file__).parents[4] / "shared" / "measured"
measured_here = pytest.mark.skipif(not MEASURED.exists(), reason="the measured tables are not here")
MIB = 2.0**20
FUSION = 64 * MIB
"""The default size of Horovod's fusion buffer at that time."""
LARGE = MIB
"""Curves are fitted from this size on. Buckets are larger; smaller messages use other protocols."""
IMAGES, EPOCHS, BATCH = 1_281_167, 90, 96
"""Of ImageNet, of a run, and of a GPU."""


def step(model: Model, topology: Topology, ddp: DDP) -> float:
    """Seconds of one step on all ranks of `topology`."""
    plan = ddp.plan(model, Setting(topology, topology.ranks))
    return measure(plan, train(plan)).step


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

    solution = root_scalar(excess, method="secant", x0=0.0, x1=12.0, maxiter=3)
    return max(0.0, float(solution.root))


def bucket_sizes(ranks: int, buckets: Sequence[float]) -> list[float]:
    """The step of ResNet-50 over its computing time, for each size of bucket.

    The machine has V100s with a NIC of 100 Gbit/s each.
    """
    model = find_model("resnet50:batch=32,device=v100,dtype=amp")
    machine = star(ranks, bandwidth=10e9, latency=3e-6)
    return [step(model, machine, DDP(bucket=bucket)) / model.compute for bucket in buckets]


FREE = LinkFit(0.0, (0.0, 0.0), np.inf, (0.0, 0.0))


def nodes(*steps: float) -> pd.DataFrame:
    """Runs on 1, 2, 4, ... nodes of four GPUs, whose steps take so many seconds."""
    counts = 2 ** np.arange(len(steps))
    seconds = np.array(steps) * 90 * 1281167 / (4 * counts * BATCH)
    return pd.DataFrame({"nodes": counts, "gpus": 4 * counts, "step": steps, "seconds": seconds})


def fits_of(measured: pd.DataFrame, least: float) -> dict[int, LinkFit]:
    curves = MEASURED / "curves"
    return {
        gpus: curve_fit(curves / f"abci_v100_nccl_ar_p{gpus}.csv", gpus, least)
        for gpus in measured["gpus"]
    }


def test_the_first_run_is_what_others_are_held_against(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("nodes,gpus,train_seconds\n1,4,87000\n2,8,44500\n")
    results = runs(path)
    assert results["step"].iloc[0] == pytest.approx(87000 * 384 / (90 * 1281167))
    assert results["loss"].tolist() == pytest.approx([0.0, 44500 * 2 / 87000 - 1])


def test_computing_is_what_one_node_takes_less_what_it_exposes() -> None:
    fits = {gpus: LinkFit(3e-6, (0.0, 0.0), 2e10, (0.0, 0.0)) for gpus in (4, 8)}
    one_node, two_nodes = losses(nodes(0.3, 9.0), fits).to_numpy().tolist()
    assert one_node[0] == 0.0
    assert two_nodes[0] == pytest.approx((two_nodes[1] - one_node[1]) / 0.3, rel=1e-6)
    assert 0 < one_node[1] < two_nodes[1]
    assert losses(nodes(0.3, 0.1), fits).to_numpy().tolist() == [one_node, two_nodes], (
        "what more nodes took is not looked at"
    )


def test_a_free_network_costs_copies_alone_which_one_node_has_too() -> None:
    fits = {gpus: LinkFit(0.0, (0.0, 0.0), np.inf, (0.0, 0.0)) for gpus in (4, 8)}
    results = losses(nodes(0.3, 0.4), fits)
    assert results["loss"].tolist() == pytest.approx([0.0] * 2)
    one, two = results["exposed"].tolist()
    assert 0 < one < 0.01 * 0.3
    assert two == pytest.approx(one)


def test_an_epoch_beside_its_steps_is_not_divided_among_nodes() -> None:
    """On a free network more nodes shorten the steps alone."""
    measured = nodes(0.3, 9.0)
    alone = measured["seconds"].iloc[0]
    steps = alone - 90 * 10.0
    predicted = run_seconds(measured, {4: FREE, 8: FREE}, 10.0)
    assert predicted == pytest.approx([alone, 90 * 10.0 + steps / 2], rel=1e-3)


def test_the_time_of_an_epoch_is_fitted_to_the_first_two_runs() -> None:
    fits = {gpus: LinkFit(3e-6, (0.0, 0.0), 2e10, (0.0, 0.0)) for gpus in (4, 8, 16)}
    measured = nodes(0.3, 1.0, 9.0)
    alone, seconds = measured["seconds"].iloc[0], run_seconds(measured, fits, 7.5)[1]
    measured = nodes(0.3, seconds / alone * 0.3 * 2, 9.0)
    assert measured["seconds"].iloc[1] == pytest.approx(seconds)
    assert fitted_pause(measured, fits) == pytest.approx(7.5, abs=1e-3)


@measured_here
@pytest.mark.parametrize("least", [65536.0, MIB, 4 * MIB])
def test_more_nodes_lose_some_of_what_was_measured(least: float) -> None:
    """Exposed communication is part of the loss, and nearer to it than none."""
    measured = runs(MEASURED / "training" / "abci_v100_resnet50_horovod.csv")
    fits = fits_of(measured, least)
    for loss, predicted in [*zip(measured["loss"], losses(measured, fits)["loss"], strict=True)][
        1:
    ]:
        assert 0 < predicted <= loss
        assert abs(predicted - loss) < loss


@measured_here
def test_whole_runs_on_more_nodes_are_predicted_from_one() -> None:
    """The run on two nodes sets the time of an epoch; that on four is not looked at. Any time
    between 8 and 12 s predicts both."""
    measured = runs(MEASURED / "training" / "abci_v100_resnet50_horovod.csv")
    fits = fits_of(measured, MIB)
    for pause in (8.0, 12.0, fitted_pause(measured, fits)):
        predicted = run_seconds(measured, fits, pause)
        assert predicted == pytest.approx(measured["seconds"].tolist(), rel=0.03)


@measured_here
def test_errors_are_as_the_page_on_accuracy_says() -> None:
    measured = runs(MEASURED / "training" / "abci_v100_resnet50_horovod.csv")
    fits = fits_of(measured, LARGE)
    assert [f"{loss:.2%}" for loss in measured["loss"]] == ["0.00%", "2.28%", "5.00%"]
    for bucket, expected in ((FUSION, ["0.89%", "0.97%"]), (2 * FUSION, ["2.56%", "2.73%"])):
        predicted = losses(measured, fits, bucket)["loss"].tolist()
        assert [f"{loss:.2%}" for loss in predicted[1:]] == expected
    pause = fitted_pause(measured, fits)
    off = run_seconds(measured, fits, pause) / measured["seconds"] - 1
    assert (f"{pause:.1f}", f"{off.iloc[2]:+.2%}") == ("13.2", "+0.15%")


@pytest.mark.parametrize("ranks", [16, 32])
def test_one_bucket_a_parameter_is_worst_and_10_to_25_mib_are_a_flat_best(ranks: int) -> None:
    """As measured on 16 and 32 GPUs by Li et al., PVLDB 13(12), 2020, from 0 to 50 MB."""
    sizes = [0.0, 5 * MIB, 10 * MIB, 25 * MIB, 50 * MIB]
    steps = dict(zip((0, 5, 10, 25, 50), bucket_sizes(ranks, sizes), strict=True))
    assert max(steps, key=steps.__getitem__) == 0
    assert min(steps, key=steps.__getitem__) in (10, 25)
    assert abs(steps[10] / steps[25] - 1) < 0.05
    assert steps[0] > 1.5 * steps[10]
