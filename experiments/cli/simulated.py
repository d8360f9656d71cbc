"""The commands of `simctl` that simulate: parsing only."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.options.execution_options import ExecutionOptions
from experiments.options.groups import with_groups
from experiments.options.machine_options import MachineOptions, RuleOptions
from experiments.options.options import (
    Algorithm,
    AlgorithmFile,
    AlgorithmWord,
    Format,
    Output,
    Plot,
    Report,
    ResultFile,
    RunOut,
    RunTimeline,
    Size,
    Timeline,
    word_or_option,
)
from experiments.options.pattern_options import PatternOptions
from experiments.options.profile_options import ProfileOptions
from experiments.options.trace_options import TraceOptions
from experiments.options.training_options import TrainingOptions
from topologies.errors import InputError

if TYPE_CHECKING:
    pass

app = typer.Typer()
Groups = Annotated[
    str | None,
    typer.Option(
        help='Collectives of groups at once: "0-7;8-15" or "0-3 tree 1MiB; 0,4 stream=1 after=0".'
    ),
]
Chakra = Annotated[
    Path | None,
    typer.Option(
        help="The workload of Chakra traces: a FOLDER of NAME.RANK.et. --algo may name an "
        "algorithm of each collective."
    ),
]


@app.command(epilog="Example: simctl run ring --p 8 --size 1GiB --timeline ring.png")
@with_groups
def run(
    word: AlgorithmWord = None,
    algo: Algorithm = None,
    algo_file: AlgorithmFile = None,
    p: Annotated[
        str | None,
        typer.Option(
            "--p",
            help="The number of ranks.  [default: all of the machine; 8 of a shape; with --matrix "
            "what the file says]",
        ),
    ] = None,
    size: Size = None,
    groups: Groups = None,
    chakra: Chakra = None,
    pattern: PatternOptions = PatternOptions(),
    machine: MachineOptions = MachineOptions(),
    rules: RuleOptions = RuleOptions(),
    profile: ProfileOptions = ProfileOptions(),
    timeline: Timeline = None,
    trace: TraceOptions = TraceOptions(),
    out: ResultFile = None,
    report: Report = None,
    format: Output = Format.table,
) -> None:
    """Simulate one collective and explain where its time goes.

    The report has the critical path, the busiest links, and what each parameter is worth. With
    --groups several collectives run at once, and each is compared with its time alone.
    """
    from experiments.output import RunFiles

    files = RunFiles(timeline, out, report, trace.choice)
    algo = word_or_option(word, algo)
    if chakra is not None:
        from experiments.cli.chakra_options import ChakraOptions

        unused: dict[str, object] = {"algo-file": algo_file, "p": p, "size": size}
        unused["groups"] = groups
        unused |= asdict(profile)
        options = ChakraOptions(chakra, algo, {**unused, **pattern.pattern_parameters})
        raise typer.Exit(options.run(machine, rules, files, format.value))
    from experiments.commands import run as command
    from experiments.options.values import named, parse_algorithm, parse_rank_count, usual_ranks
    from topologies.units import parse_bytes

    machine, calibrated = profile.calibrated(machine, rules)
    algorithm = pattern.patterned(
        parse_algorithm(algo, algo_file, profile.usual_algorithms(machine))
    )
    if groups is not None:
        from experiments.cli.group_parser import GroupOptions

        refused = {"profile": profile.profile, "library": profile.library}
        chosen = GroupOptions(groups, algorithm, pattern.size_text(size), p, refused)
        raise typer.Exit(chosen.run(machine.blueprint, rules, files, format.value))
    p = pattern.count_text(p, lambda: usual_ranks(machine.blueprint, [algorithm], "8"))
    size = pattern.size_text(size)
    parameters = {"p": p, "size": size, "engine": rules.engine.value, **profile.library_parameters}
    parameters = named(algo, algo_file, [algorithm]) | parameters
    request = command.Request(
        algorithm,
        parse_rank_count(p),
        parse_bytes(size),
        replace(machine.blueprint, force=rules.force),
        rules.rules,
        calibrated,
        parameters={
            **machine.machine_parameters,
            **rules.rule_parameters,
            **parameters,
            **pattern.pattern_parameters,
        },
    )
    raise typer.Exit(command.run(request, files, format.value))


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
