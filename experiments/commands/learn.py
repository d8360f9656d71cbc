"""`simctl train --learn`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments import output
from experiments.learning.learning_run import LearningRun, learn, without_disturbance
from experiments.learning.task import Task
from experiments.training.job import Job
from topologies.units import format_seconds


@dataclass(frozen=True)
class Request:
    """What to learn along which runs."""

    task: Task
    jobs: Mapping[str, Job]
    """The run of each strategy, by what the user calls it."""
    ranks: int
    """The number of workers."""
    disturbance: str
    """What makes workers differ, "" if nothing does."""
    parameters: Mapping[str, output.Value]
    """The options as the user writes them: stored with the result."""


def run(request: Request, out: Path | None, plot: Path | None, how: str) -> int:
    """Print a table with a row a strategy; if workers differ, another row with workers alike."""
    output.check_table(out)
    output.check_writable(plot, output.PICTURES)
    progress = output.Progress("runs learnt")
    runs: list[LearningRun] = []
    kinds = ("", request.disturbance) if request.disturbance else ("",)
    for disturbance in kinds:
        for name, job in request.jobs.items():
            progress(len(runs), len(kinds) * len(request.jobs))
            job = job if disturbance else without_disturbance(job)
            runs.append(learn(request.task, job, name, request.ranks, disturbance))
    progress.clear()
    records = [asdict(run.row) for run in runs]
    if out:
        output.write_table(out, records, output.provenance(**request.parameters))
    if plot:
        from experiments.pictures.learning_curves import learning_figure

        output.write(plot, learning_figure(runs, plot.suffix[1:].lower()))
    if how == "json":
        curves = [[point._asdict() for point in run.curve] for run in runs]
        documents = [
            {**record, "curve": curve} for record, curve in zip(records, curves, strict=True)
        ]
        output.say(output.to_json(documents))
    else:
        output.say(output.render(records, _cells(request), how))
    return 0


def _cells(request: Request) -> Mapping[str, output.Cell]:
    """The columns of the table."""
    columns: dict[str, output.Cell] = {"strategy": lambda record: str(record["strategy"])}
    if request.disturbance:
        columns["workers"] = lambda record: str(record["disturbance"] or "alike")
    return columns | {
        "updates": lambda record: str(record["updates"]),
        "time": lambda record: format_seconds(float(record["seconds"] or 0.0)),
        "loss": lambda record: f"{float(record['loss'] or 0.0):.4f}",
        "accuracy": lambda record: f"{float(record['accuracy'] or 0.0):.1%}",
        f"to {request.task.target:.4g}": _reached,
        "staleness": lambda record: f"{float(record['staleness'] or 0.0):.2f}",
        "most": lambda record: str(record["staleness_max"]),
    }


def _reached(record: output.Record) -> str:
    seconds = record["target_s"]
    return "never" if seconds is None else format_seconds(float(seconds))
