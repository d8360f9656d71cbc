"""Rows of measured serving points as deployments and loads, and what workers that prefill make of
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from experiments.models.accelerators import DEVICES
from experiments.models.model_catalogue import find_transformer
from experiments.serving.deployment import Cut, Deployment, PrefillWorkers, sent_seconds
from experiments.serving.engines import Engine, ServedPrecision
from experiments.serving.operating_point import TIMES, Load, point
from experiments.studies.kernel_rows import numbers, read
from topologies.catalogue import find
from topologies.topology import Topology

ABOUT = ["machine", "model_family", "engine", "precision", "isl", "osl", "concurrency"]
KEY = [*ABOUT, "gpus", "attention_dp_size", "moe_ep_size"]
"""What equal points have in common."""
COLUMNS = {*KEY, "mode", "ttft_ms", "tpot_ms", "flags"}
MODELS = {
    "Llama-3.1-70B": "llama3_70b",
    "Llama-3.1-8B": "llama3_8b",
    "gpt-oss-120b": "gpt_oss_120b",
    "DeepSeek-R1/V3": "deepseek_v3",
}
"""The model of each family."""
MACHINES = {"b200_sxm": "b200", "h200_sxm": "hgx_h200", "h100_sxm": "hgx_h100"}
ODD = "layout_suspect|concurrency_unknown|tp_is_gpu_total"
"""Flags of points that say too little."""
FIRST = 0.1
"""The first token takes at most this share of a request in points that count."""
WORKERS = "prefill", "decode"
OF_WORKERS = "num_workers", "tp_size", "attention_dp_size", "moe_ep_size"
"""The columns of each kind of workers."""
Row = Mapping[Any, Any]


def pooled(folder: Path) -> Sequence[Row]:
    """The points that tell of tokens on workers that do all."""
    table = read(folder / "serving.csv", COLUMNS)
    table = table[
        (table["mode"] == "agg")
        & ~table["flags"].str.contains(ODD)
        & table["model_family"].isin([*MODELS])
        & (table["gpus"] != "")
        & (table["concurrency"] != "")
    ]
    times = numbers(table, "osl", "ttft_ms", "tpot_ms")
    whole = times["ttft_ms"] + times["osl"] * times["tpot_ms"]
    return _once(table[times["ttft_ms"] <= FIRST * whole], KEY)


def _once(table: pd.DataFrame, key: list[str]) -> Sequence[Row]:
    """Equal points once, with the medians of TPOT and TTFT in seconds."""
    times = numbers(table, *(f"{time}_ms" for time in TIMES)).set_axis([*TIMES], axis=1)
    table = table.assign(**{time: times[time] for time in TIMES})
    medians = table.groupby(key)[[*TIMES]].transform("median") / 1e3
    return (
        table.assign(**{time: medians[time] for time in TIMES})
        .drop_duplicates(key)
        .to_dict("records")
    )


def with_workers(folder: Path) -> pd.DataFrame:
    """log(predicted / measured) of TPOT and TTFT of points whose prefills have workers of their
    own, with their machine and engine. No value was learnt from these."""
    columns = [f"{kind}_{name}" for kind in WORKERS for name in OF_WORKERS]
    table = read(folder / "serving.csv", COLUMNS | {*columns})
    known = (table[[*columns, "concurrency"]] != "").all(axis=1) & (table["mode"] == "disagg")
    rows = _once(table[known], [*ABOUT, *columns])
    return pd.DataFrame([_off(row) for row in rows], columns=["machine", "engine", *TIMES])


def figures(off: pd.Series[float]) -> list[str]:
    """The bias of errors, their median and their p90, in this order; empty without any."""
    size = off.dropna().abs()
    quantiles = off.median(), size.median(), size.quantile(0.9)
    texts = (f"{quantiles[0]:+.1%}", *(f"{each:.1%}" for each in quantiles[1:]))
    return [text * (len(size) > 0) for text in texts]


def _off(row: Row) -> tuple[str, str, float, float]:
    """The machine and the engine of a point, and log(predicted / measured) of TPOT and TTFT."""

    def workers(kind: str) -> tuple[int, Deployment]:
        number, tp, dp, ep = (round(float(row[f"{kind}_{name}"])) for name in OF_WORKERS)
        return number, deployed(row, Cut(tp * dp, dp, ep if tp * dp % ep == 0 else 1))

    (number, first), (decoders, second) = map(workers, WORKERS)
    sent = sent_seconds(first, second, find(MACHINES[row["machine"]]), float(row["isl"]))
    before = PrefillWorkers(first, machine_of(row, first.cut.gpus), number, decoders, sent)
    served = point(second, machine_of(row, second.cut.gpus), load_of(row), workers=before)
    off = np.log((served.tpot.expected, served.ttft.expected)) - np.log(
        [row[time] for time in TIMES]
    )
    return row["machine"], row["engine"], *off.tolist()


def deployed(row: Row, cut: Cut) -> Deployment:
    """The deployment of a row under a cut."""
    model, device = MODELS[row["model_family"]], DEVICES[MACHINES[row["machine"]]]
    about = device, cast(Engine, row["engine"]), cast(ServedPrecision, row["precision"]), cut
    return Deployment(model, find_transformer(model).shape, *about)


def machine_of(row: Row, gpus: int) -> Topology:
    """Its machine with so many GPUs."""
    return find(MACHINES[row["machine"]]).build(max(gpus, 2))


def load_of(row: Row) -> Load:
    """Its load."""
    return Load(*(float(row[name]) for name in Load._fields))
