"""Bubble rates of pipelines beside those of Zero Bubble's Tables 5 and 8.

Qi et al. (ICLR 2024, arXiv 2401.10241) print, for GPT-like models on A100s, the share of a step in
which the busiest device is idle: (cost - m T) / cost, T = T_F + T_B + T_W, computed from times that
they profiled. Those times are not used here. T_comm comes from the column of 1F1B. The time of
1F1B depends on T alone, so that the column says nothing of T_W. T_W comes from one of two sources:

- products: the matrix products of the weights at the shares of the peak that were measured on an
  A100, over the T that 1F1B's throughput (Table 4) implies;
- one cell: the first cell of ZB-H1 of each model.

T_F and T_B are halves of the rest: no column tells them apart.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq, minimize_scalar

from experiments.models.device_times import DeviceTimes
from simulator.parallel.pipeline_times import StageTimes, pipeline_times
from simulator.parallel.pipelines import Pipeline, find
from simulator.parallel.pipelines.paper_orders import zb_auto

TABLES = Path(__file__).with_name("zero_bubble.csv")
"""A row for each model and number of micro-batches."""
COLUMNS = ("1F1B", "1F1B-I", "ZB-H1", "ZB-H2", "ZB-1p", "ZB-2p", "ZB-V")
SEQUENCE = 1024
SIZES = ["devices", "layers", "heads", "hidden", "micro"]
Source = Literal["products", "one cell"]


def models(number: int) -> dict[str, pd.DataFrame]:
    """The models of the paper's Table 5, or 8 (on more GPUs or with larger micro-batches): a row
    for each number of micro-batches, with the sizes of the model, the throughput of 1F1B and the
    bubble rate of each order."""
    rows = pd.read_csv(TABLES)
    rows = rows[rows["table"] == number].set_index("micro_batches")
    return {str(name): steps for name, steps in rows.groupby("model", sort=False)}


def size(model: pd.DataFrame, name: str) -> int:
    """A size of a model. `layers` are those of a stage; the first and the last stage have one
    fewer, and the embedding. `micro` are sequences of a micro-batch."""
    return int(model[name].iloc[0])


def weights_share(model: pd.DataFrame) -> float:
    """T_W, a layer's products for the gradients of its weights, over T, from the throughput of
    1F1B."""
    device, rows = DeviceTimes("a100", "bf16"), SEQUENCE * size(model, "micro")
    products = [
        device.product(outputs * size(model, "hidden"), inputs * size(model, "hidden"), rows)
        for outputs, inputs in [(3, 1), (1, 1), (4, 1), (1, 4)]
    ]
    seconds = model["micro"] / (model["devices"] * model["samples_per_s"]) * (1 - model["1F1B"])
    return size(model, "layers") * sum(products) / float(seconds.mean())


Shares = tuple[float, float]
"""Times of a model as shares of T: of a transfer, and of the gradients of weights."""


def stage_times(fitted: Shares, chunks: int = 1) -> StageTimes:
    """The times of a stage that is one of `chunks` on its device."""
    transfer, weights = fitted
    half = (1 - weights) / 2 / chunks
    return StageTimes(half, half, weights / chunks, transfer)


def fit(model: pd.DataFrame, source: Source) -> Shares:
    """T_comm by least squares from the column of 1F1B, and T_W from its source."""
    counts, probe, least = model.index.to_numpy(), 0.01, size(model, "devices") - 1
    # The bubble of 1F1B grows in proportion to T_comm.
    bubbles = [_bubble(model, "1F1B", count, (probe, 1 / 3)) for count in counts.tolist()]
    slopes = (np.array(bubbles) - least) / probe

    def error(transfer: float) -> float:
        bubble = least + slopes * transfer
        return float(((bubble / (counts + bubble) - model["1F1B"]) ** 2).sum())

    transfer = float(
        minimize_scalar(error, bounds=(0, 0.2), method="bounded", options={"xatol": 1e-6}).x
    )
    if source == "products":
        return transfer, weights_share(model)
    first = int(counts.min())

    def difference(weights: float) -> float:
        return errors(model[[*SIZES, "ZB-H1"]], first, (transfer, weights))["ZB-H1"]

    return transfer, float(brentq(difference, 0.1, 1 / 3, xtol=1e-5))


def rate(model: pd.DataFrame, column: str, micro_batches: int, fitted: Shares) -> float:
    """The simulated bubble rate."""
    bubble = _bubble(model, column, micro_batches, fitted)
    return bubble / (micro_batches + bubble)


def errors(model: pd.DataFrame, micro_batches: int, fitted: Shares) -> dict[str, float]:
    """The simulated rate less the printed one, by column."""
    printed = model.loc[[micro_batches]].filter(items=COLUMNS).dropna(axis=1)
    return {
        column: rate(model, column, micro_batches, fitted) - float(printed[column].iloc[0])
        for column in map(str, printed)
    }


def _bubble(model: pd.DataFrame, column: str, micro_batches: int, fitted: Shares) -> float:
    """The longest time from a device's first to its last action less m T, in units of T."""
    pipeline = _pipeline(model, column, micro_batches, fitted)
    times = stage_times(fitted, pipeline.stages // pipeline.devices)
    run = pipeline_times(pipeline, times, "compiled")
    return float(np.max(run.idle_within + run.computing)) - micro_batches


def _pipeline(model: pd.DataFrame, column: str, micro_batches: int, fitted: Shares) -> Pipeline:
    if column in ("ZB-1p", "ZB-2p"):
        transfer, weights = fitted
        half = (1 - weights) / 2
        return zb_auto(
            size(model, "devices"),
            micro_batches,
            memory=int(column[3]),
            forward=half,
            inputs=half,
            weights=weights,
            transfer=transfer,
            # Kept for the weights, as a share of all that is kept for a backward (Table 1).
            kept=100 * 32 / (34 + 5 * size(model, "heads") * SEQUENCE / size(model, "hidden")),
        )
    # Interleaved has a layer a chunk.
    named = {"1F1B-I": f"interleaved:chunks={size(model, 'layers')}"}
    name = named.get(column, column.lower().replace("-", "_"))
    return find(name).build(size(model, "devices"), micro_batches)


MODELS, V_MODELS = models(5), models(8)
MIDDLE, LARGE = (pytest.param(name, marks=pytest.mark.exhaustive) for name in ("14.6B", "28.3B"))


@pytest.mark.parametrize("name", ["1.5B", "6.2B", MIDDLE, LARGE])
def test_all_columns_follow_from_1f1b_and_a_cell(name: str) -> None:
    model = MODELS[name]
    fitted = fit(model, "one cell")
    for micro_batches in model.index:
        assert max(map(abs, errors(model, micro_batches, fitted).values())) < 0.006


@pytest.mark.parametrize("name", ["1.5B", "6.2B", MIDDLE, LARGE])
def test_nearly_all_cells_follow_from_the_columns_of_1f1b(name: str) -> None:
    model = MODELS[name]
    fitted = fit(model, "products")
    differences = {
        (micro_batches, column): abs(error)
        for micro_batches in model.index
        for column, error in errors(model, micro_batches, fitted).items()
    }
    assert max(differences.values()) < 0.0155
    worst = {column for (_, column), error in differences.items() if error > 0.01}
    assert worst == (set() if name == "1.5B" else {"ZB-H2"})


@pytest.mark.parametrize("name", ["6.2B", MIDDLE, LARGE])
def test_zb_v_follows_from_the_column_of_1f1b(name: str) -> None:
    """Zero Bubble's Table 8."""
    model = V_MODELS[name]
    fitted = fit(model, "products")
    for micro_batches in model.index:
        assert max(map(abs, errors(model, micro_batches, fitted).values())) < 0.014


def test_the_time_of_1f1b_says_nothing_of_the_parts() -> None:
    """It depends on T alone, so that no fit to it can tell T_W."""
    model = MODELS["1.5B"]
    rates = [rate(model, "1F1B", 24, (1 / 64, weights / 16)) for weights in (1, 4, 5)]
    assert rates == pytest.approx([rates[0]] * 3, abs=1e-12)
