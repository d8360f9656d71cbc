"""`simctl train`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from experiments import output
from experiments.options.execution_options import ExecutionOptions
from experiments.options.options import ReportOptions, RunOut, RunTimeline
from experiments.options.profile_options import SimulationOptions
from experiments.options.trace_options import TraceOptions
from experiments.options.training_options import TrainingOptions


@dataclass(frozen=True, kw_only=True)
class Train(TrainingOptions, SimulationOptions, TraceOptions, ReportOptions, ExecutionOptions):
    """Simulate training steps and explain their communication.

    The report has the time of a step, its bubbles and their causes, hidden and exposed
    communication, and what would help. With --learn a small network learns along the run, and the
    report has its loss over simulated time. Plans of parallel training are those of simctl plan.
    """

    EXAMPLES: ClassVar = (
        "train --model resnet50 --strategy ddp --topology hgx_h100:nodes=2 --bucket 25MiB "
        "--timeline step.png",
        "train --learn mlp --strategy 'ssgd; asgd' --straggler 3:4 --plot learn.png",
    )

    timeline: RunTimeline = None
    out: RunOut = None

    def records(self) -> list[output.Record]:
        """The rows, without printing them."""
        return self.request(self, self, self).records()

    def run(self) -> int:
        """Print one run in full, or a table of several; 1 if a check failed or nothing fits."""
        choice = self.choice
        if self.timeline is None or self.learn is not None:
            choice.check(None)
        files = output.RunFiles(self.timeline, self.out, self.report, choice)
        if self.learn is not None:
            from experiments.commands import learning_runs

            learning_runs.check_alone(self.timeline, self)
            learning = learning_runs.parse(self, self, self, self)
            return learning_runs.run(learning, self.out, self.plot, self.format, self.report)
        from experiments.commands import train_runs

        grid = self.request(self, self, self)
        return train_runs.run(grid, files, self.format, self, self.plot)
