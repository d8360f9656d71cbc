"""`simctl pipelines`: what orders of pipelines cost if all devices have equal work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from experiments import output
from experiments.answer_blocks import render
from experiments.options.completion import completer, pipeline_names
from experiments.options.options import FormatOptions, Plot, Times, argument, option
from experiments.options.values import parse_stage_times
from experiments.pages.reports.result import Result
from experiments.templates import Columns
from topologies.errors import InputError
from topologies.units import format_seconds

if TYPE_CHECKING:
    from simulator.parallel.pipeline_times import PipelineTimes, StageTimes
    from simulator.parallel.pipelines import Pipeline

NOTE = """

idle: of the most idle device, within the step. within: between its first and last action.
activations: of the device that keeps most, in micro-batches of its whole share of the model."""


@dataclass(frozen=True, kw_only=True)
class Pipelines(FormatOptions):
    """Compare orders of pipelines.

    Idle time and activations are those of devices with equal work.
    """

    EXAMPLES: ClassVar = ("pipelines gpipe,1f1b,zb_h1 --times weights=500us --plot gpipe.png",)

    orders: str | None = argument(
        "ORDERS",
        "Orders of pipelines, comma-separated, each with its options; or FILE.csv.  [default: all]",
        autocompletion=completer(pipeline_names),
    )
    p: int | None = option("Devices.  [default: 8]", "--p", "--gpus", min=1)
    batch: int | None = option("Micro-batches of a step.  [default: 16]", min=1)
    times: Times = None
    plot: Plot = None
    out: Path | None = option(
        "Write the actions of one order, as PyTorch does: FILE.csv.", writable=True
    )

    def run(self) -> int:
        """Print a line an order, draw them, and write the actions of one."""
        from simulator.parallel.pipeline_times import of_stages, pipeline_times
        from simulator.parallel.pipelines.pipeline import pipeline_csv

        plot, out = self.plot, self.out
        times, kept = parse_stage_times(self.times)
        output.check_writable(plot, output.PICTURES)
        output.check_writable(out, (".csv",))
        runs = [
            pipeline_times(each, of_stages(each, times)) for each in self._pipelines(times, kept)
        ]
        if out:
            if len(runs) > 1:
                raise InputError(f"--out {out}: name one order, there are {len(runs)}")
            output.write(out, pipeline_csv(runs[0].pipeline))
        if plot:
            from experiments.pictures.figures import write_figure
            from experiments.pictures.timelines.painter import timeline_drawing
            from experiments.pictures.timelines.pipeline_spans import pipeline_spans

            write_figure(plot, timeline_drawing(*map(pipeline_spans, runs)))
        records = [_record(each, kept) for each in runs]
        answer = Result("pipelines", records, records)
        answer.show(self.format, lambda: render(records, CELLS) + NOTE)
        return 0

    def _pipelines(self, times: StageTimes, kept: int) -> list[Pipeline]:
        from experiments.pipeline_files import named_pipeline
        from simulator.collectives.algorithm_options import names_in
        from simulator.parallel.pipelines import orders

        sizes = self.p, self.batch
        if self.orders is not None:
            names = names_in(self.orders)
            return [named_pipeline(name, sizes, times, kept) for name in names]
        pipelines = []
        for name in orders():
            try:
                pipelines.append(named_pipeline(name, sizes, times, kept))
            except InputError as error:
                output.note(str(error))
        return pipelines


def _record(times: PipelineTimes, kept: int) -> output.Record:
    import numpy as np

    from simulator.parallel.pipeline_times import peak_activations

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


CELLS: Columns = {
    "pipeline": "pipeline",
    "stages": "stages",
    "step": "step_s",
    "idle": lambda record: _idle(record, "idle_s"),
    "within": lambda record: _idle(record, "idle_within_s"),
    "activations": "{activations:.4g}",
}
