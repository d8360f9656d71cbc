"""Predicted beside measured training: on tables made for it, and on the measured ones where they
are."""

from pathlib import Path

import numpy as np
import pytest

from experiments.studies.__main__ import main
from experiments.studies.gloo_lab import LabRow, lab
from experiments.studies.training_runs import (
    COPYING,
    MIB,
    Overhead,
    Slept,
    all_reduces,
    calibrate,
    overhead,
    reduced,
    role_of,
    sleeping_steps,
    slept,
)
from simulator.collectives import find
from simulator.engines import simulate
from simulator.training.buckets import KERNEL
from topologies.shapes import star

MEASURED = Path(__file__).parents[4] / "shared" / "measured"
measured_here = pytest.mark.skipif(not MEASURED.exists(), reason="the measured tables are not here")
SOFTWARE, EXTRA = 130e-6, Overhead(5e-4, 9e-4)


def a_step(buckets: int, measured: float, backward: float = 0.02) -> Slept:
    return Slept(
        4, 1e9, 2e-4, 4, 2 * MIB, 0.01, backward, buckets, 4 * (0.01 + EXTRA.forward), measured
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a lab would measure that is as the model says, and nodes whose all-reduces are a
    ring's."""
    path = tmp_path_factory.mktemp("measured")
    for name in ("gloo_lab", "curves", "training"):
        (path / name).mkdir()
    sweep = ["collective,p,size_bytes,rate_bps,delay_s,median_s,cv"]
    for ranks in (2, 3, 4):
        for nbytes, delay in ((4096, 2e-4), (2**20, 2e-4), (2**22, 2e-3)):
            row = LabRow("all_reduce", "", ranks, nbytes, 2e8, delay, 1.0, 0.1)
            sweep.append(
                f"all_reduce,{ranks},{nbytes},200000000,{delay},{reduced(row, SOFTWARE)},0.1"
            )
    sweep += [
        "all_reduce,2,4096,200000000,0.0002,1.0,0.7",
        "broadcast,2,4096,200000000,0.0002,1.0,0.1",
    ]
    (path / "gloo_lab" / "sweep.csv").write_text("\n".join(sweep))
    steps = ["p,rate_bps,delay_s,layers,layer_bytes,tf_s,tb_s,buckets,forward_s,step_s"]
    for buckets in (4, 2, 1, 0):
        slow = a_step(buckets, 1.0)
        seconds = slept(slow, SOFTWARE, EXTRA)
        steps.append(
            f"4,1e9,0.0002,4,{2 * MIB:.0f},0.01,0.02,{buckets},{slow.measured_forward},{seconds}"
        )
    (path / "gloo_lab" / "ddp_sleep.csv").write_text("\n".join(steps))
    training = ["nodes,gpus,batch_per_gpu,train_seconds"]
    for nodes, seconds in ((1, 87000.0), (2, 44500.0)):
        training.append(f"{nodes},{4 * nodes},96,{seconds}")
        curve = ["size_bytes,time_us"]
        for nbytes in (1024, 2**20, 2**22, 2**25):
            time = simulate(
                find("ring").build(4 * nodes, float(nbytes)),
                star(4 * nodes, bandwidth=2e10, latency=3e-6),
            )
            curve.append(f"{nbytes},{time.makespan * 1e6}")
        (path / "curves" / f"abci_v100_nccl_ar_p{4 * nodes}.csv").write_text("\n".join(curve))
    (path / "training" / "abci_v100_resnet50_horovod.csv").write_text("\n".join(training))
    return path


def test_half_of_delay_and_software_is_on_each_of_two_links() -> None:
    machine = lab(3, 8e9, 3e-3, 1e-3)
    assert machine.latency.tolist() == [2e-3] * 6
    assert machine.bandwidth[0] == pytest.approx(1e9 * 1448 / 1514)


def test_software_is_found_from_two_and_three_ranks_alone(folder: Path) -> None:
    rows = all_reduces(folder / "gloo_lab" / "sweep.csv")
    assert [role_of(row) for row in rows] == ["fitted"] * 6 + ["unseen"] * 3 + ["noisy"]
    assert calibrate(rows) == pytest.approx(SOFTWARE, abs=2e-6)
    wrong = [row._replace(measured=9.0) if role_of(row) != "fitted" else row for row in rows]
    assert calibrate(wrong) == calibrate(rows)


def test_sleep_is_found_from_steps_without_communication_alone(folder: Path) -> None:
    rows = sleeping_steps(folder / "gloo_lab" / "ddp_sleep.csv")
    assert [row.role for row in rows] == ["unseen"] * 3 + ["fitted"]
    assert overhead(rows) == pytest.approx(EXTRA)
    assert overhead(
        [row._replace(measured=9.0) if row.buckets else row for row in rows]
    ) == overhead(rows)


def test_a_step_of_one_bucket_is_computing_and_then_an_all_reduce() -> None:
    row = a_step(1, 1.0)
    alone = reduced(LabRow("all_reduce", "", 4, 8 * MIB, row.rate, row.delay, 1.0, 0.0), SOFTWARE)
    computing = 4 * (row.forward + row.backward)
    assert slept(row._replace(buckets=0), SOFTWARE, Overhead()) == pytest.approx(computing)
    copies = 2 * (4 * KERNEL + 2 * 8 * MIB / COPYING)
    # A receiver may have said that it is ready before its gradients are.
    assert (
        computing + copies + alone - 2 * (row.delay + SOFTWARE)
        <= slept(row, SOFTWARE, Overhead())
        <= computing + copies + alone
    )


def test_more_buckets_hide_more_behind_a_long_backward() -> None:
    steps = [
        slept(a_step(buckets, 1.0, backward=0.1), SOFTWARE, Overhead()) for buckets in (1, 2, 4, 0)
    ]
    assert steps == sorted(steps, reverse=True)


@pytest.mark.exhaustive
def test_the_tables_say_what_is_fitted_and_what_is_predicted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["training-runs", str(folder)])
    main(["horovod-runs", str(folder)])
    printed = capsys.readouterr().out
    assert (
        "130us of software a hop; a layer sleeps 500us longer forward and 900us longer backward "
        "than told" in printed
    )
    assert "|error| of step: median unseen 0.0%, worst 0.0%; fitted 0.0%, worst 0.0%" in printed
    assert "    2     8  296.4ms  2.30%" in printed


@measured_here
def test_gloo_on_four_ranks_is_predicted_from_two_and_three() -> None:
    rows = all_reduces(MEASURED / "gloo_lab" / "sweep.csv")
    software = calibrate(rows)
    assert 70e-6 < software < 220e-6, "what a hop was seen to cost"
    errors = {row: abs(reduced(row, software) / row.measured - 1) for row in rows}
    for role, median in (("fitted", 0.04), ("unseen", 0.04)):
        assert np.median([error for row, error in errors.items() if role_of(row) == role]) < median


@measured_here
@pytest.mark.parametrize("fit_sleep", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_steps_of_sleeping_layers_are_predicted(fit_sleep: bool) -> None:
    software = calibrate(all_reduces(MEASURED / "gloo_lab" / "sweep.csv"))
    rows = sleeping_steps(MEASURED / "gloo_lab" / "ddp_sleep.csv")
    extra = overhead(rows) if fit_sleep else Overhead()
    errors = {row: abs(slept(row, software, extra) / row.measured - 1) for row in rows}
    talking = [error for row, error in errors.items() if row.role == "unseen"]
    for group in (talking, list(errors.values())):
        assert np.median(group) <= 0.06
        assert max(group) <= 0.10
