"""What serving engines add to kernels, learnt from measured points, and the errors left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args

import numpy as np
import typer
from scipy.optimize import least_squares

from experiments import output
from experiments.models.accelerators import accelerator
from experiments.serving.deployment import Cut
from experiments.serving.engines import Engine
from experiments.serving.iterations import decode, prefill
from experiments.serving.operating_point import (
    Load,
    PointWork,
    prompts_together,
    tpot,
    ttft,
    work_of,
)
from experiments.studies.generated_pages import markdown
from experiments.studies.kernel_rows import read as table_of
from experiments.studies.measured_rows import Row, grouped
from experiments.studies.serving_rows import (
    COLUMNS,
    counts,
    deployed,
    key_of,
    load_of,
    machine_of,
    measured,
    with_workers,
)
from simulator.uncertainty.interval import LEVEL, quantile
from topologies.errors import InputError
from topologies.topology import Flags, Floats

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


class Points(NamedTuple):
    """Measured points as columns."""

    family: Floats
    machine: Floats
    engine: Floats
    workload: Floats
    load: Load
    work: PointWork
    tpot: Floats
    ttft: Floats
    waiting: Flags
    """Whether the first token counts."""
    plain: Floats
    """Columns of the plain model: seconds of weights, of the KV cache, and of a prefill's FLOPs."""

    def at(self, chosen: Flags) -> Points:
        """The chosen points."""
        points: Points = _map(lambda column: column[chosen], self)
        return points


def _map(change: Callable[[Any], Any], value: Any) -> Any:
    """Named tuples of columns with each column changed."""
    if isinstance(value, tuple):
        return type(value)(*(_map(change, each) for each in value))
    return change(value)


def main(
    folder: Annotated[Path, typer.Argument(help="Measured kernels, with serving.csv.")],
    out: Annotated[Path | None, typer.Option(help="Write what engines add to this file.")] = None,
) -> str:
    """Learn what engines add, and print the errors on points that were left out: by workload, by
    model, by machine, and by both. The second table has these by model, machine and engine, and the
    third the worst points, but for the odd family. The fourth has points whose prefills have
    workers of their own, by what ships. Intervals are those that ship: their spread holds 80% of
    points of models and machines that were left out."""
    points = read(folder)
    errors = {name: left_out_errors(points, folds) for name, folds in left_out(points)}
    spread = spreads(points, errors["both"])
    heads = "left out", "time", "points", "median", "p90", "bias", "inside 80%", "plain"
    if out is not None:
        output.write(out, overheads_text(fit(points), spread))
    rows = [row for name, left in errors.items() for row in _rows(points, name, left, spread)]
    groups = "model", "machine", "engine", "points", *(f"{time} {what}" for time, what in _SHOWN)
    tables = (
        markdown((*heads, SPECULATIVE), rows),
        markdown(groups, _groups(points, errors["both"])),
        markdown(WORST, _worst(points, errors["both"])),
        markdown(("machine", *groups[2:]), with_workers(folder)),
    )
    return "\n\n".join(tables)


def read(folder: Path) -> Points:
    """The points of `serving.csv` that count. Equal points count once, by their median."""
    path = folder / "serving.csv"
    rows = [row for row in table_of(path, COLUMNS) if counts(row)]
    if not rows:
        raise InputError(f"{path}: no point of one pool that says its GPUs and sequences")
    columns = [_point(alike) for alike in grouped(rows, key_of).values()]
    return _joined(columns)


def _point(rows: Sequence[Row]) -> tuple[Any, ...]:
    row = rows[0]
    gpus = round(float(row["gpus"]))

    def size(name: str) -> int:
        """A size of the layout; 1 if it is not known, or no share of the GPUs."""
        value = round(float(row[name] or 1))
        return value if 1 <= value <= gpus and gpus % value == 0 else 1

    deployment = deployed(row, Cut(gpus, size("attention_dp_size"), size("moe_ep_size")))
    shape, cut, load = deployment.shape, deployment.cut, load_of(row)
    topology, tokens = machine_of(row, gpus), load.isl + load.osl / 2
    together = prompts_together(load, load.concurrency / (load.osl - 1), cut.dp)
    work = work_of(
        deployment,
        decode(deployment, topology, load.concurrency, tokens),
        prefill(deployment, topology, load.isl, prompts=together),
    )
    chip = accelerator(deployment.device)
    flops = 2 * shape.active_parameters * load.isl / gpus
    plain = (
        deployment.weights / chip.bandwidth,
        load.concurrency / cut.dp * deployment.kv_bytes(tokens) / chip.bandwidth,
        load.concurrency / load.osl * flops / chip.peak["bf16"],
        shape.blocks,
        flops / chip.peak["bf16"],
    )
    names = row["model_family"], row["machine"], row["engine"], f"{row['isl']}/{row['osl']}"
    return *names, load, work, *measured(rows), load.concurrency <= MOST_WAITING, plain


def _joined(columns: Sequence[tuple[Any, ...]]) -> Points:
    def stack(values: Sequence[Any]) -> Any:
        if isinstance(values[0], tuple) and hasattr(values[0], "_fields"):
            return type(values[0])(*map(stack, zip(*values, strict=True)))
        return np.array(values)

    return Points(*map(stack, zip(*columns, strict=True)))


ENGINES = get_args(Engine)
NAMES = [*SHARED, *(f"{name} {engine}" for engine in ENGINES for name in OWN)]
_USUAL = [*SHARED.values(), *(OWN[name] for _ in ENGINES for name in OWN)]


def _values(inner: Floats, points: Points) -> dict[str, Any]:
    """The values of each point."""
    values = dict(zip(NAMES, np.exp(inner).tolist(), strict=True))
    of_engines = {
        name: np.select(
            [points.engine == engine for engine in ENGINES],
            [values[f"{name} {engine}"] for engine in ENGINES],
            1.0,
        )
        for name in OWN
    }
    return {name: values[name] for name in SHARED} | of_engines


def predicted(inner: Floats, points: Points) -> tuple[Floats, Floats]:
    """TPOT and TTFT in seconds."""
    values = _values(inner, points)
    return tpot(points.work, points.load, values), ttft(points.work, points.load, values)


def fit(points: Points) -> Floats:
    """The logarithms of the values. Points far off hardly count."""
    # what is not known of these points decides how long their first tokens take
    sure = np.where(points.family == SPECULATIVE, ODD_WEIGHT, 1.0)
    usual, spread = np.log([value for value, _ in _USUAL]), np.array([each for _, each in _USUAL])

    def errors(inner: Floats) -> Floats:
        each, first = predicted(inner, points)
        return np.concatenate(
            [
                np.arctan(np.log(each / points.tpot)),
                (sure * np.arctan(np.log(first / points.ttft)))[points.waiting],
                PRIOR * (inner - usual) / spread,
            ]
        )

    return np.asarray(least_squares(errors, usual, max_nfev=80).x)


def plain_fit(points: Points) -> Callable[[Points], tuple[Floats, Floats]]:
    """A model of eight values: bytes of weights and KV cache over the bandwidth, FLOPs over the
    peak, a share of prefills, and a constant a layer for each engine; a factor on a prefill and a
    constant for the first token."""
    start = np.log([1.0, 1.0, 2.0, *[3e-5] * len(ENGINES), 4.0, 5e-2])

    def model(inner: Floats, at: Points) -> tuple[Floats, Floats]:
        weights, cache, share, *layers, first, host = np.exp(inner)
        layer = np.select([at.engine == engine for engine in ENGINES], layers, layers[0])
        columns = at.plain.T
        each = weights * columns[0] + cache * columns[1] + share * columns[2] + layer * columns[3]
        return each, each + first * columns[4] + host

    def errors(inner: Floats) -> Floats:
        each, until = model(inner, points)
        off = np.arctan(np.log(until / points.ttft))[points.waiting]
        return np.concatenate([np.arctan(np.log(each / points.tpot)), off])

    fitted = least_squares(errors, start, bounds=(start - 9, start + 9), max_nfev=80).x
    return lambda at: model(fitted, at)


def left_out(points: Points) -> Iterator[tuple[str, list[tuple[Flags, Flags]]]]:
    """What is left out, and for each part the points judged and those fitted."""
    for name, column in (
        ("workload", points.workload),
        ("model", points.family),
        ("machine", points.machine),
    ):
        yield name, [(column == value, column != value) for value in np.unique(column)]
    pairs = [
        (family, machine)
        for family in np.unique(points.family)
        for machine in np.unique(points.machine)
    ]
    yield (
        "both",
        [
            (
                (points.family == family) & (points.machine == machine),
                (points.family != family) & (points.machine != machine),
            )
            for family, machine in pairs
            if ((points.family == family) & (points.machine == machine)).any()
        ],
    )


def left_out_errors(
    points: Points, folds: Sequence[tuple[Flags, Flags]]
) -> Mapping[str, tuple[Floats, Floats]]:
    """log(predicted / measured) of TPOT and TTFT by this model and the plain one, each point left
    out; nan for others, and for first tokens that do not count."""
    tpot_errors, ttft_errors = np.full((2, 2, len(points.tpot)), np.nan)
    for judged, fitted in folds:
        known, rest = points.at(fitted), points.at(judged)
        for k, (each, first) in enumerate((predicted(fit(known), rest), plain_fit(known)(rest))):
            tpot_errors[k, judged] = np.log(each / rest.tpot)
            ttft_errors[k, judged] = np.log(first / rest.ttft)
    ttft_errors[:, ~points.waiting] = np.nan
    return {"tpot": tuple(tpot_errors), "ttft": tuple(ttft_errors)}


def spreads(points: Points, errors: Mapping[str, tuple[Floats, Floats]]) -> Mapping[str, float]:
    """The standard deviations of both times, by which an interval holds LEVEL of these errors:
    those of most models, and of the family that is odd."""
    odd, spread = points.family == SPECULATIVE, {}
    for time, (off, _) in errors.items():
        for name, chosen in ((time, ~odd), (f"{time}_latent", odd)):
            size = np.abs(off[chosen & ~np.isnan(off)])
            spread[name] = float(np.quantile(size, LEVEL)) / quantile(LEVEL) if len(size) else LARGE
    return spread


def _rows(
    points: Points,
    name: str,
    errors: Mapping[str, tuple[Floats, Floats]],
    spread: Mapping[str, float],
) -> Iterator[list[str]]:
    """A row for each time."""
    for time, (off, plain) in errors.items():
        known, odd = ~np.isnan(off), points.family == SPECULATIVE
        usual, half = off[known & ~odd], quantile(LEVEL) * spread[time]
        yield [
            *(name, time.upper(), str(len(usual))),
            f"{np.median(np.abs(usual)):.1%}",
            f"{np.quantile(np.abs(usual), 0.9):.1%}",
            f"{np.median(usual):+.1%}",
            f"{np.mean(np.abs(usual) <= half):.0%}",
            f"{np.median(np.abs(plain[known & ~odd])):.1%}",
            f"{np.median(np.abs(off[known & odd])):.1%}" if (known & odd).any() else "",
        ]


SHOWN = 5
"""The worst points that are shown of each time."""
WORST = "time", "model", "machine", "engine", "tokens in/out", "in flight", "measured", "error"
_SHOWN = [(time, what) for time in ("TPOT", "TTFT") for what in ("bias", "median", "p90")]


def _groups(points: Points, errors: Mapping[str, tuple[Floats, Floats]]) -> Iterator[list[str]]:
    """A row for each model, machine and engine."""
    keys = np.stack([points.family, points.machine, points.engine], axis=1)
    for key in np.unique(keys, axis=0):
        chosen = (keys == key).all(axis=1)
        cells = []
        for off, _ in errors.values():
            known = off[chosen & ~np.isnan(off)]
            cells += [f"{np.median(known):+.1%}"] if len(known) else [""]
            size = np.abs(known)
            cells += [f"{np.quantile(size, at):.1%}" if len(known) else "" for at in (0.5, 0.9)]
        yield [*map(str, key), str(chosen.sum()), *cells]


def _worst(points: Points, errors: Mapping[str, tuple[Floats, Floats]]) -> Iterator[list[str]]:
    """A row for each of the worst points by either time."""
    for time, taken in (("tpot", points.tpot), ("ttft", points.ttft)):
        off = np.where(points.family == SPECULATIVE, np.nan, errors[time][0])
        for k in np.argsort(-np.nan_to_num(np.abs(off)))[:SHOWN]:
            about = points.family[k], points.machine[k], points.engine[k], points.workload[k]
            seconds = f"{1e3 * taken[k]:.3g} ms"
            yield [
                time.upper(),
                *about,
                f"{points.load.concurrency[k]:.0f}",
                seconds,
                f"{off[k]:+.0%}",
            ]


def overheads_text(inner: Floats, spread: Mapping[str, float]) -> str:
    """The file of what engines add."""
    values = dict(zip(NAMES, np.exp(inner).tolist(), strict=True))
    rows = [
        {"engine": name.partition(" ")[2] or "all", "name": name.partition(" ")[0], "value": value}
        for name, value in values.items()
    ]
    rows += [
        {"engine": "all", "name": f"spread_{time}", "value": value}
        for time, value in spread.items()
    ]
    return output.to_csv([{**row, "value": float(f"{row['value']:.4g}")} for row in rows])
