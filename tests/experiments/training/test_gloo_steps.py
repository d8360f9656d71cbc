"""Steps of a DDP over gloo in a lab, predicted and measured.

Links have a known rate and delay, and layers sleep for known times. Predictions are compared only
with runs that were not fitted.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.shipped_tables import rows_of
from experiments.studies.generated_pages import figures
from experiments.studies.gloo_lab import fit_software, lab, read
from simulator.collectives import find
from simulator.engines import simulate
from simulator.training.buckets import KERNEL, rebuilt
from simulator.training.ddp import DDP
from simulator.training.measures import measure
from simulator.training.model import Layer, Model, Tensor
from simulator.training.plan import Setting
from simulator.training.plan_simulation import train

MEASURED = Path(__file__).parents[4] / "shared" / "measured" / "gloo_lab"
measured_here = pytest.mark.skipif(not MEASURED.exists(), reason="the measured tables are not here")
MIB = 2.0**20
SOFTWARE, EXTRA = 130e-6, (5e-4, 9e-4)


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
    ddp = DDP(bucket=cap, algo="gloo_ring", streams=2)
    plan = ddp.plan(model, Setting(machine, machine.ranks))
    return measure(plan, train(plan)).step


def a_step(buckets: int, backward: float = 0.02) -> SimpleNamespace:
    return SimpleNamespace(
        **{"ranks": 4, "rate": 1e9, "delay": 2e-4, "layers": 4, "nbytes": 2 * MIB},
        **{"forward": 0.01, "backward": backward, "buckets": buckets},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a lab would measure that is as the model says."""
    path = tmp_path_factory.mktemp("gloo_lab")
    sweep = ["collective,p,size_bytes,rate_bps,delay_s,median_s,cv"]
    for ranks in (2, 3, 4):
        for nbytes, delay in ((4096, 2e-4), (2**20, 2e-4), (2**22, 2e-3)):
            row = SimpleNamespace(ranks=ranks, nbytes=nbytes, rate=2e8, delay=delay)
            sweep.append(
                f"all_reduce,{ranks},{nbytes},200000000,{delay},{reduced(row, SOFTWARE)},0.1"
            )
    sweep += [
        "all_reduce,2,4096,200000000,0.0002,1.0,0.7",
        "broadcast,2,4096,200000000,0.0002,1.0,0.1",
    ]
    (path / "sweep.csv").write_text("\n".join(sweep))
    steps = ["p,rate_bps,delay_s,layers,layer_bytes,tf_s,tb_s,buckets,forward_s,step_s"]
    for buckets in (4, 2, 1, 0):
        seconds, forward = slept(a_step(buckets), SOFTWARE, EXTRA), 4 * (0.01 + EXTRA[0])
        steps.append(f"4,1e9,0.0002,4,{2 * MIB:.0f},0.01,0.02,{buckets},{forward},{seconds}")
    (path / "ddp_sleep.csv").write_text("\n".join(steps))
    return path


def test_software_is_found_from_two_and_three_ranks_alone(folder: Path) -> None:
    rows = all_reduces(folder / "sweep.csv")
    assert rows["use"].tolist() == ["fitted"] * 6 + ["unseen"] * 3 + ["noisy"]
    assert calibrate(rows) == pytest.approx(SOFTWARE, abs=2e-6)
    wrong = rows.assign(measured=rows["measured"].where(rows["use"] == "fitted", 9.0))
    assert calibrate(wrong) == calibrate(rows)


def test_sleep_is_found_from_steps_without_communication_alone(folder: Path) -> None:
    rows = sleeping_steps(folder / "ddp_sleep.csv")
    assert rows["use"].tolist() == ["unseen"] * 3 + ["fitted"]
    assert overhead(rows) == pytest.approx(EXTRA)
    wrong = rows.assign(measured=rows["measured"].where(rows["buckets"] == 0, 9.0))
    assert overhead(wrong) == overhead(rows)


def test_a_step_of_one_bucket_is_computing_and_then_an_all_reduce() -> None:
    row = a_step(1)
    whole = SimpleNamespace(ranks=4, nbytes=8 * MIB, rate=row.rate, delay=row.delay)
    alone = reduced(whole, SOFTWARE)
    computing = 4 * (row.forward + row.backward)
    assert slept(a_step(0), SOFTWARE, AS_TOLD) == pytest.approx(computing)
    copies = 2 * (4 * KERNEL + 2 * 8 * MIB / COPYING)
    # A receiver may have said that it is ready before its gradients are.
    assert (
        computing + copies + alone - 2 * (row.delay + SOFTWARE)
        <= slept(row, SOFTWARE, AS_TOLD)
        <= computing + copies + alone
    )


def test_more_buckets_hide_more_behind_a_long_backward() -> None:
    steps = [slept(a_step(buckets, backward=0.1), SOFTWARE, AS_TOLD) for buckets in (1, 2, 4, 0)]
    assert steps == sorted(steps, reverse=True)


@measured_here
def test_gloo_on_four_ranks_is_predicted_from_two_and_three() -> None:
    rows = all_reduces(MEASURED / "sweep.csv")
    software = calibrate(rows)
    assert 70e-6 < software < 220e-6, "what a hop was seen to cost"
    seconds = [reduced(row, software) for row in rows.itertuples()]
    medians = (seconds / rows["measured"] - 1).abs().groupby(rows["use"]).median()
    assert max(medians["fitted"], medians["unseen"]) < 0.04


@measured_here
@pytest.mark.parametrize(
    ("fit_sleep", "median", "worst"),
    [(True, "0.9%", "3.0%"), pytest.param(False, "2.0%", "4.7%", marks=pytest.mark.exhaustive)],
)
def test_steps_are_as_far_off_as_the_page_on_accuracy_says(
    fit_sleep: bool, median: str, worst: str
) -> None:
    software = calibrate(all_reduces(MEASURED / "sweep.csv"))
    rows = sleeping_steps(MEASURED / "ddp_sleep.csv")
    extra = overhead(rows) if fit_sleep else AS_TOLD
    seconds = [slept(row, software, extra) for row in rows.itertuples()]
    errors = (seconds / rows["measured"] - 1).abs()
    unseen = errors[rows["use"] == "unseen"]
    assert [f"{unseen.median():.1%}", f"{unseen.max():.1%}"] == [median, worst]
    assert errors.max() <= 0.10
    assert not fit_sleep or figures()["ddp"] == median
