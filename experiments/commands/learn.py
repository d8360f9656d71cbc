"""`simctl train --learn`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from experiments import output
from experiments.commands.answer import Answer, check_files
from experiments.learning.learning_run import LearningRun
from experiments.learning.task import Task
from experiments.templates import cells_of
from topologies.catalogue import Blueprint
from topologies.units import format_seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Request:
    """What to learn along which runs."""

    task: Task
    runs: Sequence[Callable[[], LearningRun]]
    """The runs, each simulated and learnt when it is called."""
    machine: Blueprint
    parameters: Mapping[str, output.Value]
    """The options as the user writes them: stored with the result."""


def run(
    request: Request, out: Path | None, plot: Path | None, how: str, page: Path | None = None
) -> int:
    """Print a table with a row for each run."""
    check_files(out, plot, page)
    progress = output.Progress("runs learnt")
    runs: list[LearningRun] = []
    for learn in request.runs:
        progress(len(runs), len(request.runs))
        runs.append(learn())
    progress.clear()
    records = [asdict(run.row) for run in runs]
    curves = [[point._asdict() for point in run.curve] for run in runs]
    documents = [{**record, "curve": curve} for record, curve in zip(records, curves, strict=True)]
    pictures = [("Accuracy over time", partial(_curves, runs))]
    answer = Answer("learn", documents, records, request.parameters, pictures=pictures)
    answer.write(out, plot, page)
    table = partial(_table, runs, request.task, records)
    answer.show(how, lambda: f"{request.machine.description}\n\n{table()}")
    return 0


def _curves(runs: Sequence[LearningRun]) -> Figure:
    from experiments.pictures.learning_curves import learning_drawing

    return learning_drawing(runs)


def _table(runs: Sequence[LearningRun], task: Task, records: Sequence[output.Record]) -> str:
    columns = {
        "strategy": "{strategy}",
        "workers": "{alike}",
        "updates": "{updates}",
        "time": "{seconds:s}",
        "loss": "{loss:.4f}",
        "accuracy": "{accuracy:.1%}",
        f"to {task.target:.4g}": "{reached}",
        "staleness": "{staleness:.2f}",
        "most": "{staleness_max}",
        "idle": "{idle:.1%}",
        "cause": "{cause}",
    }
    if not any(run.row.disturbance for run in runs):
        del columns["workers"]
    rows = []
    for record, run in zip(records, runs, strict=True):
        seconds = run.row.target_s
        words = {
            "alike": run.row.disturbance or "alike",
            "reached": "never" if seconds is None else format_seconds(seconds),
            "cause": run.row.cause or None,
        }
        rows.append({**record, **words})
    return output.render(rows, cells_of(columns, rows[0]))
