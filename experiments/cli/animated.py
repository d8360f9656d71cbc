"""`simctl animate`: parsing only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from experiments.options.completion import (
    completer,
    model_names,
    model_options,
    pipeline_names,
    strategy_names,
    strategy_options,
)
from experiments.options.groups import with_groups
from experiments.options.machine_options import MachineOptions, RuleOptions
from experiments.options.options import (
    AlgorithmFile,
    AlgorithmName,
    AlgorithmWord,
    Size,
    word_or_option,
)
from experiments.options.pattern_options import PatternOptions
from experiments.options.profile_options import ProfileOptions
from experiments.options.training_options import (
    CONDITIONS,
    Bucket,
    Fail,
    Noise,
    SlowLink,
    Steps,
    Straggler,
    TrainingOptions,
)
from topologies.errors import InputError

app = typer.Typer()
USUAL_RANKS = "4"
"""Ranks of a shape, if the user does not say."""
Seconds = str | None


@dataclass(frozen=True)
class StepOptions:
    """Training steps as the user writes them: a strategy, a plan, or a pipeline."""

    model: Annotated[
        str | None,
        typer.Option(
            help="A step of this model, with a strategy or a plan: see `simctl train`.",
            autocompletion=completer(model_names, model_options),
        ),
    ] = None
    strategy: Annotated[
        str | None,
        typer.Option(
            help="NAME with options.  [default with --model, without --plan: ddp]",
            autocompletion=completer(strategy_names, strategy_options),
        ),
    ] = None
    bucket: Bucket = None
    plan: Annotated[
        str | None, typer.Option(help="A plan of parallel training: dp=2,tp=2,pp=2,batch=16.")
    ] = None
    steps: Steps = None
    straggler: Straggler = None
    noise: Noise = None
    slow_link: SlowLink = None
    fail: Fail = None
    pipeline: Annotated[
        str | None,
        typer.Option(
            help="A step of a pipeline: NAME with options, or FILE.csv. See `simctl pipelines`.",
            autocompletion=completer(pipeline_names),
        ),
    ] = None
    devices: Annotated[
        int | None, typer.Option(help="Devices of --pipeline.  [default: 8]", min=2)
    ] = None
    micro_batches: Annotated[
        int | None, typer.Option(help="Micro-batches of --pipeline.  [default: 16]", min=1)
    ] = None
    forward: Annotated[
        Seconds, typer.Option(help="A forward through all stages of a device.  [default: 1ms]")
    ] = None
    inputs: Annotated[
        Seconds, typer.Option(help="Its backward for the inputs.  [default: 1ms]")
    ] = None
    weights: Annotated[
        Seconds, typer.Option(help="Its backward for the weights.  [default: 1ms]")
    ] = None
    transfer: Annotated[
        Seconds, typer.Option(help="A transfer to the next device.  [default: 0s]")
    ] = None

    @property
    def kind(self) -> str:
        """What is animated: "pipeline", "model" or "collective"."""
        if self.pipeline is not None:
            return "pipeline"
        return "collective" if all(getattr(self, key) is None for key in MODEL) else "model"

    def check(self, others: Mapping[str, object]) -> None:
        """Raise InputError for an option that does not go with what is animated. `others` are the
        options of collectives and machines."""
        pipeline = "devices", "micro_batches", *TIMES
        foreign = {
            "pipeline": (*MODEL, *others),
            "model": (*pipeline, *COLLECTIVES),
            "collective": pipeline,
        }[self.kind]
        values = {**asdict(self), **others}
        for name in foreign:
            if values[name] is not None:
                what = {"model": "--model", "pipeline": "--pipeline"}.get(self.kind, "a collective")
                raise InputError(
                    f"--{name.replace('_', '-')} {values[name]} does not go with {what}: leave "
                    f"one of them out"
                )


MODEL = ("model", "strategy", "bucket", "plan", "steps", *CONDITIONS)
TIMES = ("forward", "inputs", "weights", "transfer")
COLLECTIVES = ("algo", "algo_file", "size", "root", "skew", "matrix")


@app.command(
    epilog="Example: simctl animate ring --p 4 --out ring.html\n\n"
    "Example: simctl animate --model resnet50 --p 4 --bandwidth 10GB/s --out ddp.html\n\n"
    "Example: simctl animate --pipeline 1f1b --devices 4 --micro-batches 8 --out pipeline.gif"
)
@with_groups
def animate(
    out: Annotated[
        Path,
        typer.Option(help="FILE.html, FILE.gif, or FOLDER for an SVG of each step."),
    ],
    word: AlgorithmWord = None,
    algo: AlgorithmName = None,
    algo_file: AlgorithmFile = None,
    p: Annotated[
        str | None,
        typer.Option(
            "--p", help="The number of ranks, 2 to 32.  [default: all of the machine; 4 of a shape]"
        ),
    ] = None,
    size: Size = None,
    pattern: PatternOptions = PatternOptions(),
    step: StepOptions = StepOptions(),
    machine: MachineOptions = MachineOptions(),
    rules: RuleOptions = RuleOptions(),
) -> None:
    """Show step by step which rank sends what to whom.

    It shows a collective; with --model a training step of DDP and its buckets, of another strategy
    or of a plan; with --pipeline the micro-batches of a pipeline. A page has controls, a GIF is for
    slides. If the algorithm is wrong, the animation stops at the first wrong value, and the exit
    code is 1.
    """
    algo = word_or_option(word, algo)
    links = {name: getattr(machine, name) for name in ("topology", *LINK_OPTIONS)}
    others = {"algo": algo, "algo_file": algo_file, "size": size, **asdict(pattern)}
    step.check({**others, "p": p, **links})
    if step.kind == "pipeline":
        _animate_pipeline(step, out)
        return
    if step.kind == "model":
        _animate_model(step, p, machine, rules, out)
        return
    from experiments.commands import animate as command
    from experiments.options.values import named, parse_algorithm, parse_rank_count, usual_ranks
    from topologies.units import parse_bytes

    algorithm = pattern.patterned(parse_algorithm(algo, algo_file))
    p = pattern.count_text(p, lambda: usual_ranks(machine.blueprint, [algorithm], USUAL_RANKS))
    size = pattern.size_text(size)
    parameters = {
        **named(algo, algo_file, [algorithm]),
        "p": p,
        "size": size,
        **machine.machine_parameters,
    }
    request = command.Request(
        algorithm,
        parse_rank_count(p),
        parse_bytes(size),
        replace(machine.blueprint, force=rules.force),
        rules.rules,
        {**parameters, **rules.rule_parameters, **pattern.pattern_parameters},
    )
    raise typer.Exit(command.run(request, out))


LINK_OPTIONS = ("bandwidth", "latency", "gap", "reduction")


def _animate_model(
    step: StepOptions, p: str | None, machine: MachineOptions, rules: RuleOptions, out: Path
) -> None:
    from experiments.cli.plan_parser import parse
    from experiments.commands import animate as command
    from experiments.commands.train_plan import Request

    is_any_size = machine.blueprint.kind == "shape" and machine.blueprint.size is None
    if p is None and is_any_size and step.plan is None:
        p = USUAL_RANKS
    names = "strategy", "bucket", "plan", "steps", *CONDITIONS
    stated = {name: getattr(step, name) for name in names if getattr(step, name) is not None}
    job = TrainingOptions(model=step.model or "resnet50", p=p, **stated)
    if step.plan is not None:
        case = parse(job, machine, rules, ProfileOptions())
        if not isinstance(case, Request):
            raise InputError(f"--plan {step.plan[:60]}: an animation shows one plan alone")
        command.run_plan(case.answer(), out, case.parameters)
        return
    request = job.request(machine, rules)
    if len(request.runs) > 1:
        raise InputError(f"--p {p}, --strategy {step.strategy}: one of each here")
    keys = "model", "strategy", "p", *asdict(machine)
    parameters = {**{key: request.parameters[key] for key in keys}, "bucket": step.bucket}
    command.run_strategy(request.job, request.ranks[0], out, parameters | stated)


def _animate_pipeline(step: StepOptions, out: Path) -> None:
    from experiments.commands import animate as command
    from experiments.pipeline_files import named_pipeline
    from simulator.parallel.pipeline_times import StageTimes
    from topologies.units import parse_seconds

    texts = {name: getattr(step, name) or USUAL_TIMES[name] for name in TIMES}
    forward, inputs, weights, transfer = (parse_seconds(text) for text in texts.values())
    times = StageTimes(forward, inputs, weights, transfer)
    pipeline = named_pipeline(step.pipeline or "", (step.devices, step.micro_batches), times, KEPT)
    sizes = {"devices": pipeline.devices, "micro_batches": pipeline.micro_batches}
    command.run_pipeline(pipeline, times, out, {"pipeline": step.pipeline, **sizes, **texts})


USUAL_TIMES = {"forward": "1ms", "inputs": "1ms", "weights": "1ms", "transfer": "0s"}
KEPT = 50
"""Percent of the activations that the backward for weights needs, for orders that are searched."""
