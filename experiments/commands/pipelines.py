"""`simctl pipelines`: what orders of pipelines cost if all devices have equal work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments import output
from experiments.commands.answer import Answer
from experiments.pipeline_files import named_pipeline
from simulator.collectives.algorithm_options import names_in
from simulator.parallel.pipeline_times import (
    PipelineTimes,
    StageTimes,
    of_stages,
    peak_activations,
    pipeline_times,
)
from simulator.parallel.pipelines import Pipeline, orders
from simulator.parallel.pipelines.pipeline_csv import pipeline_csv
from topologies.errors import InputError
from topologies.units import format_seconds

NOTE = """

idle: of the most idle device, within the step. within: between its first and last action.
activations: of the device that keeps most, in micro-batches of its whole share of the model."""


@dataclass(frozen=True)
class Request:
    """What the command line says."""

    orders: str | None
    """Names, with options, or files; all orders by default."""
    devices: int | None
    micro_batches: int | None
    times: StageTimes
    """What a device's whole share of the model takes."""
    kept: int
    """Percent of a micro-batch's activations that the backward for weights needs."""
    plot: Path | None = None
    actions: Path | None = None


def run(request: Request, how: str) -> None:
    """Print a line an order, draw them, and write the actions of one."""
    plot, actions = request.plot, request.actions
    output.check_writable(plot, output.PICTURES)
    output.check_writable(actions, (".csv",))
    runs = [
        pipeline_times(pipeline, of_stages(pipeline, request.times))
        for pipeline in _pipelines(request)
    ]
    if actions:
        if len(runs) > 1:
            raise InputError(f"--actions {actions}: name one order, there are {len(runs)}")
        output.write(actions, pipeline_csv(runs[0].pipeline))
    if plot:
        from experiments.pictures.figure_file import write_figure
        from experiments.pictures.timelines.pipeline_picture import pipeline_drawing

        write_figure(plot, pipeline_drawing(runs))
    records = [_record(each, request.kept) for each in runs]
    Answer("pipelines", records, records).show(how, lambda: output.render(records, CELLS) + NOTE)


def _pipelines(request: Request) -> list[Pipeline]:
    if request.orders is not None:
        return [_pipeline(name, request) for name in names_in(request.orders)]
    pipelines = []
    for name in orders():
        try:
            pipelines.append(_pipeline(name, request))
        except InputError as error:
            output.note(str(error))
    return pipelines


def _pipeline(name: str, request: Request) -> Pipeline:
    return named_pipeline(
        name, (request.devices, request.micro_batches), request.times, request.kept
    )


def _record(times: PipelineTimes, kept: int) -> output.Record:
    pipeline = times.pipeline
    activations = peak_activations(pipeline, 1.0, kept / 100) @ np.array([1.0, kept / 100])
    return {
        "pipeline": pipeline.name,
        "devices": pipeline.devices,
        "micro_batches": pipeline.micro_batches,
        "stages": pipeline.stages,
        "step_s": times.step,
        "idle_s": float(times.idle.max()),
        "idle_within_s": float(times.idle_within.max()),
        "activations": float(activations.max()) * pipeline.devices / pipeline.stages,
    }


def _idle(record: output.Record, key: str) -> str:
    seconds, step = float(record[key] or 0), float(record["step_s"] or 0)
    return f"{format_seconds(seconds)} {seconds / step if step else 0:.1%}"


CELLS: dict[str, output.Cell] = {
    "pipeline": lambda record: str(record["pipeline"]),
    "stages": lambda record: str(record["stages"]),
    "step": lambda record: format_seconds(float(record["step_s"] or 0)),
    "idle": lambda record: _idle(record, "idle_s"),
    "within": lambda record: _idle(record, "idle_within_s"),
    "activations": lambda record: f"{record['activations']:.4g}",
}
