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
    table = partial(output.render, records, _cells(runs, request.task))
    answer.show(how, lambda: f"{request.machine.description}\n\n{table()}")
    return 0


def _curves(runs: Sequence[LearningRun]) -> Figure:
    from experiments.pictures.learning_curves import learning_drawing

    return learning_drawing(runs)


def _cells(runs: Sequence[LearningRun], task: Task) -> Mapping[str, output.Cell]:
    """The columns of the table."""
    columns: dict[str, output.Cell] = {"strategy": lambda record: str(record["strategy"])}
    if any(run.row.disturbance for run in runs):
        columns["workers"] = lambda record: str(record["disturbance"] or "alike")
    return columns | {
        "updates": lambda record: str(record["updates"]),
        "time": lambda record: format_seconds(float(record["seconds"] or 0.0)),
        "loss": lambda record: f"{float(record['loss'] or 0.0):.4f}",
        "accuracy": lambda record: f"{float(record['accuracy'] or 0.0):.1%}",
        f"to {task.target:.4g}": _reached,
        "staleness": lambda record: f"{float(record['staleness'] or 0.0):.2f}",
        "most": lambda record: str(record["staleness_max"]),
        "idle": lambda record: f"{float(record['idle'] or 0.0):.1%}",
        "cause": lambda record: str(record["cause"] or "-"),
    }


def _reached(record: output.Record) -> str:
    seconds = record["target_s"]
    return "never" if seconds is None else format_seconds(float(seconds))
