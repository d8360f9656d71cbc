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

from collections.abc import Mapping
from statistics import fmean
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from experiments import output
from experiments.models.device_times import DeviceTimes
from simulator.parallel.pipeline_times import StageTimes, pipeline_times
from simulator.parallel.pipelines import Pipeline, find
from simulator.parallel.pipelines.zb_auto import zb_auto

COLUMNS = "1F1B", "1F1B-I", "ZB-H1", "ZB-H2", "ZB-1p", "ZB-2p"
SEQUENCE = 1024
Source = Literal["products", "one cell"]
SOURCES: tuple[Source, ...] = get_args(Source)


class PaperModel(NamedTuple):
    """A model of the paper, and what Tables 4 and 5 say of it."""

    devices: int
    layers: int
    """Layers of a stage; the first and the last stage have one fewer, and the embedding."""
    heads: int
    hidden: int
    micro: int
    """Sequences of a micro-batch."""
    throughput: tuple[float, ...]
    """Samples a GPU and second of 1F1B, at each number of micro-batches."""
    rates: Mapping[int, tuple[float, ...]]
    """Bubble rates by the number of micro-batches, a column each."""
    columns: tuple[str, ...] = COLUMNS
    """The orders. The first is 1F1B."""

    @property
    def weights_seconds(self) -> float:
        """T_W of a whole stage: a layer's products for the gradients of its weights."""
        device, rows = DeviceTimes("a100", "bf16"), SEQUENCE * self.micro
        sides = [(3, 1), (1, 1), (4, 1), (1, 4)]
        products = [
            device.product(outputs * self.hidden, inputs * self.hidden, rows)
            for outputs, inputs in sides
        ]
        return self.layers * sum(products)

    @property
    def seconds(self) -> float:
        """T of a stage, from the throughput of 1F1B."""
        steps = zip(self.throughput, self.rates.values(), strict=True)
        return fmean(
            self.micro / (self.devices * samples) * (1 - rates[0]) for samples, rates in steps
        )

    @property
    def kept_for_weights(self) -> float:
        """What is kept for the weights as a share of what is kept for a backward (the paper's
        Table 1)."""
        return 32 / (34 + 5 * self.heads * SEQUENCE / self.hidden)


MODELS = {
    "1.5B": PaperModel(
        8,
        3,
        24,
        2304,
        6,
        (11.8, 12.5, 13.6),
        {
            24: (0.2431, 0.1055, 0.1585, 0.1083, 0.1585, 0.0433),
            32: (0.1985, 0.0818, 0.1242, 0.0837, 0.1242, 0.0039),
            64: (0.1240, 0.0443, 0.0674, 0.0444, 0.0674, 0.0026),
        },
    ),
    "6.2B": PaperModel(
        8,
        4,
        32,
        4096,
        3,
        (3.50, 3.70, 4.03),
        {
            24: (0.2347, 0.0808, 0.1323, 0.0698, 0.1323, 0.0029),
            32: (0.1898, 0.0628, 0.1045, 0.0559, 0.1045, 0.0022),
            64: (0.1091, 0.0320, 0.0554, 0.0294, 0.0554, 0.0010),
        },
    ),
    "14.6B": PaperModel(
        16,
        3,
        40,
        5120,
        1,
        (1.40, 1.49, 1.64),
        {
            48: (0.2552, 0.1104, 0.1397, 0.0672, 0.1397, 0.0066),
            64: (0.2082, 0.0852, 0.1088, 0.0516, 0.1088, 0.0054),
            128: (0.1251, 0.0445, 0.0576, 0.0266, 0.0576, 0.0028),
        },
    ),
    "28.3B": PaperModel(
        32,
        2,
        48,
        6144,
        1,
        (0.76, 0.80, 0.88),
        {
            96: (0.2646, 0.1493, 0.1421, 0.0641, 0.1421, 0.0038),
            128: (0.2168, 0.1164, 0.1106, 0.0490, 0.1106, 0.0029),
            256: (0.1352, 0.0624, 0.0594, 0.0257, 0.0594, 0.0018),
        },
    ),
}
"""Zero Bubble's Tables 4 and 5."""
V_COLUMNS = "1F1B", "ZB-V"
V_MODELS = {
    "6.2B": PaperModel(
        16,
        2,
        32,
        4096,
        6,
        (3.38, 3.57, 3.91),
        {48: (0.2668, 0.0697), 64: (0.2206, 0.0533), 128: (0.1390, 0.0274)},
        V_COLUMNS,
    ),
    "14.6B": PaperModel(
        24,
        2,
        40,
        5120,
        2,
        (1.52, 1.61, 1.76),
        {72: (0.2699, 0.0638), 96: (0.2229, 0.0483), 192: (0.1403, 0.0250)},
        V_COLUMNS,
    ),
    "28.3B": PaperModel(
        32,
        2,
        48,
        6144,
        2,
        (0.82, 0.87, 0.95),
        {96: (0.2676, 0.0593), 128: (0.2204, 0.0451), 256: (0.1362, 0.0236)},
        V_COLUMNS,
    ),
}
"""Zero Bubble's Tables 6 and 8: the same models on more GPUs or with larger micro-batches."""


class Fit(NamedTuple):
    """The times of a model as shares of T."""

    transfer: float
    weights: float

    def times(self, chunks: int = 1) -> StageTimes:
        """The times of a stage that is one of `chunks` on its device."""
        half = (1 - self.weights) / 2 / chunks
        return StageTimes(half, half, self.weights / chunks, self.transfer)


def fit(model: PaperModel, source: Source) -> Fit:
    """T_comm by least squares from the column of 1F1B, and T_W from its source."""
    probe = 0.01
    # The bubble of 1F1B grows in proportion to T_comm.
    slopes = {
        count: (_bubble(model, "1F1B", count, Fit(probe, 1 / 3)) - (model.devices - 1)) / probe
        for count in model.rates
    }

    def error(transfer: float) -> float:
        bubbles = {count: model.devices - 1 + slope * transfer for count, slope in slopes.items()}
        return sum(
            (bubble / (count + bubble) - model.rates[count][0]) ** 2
            for count, bubble in bubbles.items()
        )

    transfer = float(
        minimize_scalar(error, bounds=(0, 0.2), method="bounded", options={"xatol": 1e-6}).x
    )
    if source == "products":
        return Fit(transfer, model.weights_seconds / model.seconds)
    first = min(model.rates)

    def difference(weights: float) -> float:
        return rate(model, "ZB-H1", first, Fit(transfer, weights)) - model.rates[first][2]

    return Fit(transfer, float(brentq(difference, 0.1, 1 / 3, xtol=1e-5)))


def rate(model: PaperModel, column: str, micro_batches: int, fitted: Fit) -> float:
    """The simulated bubble rate."""
    bubble = _bubble(model, column, micro_batches, fitted)
    return bubble / (micro_batches + bubble)


def errors(model: PaperModel, micro_batches: int, fitted: Fit) -> dict[str, float]:
    """The simulated rate less the printed one, by column."""
    return {
        column: rate(model, column, micro_batches, fitted) - printed
        for column, printed in zip(model.columns, model.rates[micro_batches], strict=True)
    }


def table() -> str:
    """The errors of all cells, and the worst of each column."""
    return "\n\n".join(
        [
            *(_table(f"Table 5, T_W from {source}", MODELS, source) for source in SOURCES),
            _table("Table 8, T_W from products", V_MODELS, "products"),
        ]
    )


def _table(title: str, models: Mapping[str, PaperModel], source: Source) -> str:
    columns = next(iter(models.values())).columns
    rows = [["model", "m", "T_comm/T", "T_W/T", *columns]]
    worst = dict.fromkeys(columns, 0.0)
    for name, model in models.items():
        fitted = fit(model, source)
        for micro_batches in model.rates:
            cells = errors(model, micro_batches, fitted)
            worst = {column: max(worst[column], abs(cells[column])) for column in columns}
            times = [f"{value:.4f}" for value in fitted]
            shown = [f"{error:+.4f}" for error in cells.values()]
            rows.append([name, str(micro_batches), *times, *shown])
    rows.append(["worst", "", "", "", *(f"{value:.4f}" for value in worst.values())])
    return f"{title}: simulated less printed rate\n\n{output.align(rows)}"


def _bubble(model: PaperModel, column: str, micro_batches: int, fitted: Fit) -> float:
    """The longest time from a device's first to its last action less m T, in units of T."""
    pipeline = _pipeline(model, column, micro_batches, fitted)
    times = fitted.times(pipeline.stages // pipeline.devices)
    run = pipeline_times(pipeline, times, "compiled")
    return float(np.max(run.idle_within + run.computing)) - micro_batches


def _pipeline(model: PaperModel, column: str, micro_batches: int, fitted: Fit) -> Pipeline:
    if column in ("ZB-1p", "ZB-2p"):
        half = (1 - fitted.weights) / 2
        return zb_auto(
            model.devices,
            micro_batches,
            memory=int(column[3]),
            forward=half,
            inputs=half,
            weights=fitted.weights,
            transfer=fitted.transfer,
            kept=100 * model.kept_for_weights,
        )
    # Interleaved has a layer a chunk.
    named = {"1F1B-I": f"interleaved:chunks={model.layers}"}
    name = named.get(column, column.lower().replace("-", "_"))
    return find(name).build(model.devices, micro_batches)
