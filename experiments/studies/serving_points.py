"""What serving engines add to kernels, learnt from measured points, and the errors left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import numpy as np
import pandas as pd
import typer
from scipy.optimize import least_squares

from experiments import output
from experiments.models.accelerators import DEVICES, accelerator
from experiments.models.model_catalogue import find_transformer
from experiments.serving.deployment import Cut, Deployment, PrefillWorkers, sent_seconds
from experiments.serving.engines import Engine, ServedPrecision
from experiments.serving.iterations import decode, prefill
from experiments.serving.operating_point import (
    TIMES,
    Load,
    point,
    prompts_together,
    tpot,
    ttft,
    work_of,
)
from experiments.studies import kernel_rows
from experiments.studies.kernel_rows import numbers
from experiments.studies.measured_rows import markdown
from simulator.uncertainty.interval import LEVEL, quantile
from topologies.catalogue import find
from topologies.errors import InputError
from topologies.topology import Floats, Topology

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
    table = kernel_rows.read(folder / "serving.csv", COLUMNS)
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
    table = kernel_rows.read(folder / "serving.csv", COLUMNS | {*columns})
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


MOST_WAITING = 64
"""The most sequences of points whose first token counts."""
LARGE = 1.0
"""The spread of what was not measured."""
SPECULATIVE = "DeepSeek-R1/V3"
"""A family whose points do not say whether tokens were speculative."""
SHARED = {
    "latent": (0.1, 1.0),
    "crowd": (1.0, 0.1),
}
"""What engines share, each with what is usual and its spread in the logarithm."""
OWN = {
    "block": (7e-6, 1.0),
    "host": (5e-4, 1.0),
    "prefill_host": (5e-3, 1.0),
    "first": (1.5, 0.5),
    "first_host": (2e-2, 1.0),
    "wait": (0.1, 0.5),
}
"""What each engine has of its own."""
ODD_WEIGHT = 0.2
"""The weight of the first tokens of that family."""
PRIOR = 0.25
"""The error of a point that counts as much as a value one spread from its usual."""
PLAIN = "plain tpot", "plain ttft"
"""The columns of errors of the plain model."""
LEFT_OUT = {
    "workload": ["workload"],
    "model": ["family"],
    "machine": ["machine"],
    "both": ["family", "machine"],
}
"""What points have in common that are left out together."""


def main(
    folder: Annotated[Path, typer.Argument(help="Measured kernels, with serving.csv.")],
    out: Annotated[Path | None, typer.Option(help="Write what engines add to this file.")] = None,
) -> str:
    """Learn what engines add, and print the errors on points that were left out: by workload, by
    model, by machine, and by both. The second table has these by model, machine and engine. The
    third has points whose prefills have workers of their own, by what ships. Intervals are those
    that ship: their spread holds 80% of points of models and machines that were left out."""
    points = read(folder)
    errors = {name: left_out_errors(points, columns) for name, columns in LEFT_OUT.items()}
    spread = spreads(points, errors["both"])
    heads = "left out", "time", "points", "median", "p90", "bias", "inside 80%", "plain"
    if out is not None:
        output.write(out, overheads_text(fit(points), spread))
    rows = [row for name, left in errors.items() for row in _rows(points, name, left, spread)]
    both = points.rename(columns={"family": "model"}).drop(columns=[*TIMES]).join(errors["both"])
    tables = (
        markdown([[*heads, SPECULATIVE], *rows]),
        errors_by(["model", "machine", "engine"], both, sort=True),
        errors_by(["machine", "engine"], with_workers(folder), sort=False),
    )
    return "\n\n".join(tables)


def read(folder: Path) -> pd.DataFrame:
    """The points of `serving.csv` that count, a row each: what they are of, the seconds of their
    :data:`TIMES`, whether the first token counts in `waiting`, the load, the work, and what the
    plain model knows."""
    rows = pooled(folder)
    if not rows:
        path = folder / "serving.csv"
        raise InputError(f"{path}: no point of one pool that says its GPUs and sequences")
    return pd.DataFrame([_point(row) for row in rows])


def _point(row: Row) -> dict[str, Any]:
    gpus = round(float(row["gpus"]))

    def size(name: str) -> int:
        """A size of the layout; 1 if it is not known, or no share of the GPUs."""
        value = round(float(row[name] or 1))
        return value if 1 <= value <= gpus and gpus % value == 0 else 1

    deployment = deployed(row, Cut(gpus, size("attention_dp_size"), size("moe_ep_size")))
    shape, cut, load = deployment.shape, deployment.cut, load_of(row)
    topology, tokens = machine_of(row, gpus), load.isl + load.osl / 2
    together = prompts_together(load, load.concurrency / (load.osl - 1), cut.dp)
    chip = accelerator(deployment.device)
    flops = 2 * shape.active_parameters * load.isl / gpus
    return {
        **{"family": row["model_family"], "machine": row["machine"], "engine": row["engine"]},
        "workload": f"{row['isl']}/{row['osl']}",
        **{time: row[time] for time in TIMES},
        "waiting": load.concurrency <= MOST_WAITING,
        "load": load,
        "work": work_of(
            deployment,
            decode(deployment, topology, load.concurrency, tokens),
            prefill(deployment, topology, load.isl, prompts=together),
        ),
        # Seconds of weights, of the KV cache and of a prefill's share, layers, and a prefill.
        "plain": (
            deployment.weights / chip.bandwidth,
            load.concurrency / cut.dp * deployment.kv_bytes(tokens) / chip.bandwidth,
            load.concurrency / load.osl * flops / chip.peak["bf16"],
            shape.blocks,
            flops / chip.peak["bf16"],
        ),
    }


def stacked(values: Iterable[Any]) -> Any:
    """Tuples of numbers, or of such tuples, as a tuple of arrays."""
    values = [*values]
    if not isinstance(values[0], tuple):
        return np.array(values)
    columns = map(stacked, zip(*values, strict=True))
    return type(values[0])(*columns) if hasattr(values[0], "_fields") else tuple(columns)


ENGINES = get_args(Engine)
NAMES = [*SHARED, *(f"{name} {engine}" for engine in ENGINES for name in OWN)]
_USUAL = [*SHARED.values(), *(OWN[name] for _ in ENGINES for name in OWN)]


Predictor = Callable[[Floats], tuple[Floats, Floats]]
"""TPOT and TTFT of points in seconds by the logarithms of the values."""


def predictor(points: pd.DataFrame) -> Predictor:
    """The times by this model."""
    load, work = stacked(points["load"]), stacked(points["work"])

    place = points["engine"].map(ENGINES.index)

    def times(inner: Floats) -> tuple[Floats, Floats]:
        shared, own = np.split(np.exp(inner), [len(SHARED)])
        of_engines = own.reshape(len(ENGINES), len(OWN))[place].T
        values = dict(zip([*SHARED, *OWN], [*shared, *of_engines], strict=True))
        return tpot(work, load, values), ttft(work, load, values)

    return times


def plain_predictor(points: pd.DataFrame) -> Predictor:
    """The times by a model of eight values: bytes of weights and KV cache over the bandwidth, FLOPs
    over the peak, a share of prefills, and a constant a layer for each engine; a factor on a
    prefill and a constant for the first token."""
    of_weights, of_cache, of_prefills, blocks, prompt = stacked(points["plain"])
    place = points["engine"].map(ENGINES.index)

    def times(inner: Floats) -> tuple[Floats, Floats]:
        weights, cache, share, *layers, first, host = np.exp(inner)
        each = weights * of_weights + cache * of_cache + share * of_prefills
        each += np.array(layers)[place] * blocks
        return each, each + first * prompt + host

    return times


def residuals(
    times: Predictor, points: pd.DataFrame, sure: Floats | float = 1.0
) -> Callable[[Floats], Floats]:
    """How far off times are; first tokens as `sure` as this count. Points far off hardly count."""
    taken = points[[*TIMES]].to_numpy().T
    waiting = points["waiting"].to_numpy()

    def off(inner: Floats) -> Floats:
        each, first = np.arctan(np.log(np.stack(times(inner)) / taken))
        return np.concatenate([each, (sure * first)[waiting]])

    return off


def fit(points: pd.DataFrame) -> Floats:
    """The logarithms of the values."""
    # what is not known of these points decides how long their first tokens take
    sure = np.where(points["family"] == SPECULATIVE, ODD_WEIGHT, 1.0)
    off, (usual, spread) = residuals(predictor(points), points, sure), np.array(_USUAL).T
    usual = np.log(usual)

    def errors(inner: Floats) -> Floats:
        return np.concatenate([off(inner), PRIOR * (inner - usual) / spread])

    return np.asarray(least_squares(errors, usual, max_nfev=80).x)


def plain_fit(points: pd.DataFrame) -> Floats:
    """The logarithms of the values of the plain model."""
    start = np.log([1.0, 1.0, 2.0, *[3e-5] * len(ENGINES), 4.0, 5e-2])
    off, bounds = residuals(plain_predictor(points), points), (start - 9, start + 9)
    return np.asarray(least_squares(off, start, bounds=bounds, max_nfev=80).x)


def left_out_errors(points: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """log(predicted / measured) of TPOT and TTFT by this model and the plain one. Points with the
    same values of `columns` are left out together, and others with one of them are not fitted. nan
    for first tokens that do not count, and for points without others."""
    errors = pd.DataFrame(np.nan, points.index, [*TIMES, *PLAIN])
    for _, judged in points.groupby(columns):
        fitted = points[(points[columns] != judged.iloc[0][columns]).all(axis=1)]
        if fitted.empty:
            continue
        times = *predictor(judged)(fit(fitted)), *plain_predictor(judged)(plain_fit(fitted))
        taken = judged[[*TIMES, *TIMES]].to_numpy()
        errors.loc[judged.index] = np.log(np.stack(times, axis=1) / taken)
    errors.loc[~points["waiting"], ["ttft", "plain ttft"]] = np.nan
    return errors


def spreads(points: pd.DataFrame, errors: pd.DataFrame) -> Mapping[str, float]:
    """The standard deviations of both times, by which an interval holds LEVEL of these errors:
    those of most models, and of the family that is odd."""
    odd, spread = points["family"] == SPECULATIVE, {}
    for time in TIMES:
        for name, chosen in ((time, ~odd), (f"{time}_latent", odd)):
            size = errors.loc[chosen, time].abs().dropna()
            spread[name] = float(size.quantile(LEVEL)) / quantile(LEVEL) if len(size) else LARGE
    return spread


def _rows(
    points: pd.DataFrame, name: str, errors: pd.DataFrame, spread: Mapping[str, float]
) -> Iterator[list[str]]:
    """A row for each time."""
    odd = points["family"] == SPECULATIVE
    for time in TIMES:
        usual = errors[~odd & errors[time].notna()]
        inside = (usual[time].abs() <= quantile(LEVEL) * spread[time]).mean()
        bias, median, far = figures(usual[time])
        plain, speculative = figures(usual[f"plain {time}"])[1], figures(errors.loc[odd, time])[1]
        cells = median, far, bias, f"{inside:.0%}", plain, speculative
        yield [name, time.upper(), str(len(usual)), *cells]


def errors_by(keys: list[str], rows: pd.DataFrame, *, sort: bool) -> str:
    """A table with the errors of both times for each group of rows."""
    heads = [f"{time.upper()} {what}" for time in TIMES for what in ("bias", "median", "p90")]
    lines = [[*keys, "points", *heads]]
    for names, group in rows.groupby(keys, sort=sort):
        cells = [cell for time in TIMES for cell in figures(group[time])]
        lines.append([*map(str, names), str(len(group)), *cells])
    return markdown(lines)


def overheads_text(inner: Floats, spread: Mapping[str, float]) -> str:
    """The file of what engines add."""
    values = dict(zip(NAMES, np.exp(inner).tolist(), strict=True))
    values |= {f"spread_{time}": value for time, value in spread.items()}
    rows: list[output.Record] = []
    for name, value in values.items():
        what, _, engine = name.partition(" ")
        rows.append({"engine": engine or "all", "name": what, "value": float(f"{value:.4g}")})
    return output.to_csv(rows)
