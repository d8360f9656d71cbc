"""The commands of `simctl` that simulate: parsing only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from experiments.options.execution_options import ExecutionOptions
from experiments.options.groups import with_groups
from experiments.options.machine_options import MachineOptions, RuleOptions
from experiments.options.options import (
    Format,
    Output,
    Plot,
    Report,
    RunOut,
    RunTimeline,
)
from experiments.options.profile_options import ProfileOptions
from experiments.options.trace_options import TraceOptions
from experiments.options.training_options import TrainingOptions
from topologies.errors import InputError

if TYPE_CHECKING:
    pass

app = typer.Typer()


@app.command(
    epilog="Example: simctl train --model resnet50 --strategy ddp --topology hgx_h100:nodes=2 "
    "--bucket 25MiB --timeline step.png\n\n"
    "Example: simctl train --learn mlp --strategy 'ssgd; asgd' --straggler 3:4 --plot learn.png"
    "\n\n"
    "Example: simctl train --model llama3_70b --plan dp=4,tp=8,pp=2,micro=1,batch=512,zero=1"
    ",sp=yes --topology hgx_h100:nodes=8\n\n"
    "Example: simctl train --model llama3_70b --plan auto --gpus 64 --batch 512 --topology "
    "hgx_h100:nodes=8 --plot plans.png"
)
@with_groups
def train(
    job: TrainingOptions = TrainingOptions(),
    machine: MachineOptions = MachineOptions(),
    rules: RuleOptions = RuleOptions(),
    profile: ProfileOptions = ProfileOptions(),
    timeline: RunTimeline = None,
    trace: TraceOptions = TraceOptions(),
    out: RunOut = None,
    plot: Plot = None,
    report: Report = None,
    format: Output = Format.table,
    where: ExecutionOptions = ExecutionOptions(),
) -> None:
    """Simulate training steps and explain their communication.

    The report has the time of a step, its bubbles and their causes, hidden and exposed
    communication, and what would help. With --learn a small network learns along the run, and the
    report has its loss over simulated time. With --plan a transformer trains under data, tensor,
    pipeline, context and expert parallelism; --plan auto finds the fastest plans.
    """
    from experiments.output import RunFiles

    choice = trace.choice
    if timeline is None or job.learn is not None:
        choice.check(None)
    files = RunFiles(timeline, out, report, choice)
    if job.plan is None:
        for option, value in (
            ("calibrate-compute", job.calibrate_compute),
            ("batch", job.batch),
        ):
            if value is not None:
                raise InputError(f"--{option} {value}: it goes with --plan, leave it out")
    if job.learn is not None:
        from experiments.cli.learning_parser import check_alone, parse
        from experiments.commands import learn

        check_alone(timeline, where.execution)
        learning = parse(job, machine, rules, profile)
        raise typer.Exit(learn.run(learning, out, plot, format.value, report))
    if job.plan is None:
        grid = job.request(machine, rules, profile)
    else:
        from experiments.cli import plan_parser
        from experiments.commands import train_plan

        request = plan_parser.parse(job, machine, rules, profile)
        if isinstance(request, train_plan.Request | train_plan.SearchRequest):
            code = train_plan.run(request, files, format.value, plot, where.execution)
            raise typer.Exit(code)
        grid = request
    from experiments.commands import train as command

    raise typer.Exit(command.run(grid, files, format.value, where.execution, plot))
