"""Rows of measured serving points as deployments and loads, and what workers that prefill make of
them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from experiments.models.accelerators import DEVICES
from experiments.models.model_catalogue import find_transformer
from experiments.serving.deployment import Cut, Deployment
from experiments.serving.engines import Engine, ServedPrecision
from experiments.serving.operating_point import TIMES, Load, point
from experiments.serving.prefill_workers import PrefillWorkers, sent_seconds
from experiments.studies.kernel_rows import read as table_of
from experiments.studies.measured_rows import Row, grouped
from topologies.catalogue import find
from topologies.topology import Topology

COLUMNS = {
    *("machine", "model_family", "engine", "mode", "precision", "isl", "osl", "concurrency"),
    *("gpus", "attention_dp_size", "moe_ep_size", "ttft_ms", "tpot_ms", "flags"),
}
MODELS = {
    "Llama-3.1-70B": "llama3_70b",
    "Llama-3.1-8B": "llama3_8b",
    "gpt-oss-120b": "gpt_oss_120b",
    "DeepSeek-R1/V3": "deepseek_v3",
}
"""The model of each family."""
MACHINES = {"b200_sxm": "b200", "h200_sxm": "hgx_h200", "h100_sxm": "hgx_h100"}
ODD = "layout_suspect", "concurrency_unknown", "tp_is_gpu_total"
"""Flags of points that say too little."""
FIRST = 0.1
"""The first token takes at most this share of a request in points that count."""
WORKERS = "prefill", "decode"
OF_WORKERS = "num_workers", "tp_size", "attention_dp_size", "moe_ep_size"
"""The columns of each kind of workers."""


def counts(row: Row) -> bool:
    """Whether a point tells of tokens on workers that do all."""
    if row["mode"] != "agg" or any(flag in row["flags"] for flag in ODD):
        return False
    if not row["gpus"] or not row["concurrency"] or row["model_family"] not in MODELS:
        return False
    first, each = float(row["ttft_ms"]), float(row["tpot_ms"])
    return first <= FIRST * (first + float(row["osl"]) * each)


def key_of(row: Row) -> tuple[str, ...]:
    """What equal points have in common."""
    names = "machine", "model_family", "engine", "precision", "isl", "osl", "concurrency", "gpus"
    return *(row[name] for name in names), row["attention_dp_size"], row["moe_ep_size"]


def with_workers(folder: Path) -> Iterator[list[str]]:
    """A row for each machine and engine of points whose prefills have workers of their own. No
    value was learnt from these."""
    columns = {"concurrency", *(f"{kind}_{name}" for kind in WORKERS for name in OF_WORKERS)}
    rows = [
        row
        for row in table_of(folder / "serving.csv", COLUMNS | columns)
        if row["mode"] == "disagg" and all(row[name] for name in columns)
    ]
    keys = sorted(columns | {"machine", "engine", "precision", "isl", "osl"})
    alike = grouped(rows, lambda row: tuple(row[name] for name in keys)).values()
    errors = grouped((_off(each) for each in alike), lambda off: off[:2])
    for key, group in errors.items():
        off = np.array([each[2:] for each in group])
        cells = [
            (f"{np.median(each):+.1%}", *(f"{np.quantile(abs(each), at):.1%}" for at in (0.5, 0.9)))
            for each in off.T
        ]
        yield [*key, str(len(off)), *cells[0], *cells[1]]


def _off(rows: Sequence[Row]) -> tuple[str, str, float, float]:
    """The machine and the engine of equal rows, and log(predicted / measured) of TPOT and TTFT."""
    row = rows[0]

    def workers(kind: str) -> tuple[int, Deployment]:
        number, tp, dp, ep = (round(float(row[f"{kind}_{name}"])) for name in OF_WORKERS)
        return number, deployed(row, Cut(tp * dp, dp, ep if tp * dp % ep == 0 else 1))

    (number, first), (decoders, second) = map(workers, WORKERS)
    sent = sent_seconds(first, second, find(MACHINES[row["machine"]]), float(row["isl"]))
    before = PrefillWorkers(first, machine_of(row, first.cut.gpus), number, decoders, sent)
    served = point(second, machine_of(row, second.cut.gpus), load_of(row), workers=before)
    off = np.log((served.tpot.expected, served.ttft.expected)) - np.log(measured(rows))
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
    return Load(*(float(row[name]) for name in ("isl", "osl", "concurrency")))


def measured(rows: Sequence[Row]) -> tuple[float, ...]:
    """The medians of TPOT and TTFT in seconds."""
    return tuple(
        float(np.median([float(row[f"{time}_ms"]) for row in rows])) / 1e3 for time in TIMES
    )
