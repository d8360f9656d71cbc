"""`simctl plan`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from experiments import output
from experiments.options.execution_options import ExecutionOptions
from experiments.options.options import ReportOptions, RunOut, RunTimeline
from experiments.options.profile_options import SimulationOptions
from experiments.options.trace_options import TraceOptions
from experiments.options.training_options import PlanOptions


@dataclass(frozen=True, kw_only=True)
class Plans(PlanOptions, SimulationOptions, TraceOptions, ReportOptions, ExecutionOptions):
    """Simulate parallel training, or find the fastest plan.

    A transformer is trained under a plan of data, tensor, pipeline, context and expert parallelism.
    The report has the time of a step, where it goes, and the memory of a device. Several plans, and
    strategies beside them, are a table. auto finds the fastest plans.
    """

    EXAMPLES: ClassVar = (
        "plan dp=4,tp=8,pp=2,micro=1,batch=512,zero=1,sp=yes --model llama3_70b "
        "--topology hgx_h100:nodes=8",
        "plan auto --model llama3_70b --gpus 64 --batch 512 --topology hgx_h100:nodes=8 "
        "--plot plans.png",
    )

    timeline: RunTimeline = None
    out: RunOut = None

    def records(self) -> list[output.Record]:
        """The rows, without printing them."""
        from experiments.commands.plan_cases import parse

        return parse(self, self, self, self).records()

    def run(self) -> int:
        """Print a step in full, a table of several plans, or the fastest plans; 1 if the step does
        not fit in memory."""
        choice = self.choice
        if self.timeline is None or self.learn is not None:
            choice.check(None)
        files = output.RunFiles(self.timeline, self.out, self.report, choice)
        if self.learn is not None:
            from experiments.commands import learning_runs

            learning_runs.check_alone(self.timeline, self)
            learning = learning_runs.parse(self, self, self, self)
            return learning_runs.run(learning, self.out, self.plot, self.format, self.report)
        from experiments.commands.plan_cases import parse
        from experiments.commands.planned_runs import SearchRequest, run
        from experiments.parallel.plan_job import PlanJob

        case = parse(self, self, self, self)
        if isinstance(case, PlanJob | SearchRequest):
            return run(case, files, self.format, self.plot, self)
        from experiments.commands import train_runs

        return train_runs.run(case, files, self.format, self, self.plot)
