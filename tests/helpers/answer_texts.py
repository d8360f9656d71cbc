"""What the terminal says of runs and plans that are simulated in this process."""

from experiments.pages.reports.result import Result
from experiments.parallel.plan_run import PlanRun
from experiments.training.job import TrainingRun
from experiments.training.training_grid import WhatIf
from experiments.training.training_report import report, words_of


def training_text(run: TrainingRun, changes: WhatIf) -> str:
    """The text of a training run."""
    return Result("train", report(run, changes), words=words_of(run)).text()


def plan_text(run: PlanRun) -> str:
    """The text of a step of a plan."""
    return Result("plan", run.figures()).text()
