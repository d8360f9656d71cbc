"""ResNet-50 under Horovod, predicted: on runs made for it, and on the measured ones where they
are."""

from pathlib import Path

import numpy as np
import pytest

from experiments.calibration import LinkFit
from experiments.studies.horovod_runs import (
    Nodes,
    bucket_sizes,
    curve_fit,
    fitted_pause,
    losses,
    run_seconds,
    runs,
)
from experiments.studies.training_runs import MIB

MEASURED = Path(__file__).parents[4] / "shared" / "measured"
measured_here = pytest.mark.skipif(not MEASURED.exists(), reason="the measured tables are not here")
FREE = LinkFit(0.0, (0.0, 0.0), np.inf, (0.0, 0.0))


def test_the_first_run_is_what_others_are_held_against(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("nodes,gpus,train_seconds\n1,4,87000\n2,8,44500\n")
    results = runs(path)
    assert results[0].step == pytest.approx(87000 * 384 / (90 * 1281167))
    assert [run.loss for run in results] == pytest.approx([0.0, 44500 * 2 / 87000 - 1])


def test_computing_is_what_one_node_takes_less_what_it_exposes() -> None:
    fits = {gpus: LinkFit(3e-6, (0.0, 0.0), 2e10, (0.0, 0.0)) for gpus in (4, 8)}
    measured = [Nodes(1, 4, 0.3, 0.0), Nodes(2, 8, 9.0, 9.0)]
    one_node, two_nodes = losses(measured, fits)
    assert one_node.loss == 0.0
    assert two_nodes.loss == pytest.approx((two_nodes.exposed - one_node.exposed) / 0.3, rel=1e-6)
    assert 0 < one_node.exposed < two_nodes.exposed
    assert losses([measured[0], Nodes(2, 8, 0.1, 0.1)], fits) == [one_node, two_nodes], (
        "what more nodes took is not looked at"
    )


def test_a_free_network_costs_copies_alone_which_one_node_has_too() -> None:
    fits = {gpus: LinkFit(0.0, (0.0, 0.0), np.inf, (0.0, 0.0)) for gpus in (4, 8)}
    results = losses([Nodes(1, 4, 0.3, 0.0), Nodes(2, 8, 0.4, 0.3)], fits)
    assert [result.loss for result in results] == pytest.approx([0.0] * 2)
    one, two = (result.exposed for result in results)
    assert 0 < one < 0.01 * 0.3
    assert two == pytest.approx(one)


def test_an_epoch_beside_its_steps_is_not_divided_among_nodes() -> None:
    """On a free network more nodes shorten the steps alone."""
    alone = Nodes(1, 4, 0.3, 0.0)
    more = Nodes(2, 8, 9.0, 0.0)
    steps = alone.seconds - 90 * 10.0
    predicted = run_seconds([alone, more], {4: FREE, 8: FREE}, 10.0)
    assert predicted == pytest.approx([alone.seconds, 90 * 10.0 + steps / 2], rel=1e-3)


def test_the_time_of_an_epoch_is_fitted_to_the_first_two_runs() -> None:
    fits = {gpus: LinkFit(3e-6, (0.0, 0.0), 2e10, (0.0, 0.0)) for gpus in (4, 8, 16)}
    alone = Nodes(1, 4, 0.3, 0.0)
    seconds = run_seconds([alone, Nodes(2, 8, 1.0, 0.0)], fits, 7.5)[1]
    two = Nodes(2, 8, seconds / alone.seconds * 0.3 * 2, 0.0)
    assert two.seconds == pytest.approx(seconds)
    measured = [alone, two, Nodes(4, 16, 9.0, 0.0)]
    assert fitted_pause(measured, fits) == pytest.approx(7.5, abs=1e-3)


@measured_here
@pytest.mark.parametrize("least", [65536.0, MIB, 4 * MIB])
def test_more_nodes_lose_some_of_what_was_measured(least: float) -> None:
    """Exposed communication is part of the loss, and nearer to it than none."""
    measured = runs(MEASURED / "training" / "abci_v100_resnet50_horovod.csv")
    curves = {
        run.gpus: MEASURED / "curves" / f"abci_v100_nccl_ar_p{run.gpus}.csv" for run in measured
    }
    fits = {gpus: curve_fit(path, gpus, least) for gpus, path in curves.items()}
    for run, loss in zip(measured[1:], losses(measured, fits)[1:], strict=True):
        assert 0 < loss.loss <= run.loss
        assert abs(loss.loss - run.loss) < run.loss


@measured_here
def test_whole_runs_on_more_nodes_are_predicted_from_one() -> None:
    """The run on two nodes sets the time of an epoch; that on four is not looked at. Any time
    between 8 and 12 s predicts both."""
    measured = runs(MEASURED / "training" / "abci_v100_resnet50_horovod.csv")
    curves = MEASURED / "curves"
    fits = {
        run.gpus: curve_fit(curves / f"abci_v100_nccl_ar_p{run.gpus}.csv", run.gpus)
        for run in measured
    }
    for pause in (8.0, 12.0, fitted_pause(measured, fits)):
        predicted = run_seconds(measured, fits, pause)
        for run, seconds in zip(measured, predicted, strict=True):
            assert seconds == pytest.approx(run.seconds, rel=0.03)


@pytest.mark.parametrize("ranks", [16, 32])
def test_one_bucket_a_parameter_is_worst_and_10_to_25_mib_are_a_flat_best(ranks: int) -> None:
    """As measured on 16 and 32 GPUs by Li et al., PVLDB 13(12), 2020, from 0 to 50 MB."""
    sizes = [0.0, 5 * MIB, 10 * MIB, 25 * MIB, 50 * MIB]
    steps = dict(zip((0, 5, 10, 25, 50), bucket_sizes(ranks, sizes), strict=True))
    assert max(steps, key=steps.__getitem__) == 0
    assert min(steps, key=steps.__getitem__) in (10, 25)
    assert abs(steps[10] / steps[25] - 1) < 0.05
    assert steps[0] > 1.5 * steps[10]
