"""Predicted steps of plans of parallel training beside measured and published ones.

Each protocol says which rows calibrate the times of the device for a row. These rows are never the
row itself. Nothing else is fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from experiments import output
from experiments.models.device_times import other_levels
from experiments.parallel.step_calibration import PlanError, PlanKind
from experiments.studies.measured_plans import (
    MeasuredStep,
    mlperf,
    published,
    sharded,
    three_dimensional,
    whole_plans,
)
from experiments.studies.measured_rows import aligned, grouped
from experiments.studies.step_predictions import Case, Predicted, predict, simulate
from topologies.errors import InputError

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
    """Tables of all files of folders of measured training."""
    files, skipped = files_in(folders)
    three = [row for name in files if "a100_3d" in name for row in files[name]]
    parts = dict[str, list[Predicted]]()
    for name, rows in files.items():
        for title, protocol in PROTOCOLS.items():
            cases = list(protocol(three if "a100_3d" in name else rows))
            part = predict(case for case in cases if case[0].table == name)
            if part:
                parts[f"{name}, {title}"] = part
    parts |= {f"{paper}, nothing fitted": predict(no_row([*published(paper)])) for paper in PAPERS}
    sections = {"": errors(parts)}
    for name, part in parts.items():
        by_kind = grouped(part, lambda each: f"{each.row.kind} {each.row.group}")
        sections[f"{name}, by plan"] = errors(dict(sorted(by_kind.items())))
    for name in files:
        part = next(parts[key] for title in WORST_OF if (key := f"{name}, {title}") in parts)
        worst = sorted(part, key=lambda each: -abs(each.error))[:10]
        sections[f"{name}, the ten worst"] = _steps(worst) | _parts_of_steps(worst)
    left_out = [(name, reason, str(n)) for name, of in skipped.items() for reason, n in of.items()]
    sections["Rows that plans cannot say yet"] = {
        heading: [cells[place] for cells in left_out]
        for place, heading in enumerate(("file", "reason", "rows"))
    }
    kinds = errors_by_kind(
        [each for name, part in parts.items() if _in_reports(name) for each in part]
    )
    if out is not None:
        output.write(out, output.to_csv(kinds))
    sections["Errors by kind of plan, as reports name them"] = {
        name: [str(row[name]) for row in kinds] for name in (*PlanKind._fields, *PlanError._fields)
    }
    tables = [f"{name}\n\n{aligned(columns)}".strip() for name, columns in sections.items()]
    return "\n\n".join(tables)


WORST_OF = "one row a GPU and precision", "nothing fitted"
"""The protocol of the ten worst rows of a file: the first that it has."""
PAPERS = ("narayanan", "korthikanti")
"""Papers whose steps are predicted with the times of the specification."""


def _in_reports(part: str) -> bool:
    name, _, title = part.partition(", ")
    return name not in PAPERS and title in ("nothing fitted", "one row a GPU and precision")


def errors_by_kind(predicted: Sequence[Predicted]) -> list[output.Record]:
    """The errors of each kind of plan that a report tells apart: rows of its file."""
    rows: list[output.Record] = []
    for kind, alike in grouped(predicted, lambda each: each.kind).items():
        errors = np.array([each.error for each in alike])
        figures = np.abs(errors).mean(), errors.mean(), np.quantile(np.abs(errors), 0.9)
        error = PlanError(len(errors), *(round(float(figure), 3) for figure in figures))
        rows.append(kind._asdict() | error._asdict())
    return rows


Columns = dict[str, list[str]]


def errors(parts: Mapping[str, Sequence[Predicted]]) -> Columns:
    """The errors of parts, beside those of the plain model."""
    all_errors = [np.array([each.error for each in part]) for part in parts.values()]
    plains = [np.abs([each.plain_error for each in part]) for part in parts.values()]
    figures = {
        "mean": [np.abs(part).mean() for part in all_errors],
        "median": [np.median(np.abs(part)) for part in all_errors],
        "nine of ten": [np.quantile(np.abs(part), 0.9) for part in all_errors],
        "largest": [np.abs(part).max() for part in all_errors],
        "plain model": [part.mean() for part in plains],
        "its median": [np.median(part) for part in plains],
    }
    return {
        "rows of": [*parts],
        "number": [str(len(part)) for part in all_errors],
        "bias": [f"{part.mean():+.1%}" for part in all_errors],
        **{name: [f"{figure:.1%}" for figure in column] for name, column in figures.items()},
        "in 80% interval": [
            f"{np.mean([_inside(each) for each in part]):.0%}" for part in parts.values()
        ],
        "half width": [
            f"{np.expm1(np.median([each.reach for each in part])):.0%}" for part in parts.values()
        ],
    }


def _inside(each: Predicted) -> bool:
    return bool(abs(np.log1p(each.error)) <= each.reach)


def _steps(predicted: Sequence[Predicted]) -> Columns:
    return {
        "step": [each.row.text for each in predicted],
        "measured s": [f"{each.row.seconds:.3f}" for each in predicted],
        "predicted s": [f"{each.seconds:.3f}" for each in predicted],
        "error": [f"{each.error:+.1%}" for each in predicted],
    }


def _parts_of_steps(predicted: Sequence[Predicted]) -> Columns:
    measures = [simulate(each.row, each.times) for each in predicted]
    seconds = {
        "device": [each.computing for each in measures],
        "launches": [each.launching for each in measures],
        "exposed": [each.exposed.sum(axis=1) for each in measures],
        "idle": [each.idle for each in measures],
        "optimizer": [each.optimizer for each in measures],
    }
    return {name: [f"{part.mean():.3f}" for part in parts] for name, parts in seconds.items()}
