"""Predicted steps of plans of parallel training beside measured and published ones.

Each protocol says which rows calibrate the times of the device for a row. These rows are never the
row itself. Nothing else is fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pandas as pd
import typer

from experiments import output
from experiments.models.device_times import other_levels
from experiments.parallel.measured_steps import PlanError, PlanKind
from experiments.studies.measured_plans import (
    MeasuredStep,
    mlperf,
    published,
    sharded,
    three_dimensional,
    whole_plans,
)
from experiments.studies.measured_rows import formatted, grouped
from experiments.studies.step_predictions import Case, plan_kind, predict, simulate
from topologies.errors import InputError

if TYPE_CHECKING:
    from pandas.core.groupby import DataFrameGroupBy

Rows = Sequence[MeasuredStep]


def one_row(rows: Rows, *, by_model: bool = False) -> Iterator[Case]:
    """One row of each GPU and precision calibrates: that with the fewest GPUs, then the least
    TP x PP, then the first in its file. With `by_model` one row of each model does, too."""
    for alike in grouped(rows, lambda row: row.kind).values():
        models = grouped(alike, lambda row: row.model_name if by_model else "").values()
        firsts = tuple(min(model, key=lambda row: row.order) for model in models)
        yield from ((row, firsts) for row in alike if row not in firsts)


def new_plan(rows: Rows) -> Iterator[Case]:
    """All rows of the same GPU and precision calibrate, but those with the same plan of the same
    model."""
    for alike in grouped(rows, lambda row: row.kind).values():
        for row in alike:
            others = tuple(each for each in alike if each.text != row.text)
            if others:
                yield row, others


def larger_scale(rows: Rows) -> Iterator[Case]:
    """The row with the fewest GPUs of the same model, GPU and precision calibrates."""
    for alike in grouped(rows, lambda row: (row.kind, row.model_name)).values():
        first = min(alike, key=lambda row: row.order)
        yield from ((row, (first,)) for row in alike if row.gpus > first.gpus)


def later_release(rows: Rows) -> Iterator[Case]:
    """The same plan under the releases of software before calibrates."""
    for alike in grouped(rows, lambda row: (row.kind, row.text)).values():
        for row in alike:
            before = tuple(each for each in alike if each.version < row.version)
            if before:
                yield row, before


def no_row(rows: Rows) -> Iterator[Case]:
    """No step calibrates, but the level of the kind of GPU counts, which all files taught."""
    yield from ((row, ()) for row in rows)


def new_kind(rows: Rows) -> Iterator[Case]:
    """No step of the kind of GPU counts: its level is that of other kinds."""
    yield from ((row._replace(level=other_levels(row.device, row.math)), ()) for row in rows)


PROTOCOLS: dict[str, Callable[[Rows], Iterable[Case]]] = {
    "nothing fitted": no_row,
    "kind of GPU never seen": new_kind,
    "one row a GPU and precision": one_row,
    "one row a model, GPU and precision": lambda rows: one_row(rows, by_model=True),
    "GPU and precision known, plan new": new_plan,
    "larger scales from the smallest": larger_scale,
    "a plan under a later release": later_release,
}


FOLDERS = typer.Argument(help="folders of measured training")
READERS: dict[str, Callable[[Path], Iterable[MeasuredStep]]] = {
    "a100_3d_single": three_dimensional,
    "a100_3d_multi": three_dimensional,
    "fsdp_mpt": sharded,
    "mlperf_llama31_405b": mlperf,
}
"""What reads a file of its own columns."""
ELSEWHERE = "abci_v100_resnet50_horovod"
"""A file for another study."""


def files_in(
    folders: Sequence[Path],
) -> tuple[dict[str, list[MeasuredStep]], dict[str, Mapping[str, int]]]:
    """The steps of each file of folders, those of :data:`READERS` and runs with their whole plans;
    and how many rows of a file are left out for which reason.

    Raises InputError for a file that cannot be read, and for folders without one.
    """
    files, skipped = dict[str, list[MeasuredStep]](), dict[str, Mapping[str, int]]()
    for path in sorted(path for folder in folders for path in folder.glob("*.csv")):
        if path.stem in READERS:
            files[path.stem] = [*READERS[path.stem](path)]
        elif path.stem != ELSEWHERE:
            files[path.stem], skipped[path.stem] = whole_plans(path)
    if not files:
        raise InputError(f"no CSV of measured steps in {', '.join(map(str, folders))[:200]}")
    return files, skipped


def main(
    folders: Annotated[list[Path], FOLDERS],
    out: Annotated[Path | None, typer.Option(help="Write plan_errors.csv anew here.")] = None,
) -> str:
    """The errors of all files of folders of measured training, and their ten worst rows."""
    files, skipped = files_in(folders)
    three = [row for name in files if "a100_3d" in name for row in files[name]]
    parts = dict[tuple[str, str], pd.DataFrame]()
    for name, rows in files.items():
        for title, protocol in PROTOCOLS.items():
            cases = protocol(three if "a100_3d" in name else rows)
            part = predict(case for case in cases if case[0].table == name)
            if len(part):
                parts[name, title] = part
    if out is not None:
        reported = pd.concat([part for (_, title), part in parts.items() if title in IN_REPORTS])
        output.write(out, output.to_csv(errors_by_kind(reported)))
    parts |= {(paper, "nothing fitted"): predict(no_row([*published(paper)])) for paper in PAPERS}
    whole = pd.concat({", ".join(key): part for key, part in parts.items()}, names=["rows of"])
    sections = {"Errors of each file": errors(whole.groupby("rows of", sort=False))}
    for name in files:
        part = next(parts[name, title] for title in IN_REPORTS if (name, title) in parts)
        worst = part.loc[part["error"].abs().nlargest(10).index]
        sections[f"{name}, the ten worst"] = steps(worst)
    left_out = [(name, reason, n) for name, of in skipped.items() for reason, n in of.items()]
    sections["Rows that plans cannot say yet"] = formatted(
        pd.DataFrame(left_out, columns=["file", "reason", "rows"])
    )
    return "\n\n".join(f"{name}\n\n{table}" for name, table in sections.items())


IN_REPORTS = "one row a GPU and precision", "nothing fitted"
"""The protocols of errors by kind of plan. The ten worst rows of a file are by the first of them
that it has."""
PAPERS = ("narayanan", "korthikanti")
"""Papers whose steps are predicted with the times of the specification."""


def nine_of_ten(values: pd.Series[float]) -> float:
    """What nine of ten values are below."""
    return float(values.quantile(0.9))


def errors_by_kind(predicted: pd.DataFrame) -> list[output.Record]:
    """The errors of each kind of plan that a report tells apart: rows of its file."""
    pairs = zip(predicted["row"], predicted["times"], strict=True)
    rows = pd.DataFrame([plan_kind(*pair) for pair in pairs]).assign(
        error=predicted["error"].to_numpy(), size=predicted["error"].abs().to_numpy()
    )
    figures = rows.groupby([*PlanKind._fields], sort=False).agg(
        steps=("error", "size"),
        mean=("size", "mean"),
        bias=("error", "mean"),
        nine_of_ten=("size", nine_of_ten),
    )
    return [
        PlanKind(*kind)._asdict() | PlanError(*error)._asdict()
        for kind, error in zip(figures.index, figures.round(3).itertuples(index=False), strict=True)
    ]


FIGURES: dict[str, tuple[str, str | Callable[..., float], str]] = {
    "number": ("error", "size", "{}"),
    "bias": ("error", "mean", "{:+.1%}"),
    "mean": ("size", "mean", "{:.1%}"),
    "median": ("size", "median", "{:.1%}"),
    "nine of ten": ("size", nine_of_ten, "{:.1%}"),
    "largest": ("size", "max", "{:.1%}"),
    "plain model": ("plain_size", "mean", "{:.1%}"),
    "its median": ("plain_size", "median", "{:.1%}"),
    "in 80% interval": ("inside", "mean", "{:.0%}"),
    "half width": ("width", "median", "{:.0%}"),
}
"""The figures of errors: the column that they are of, what makes them, and how they are printed."""


def errors(parts: DataFrameGroupBy[Any, Any]) -> str:
    """The errors of parts, beside those of the plain model."""
    figures = {name: parts[column].agg(of) for name, (column, of, _) in FIGURES.items()}
    formats = {name: text for name, (_, _, text) in FIGURES.items()}
    return formatted(pd.DataFrame(figures).reset_index(), {"rows of": "{}"} | formats)


def steps(predicted: pd.DataFrame) -> str:
    """Steps with their seconds, and where these are spent."""
    measures = [simulate(row, times) for row, times in predicted[["row", "times"]].to_numpy()]
    seconds = {
        "device": [each.computing for each in measures],
        "launches": [each.launching for each in measures],
        "exposed": [each.exposed.sum(axis=1) for each in measures],
        "idle": [each.idle for each in measures],
        "optimizer": [each.optimizer for each in measures],
    }
    table = pd.DataFrame(
        {
            "step": [row.text for row in predicted["row"]],
            "measured s": [row.seconds for row in predicted["row"]],
            "predicted s": predicted["seconds"].to_numpy(),
            "error": predicted["error"].to_numpy(),
            **{name: [part.mean() for part in parts] for name, parts in seconds.items()},
        }
    )
    formats = {str(name): "{:.3f}" for name in table} | {"step": "{}", "error": "{:+.1%}"}
    return formatted(table, formats)
