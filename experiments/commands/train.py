"""`simctl train` and `simctl plan`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from experiments import output
from experiments.options.run_options import JobOptions
from experiments.options.training_options import PlanOptions, TrainingOptions


@dataclass(frozen=True, kw_only=True)
class Train(TrainingOptions, JobOptions):
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

    def records(self) -> list[output.Record]:
        """The rows, without printing them."""
        return self.request(self).records()

    def run(self) -> int:
        """Print one run in full, or a table of several; 1 if a check failed or nothing fits."""
        self.written_files.check(folders=True)
        if self.learn is not None:
            from experiments.commands import learning_runs

            return learning_runs.run(self, self)
        from experiments.commands import train_runs

        return train_runs.run(self.request(self), self)


@dataclass(frozen=True, kw_only=True)
class Plans(PlanOptions, JobOptions):
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

    def records(self) -> list[output.Record]:
        """The rows, without printing them."""
        from experiments.commands.plan_cases import parse

        return parse(self, self).records()

    def run(self) -> int:
        """Print a step in full, a table of several plans, or the fastest plans; 1 if the step does
        not fit in memory."""
        self.written_files.check(folders=True)
        if self.learn is not None:
            from experiments.commands import learning_runs

            return learning_runs.run(self, self)
        from experiments.commands.plan_cases import SearchRequest, parse, run
        from experiments.parallel.plan_job import PlanJob

        case = parse(self, self)
        if isinstance(case, PlanJob | SearchRequest):
            return run(case, self)
        from experiments.commands import train_runs

        return train_runs.run(case, self)
