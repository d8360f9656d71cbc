"""`simctl train --learn`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments import output
from experiments.learning.learning_run import LearningRun
from experiments.learning.task import Task
from topologies.catalogue import Blueprint
from topologies.units import format_seconds


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
    output.check_table(out)
    output.check_writable(plot, output.PICTURES)
    output.check_writable(page, output.REPORTS)
    output.check_different({"out": out, "plot": plot, "report": page})
    progress = output.Progress("runs learnt")
    runs: list[LearningRun] = []
    for learn in request.runs:
        progress(len(runs), len(request.runs))
        runs.append(learn())
    progress.clear()
    records = [asdict(run.row) for run in runs]
    if out and not output.is_result(out):
        output.write_table(out, records, output.provenance(**request.parameters))
    if plot:
        from experiments.pictures.figure_file import write_figure
        from experiments.pictures.learning_curves import learning_drawing

        write_figure(plot, learning_drawing(runs))
    curves = [[point._asdict() for point in run.curve] for run in runs]
    documents = [{**record, "curve": curve} for record, curve in zip(records, curves, strict=True)]
    if page or output.is_result(out):
        from experiments.pages.reports.kept import keep
        from experiments.pages.reports.result import Picture, Result, origin
        from experiments.pictures.learning_curves import learning_drawing

        picture = Picture("Accuracy over time", lambda: learning_drawing(runs))
        made = origin(request.parameters)
        result = Result("learn", documents, made, [picture])
        keep(result, out if output.is_result(out) else None, page)
    if how == "json":
        output.say(output.to_json(documents))
    else:
        if how == "table":
            output.say(f"{request.machine.description}\n")
        output.say(output.render(records, _cells(runs, request.task), how))
    return 0


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
