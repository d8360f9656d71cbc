"""`simctl animate`: parsing only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from experiments.cli.completion import (
    completer,
    model_names,
    model_options,
    pipeline_names,
    strategy_names,
    strategy_options,
)
from experiments.cli.groups import with_groups
from experiments.cli.machine_options import MachineOptions, RuleOptions
from experiments.cli.options import Algorithm, AlgorithmFile, AlgorithmWord, Size, word_or_option
from experiments.cli.pattern_options import PatternOptions
from experiments.cli.training_options import Bucket, TrainingOptions
from topologies.errors import InputError

app = typer.Typer()
USUAL_RANKS = "4"
"""Ranks of a shape, if the user does not say."""
Seconds = str | None


@dataclass(frozen=True)
class StepOptions:
    """A training step as the user writes it: DDP, or a pipeline."""

    model: Annotated[
        str | None,
        typer.Option(
            help="A step of this model, with DDP: see `simctl train`.",
            autocompletion=completer(model_names, model_options),
        ),
    ] = None
    strategy: Annotated[
        str | None,
        typer.Option(
            help="ddp, with options.  [default with --model: ddp]",
            autocompletion=completer(strategy_names, strategy_options),
        ),
    ] = None
    bucket: Bucket = None
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
        """What is animated: "pipeline", "ddp" or "collective"."""
        if self.pipeline is not None:
            return "pipeline"
        return "collective" if self.model is self.strategy is self.bucket is None else "ddp"

    def check(self, others: Mapping[str, object]) -> None:
        """Raise InputError for an option that does not go with what is animated. `others` are the
        options of collectives and machines."""
        ddp, pipeline = ("model", "strategy", "bucket"), ("devices", "micro_batches", *TIMES)
        foreign = {
            "pipeline": (*ddp, *others),
            "ddp": (*pipeline, *COLLECTIVES),
            "collective": pipeline,
        }[self.kind]
        values = {**asdict(self), **others}
        for name in foreign:
            if values[name] is not None:
                what = {"ddp": "--model", "pipeline": "--pipeline"}.get(self.kind, "a collective")
                raise InputError(
                    f"--{name.replace('_', '-')} {values[name]} does not go with {what}: leave "
                    f"one of them out"
                )


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
    algo: Algorithm = None,
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

    It shows a collective; with --model a training step of DDP and its buckets; with --pipeline the
    micro-batches of a pipeline. A page has controls, a GIF is for slides. If the algorithm is
    wrong, the animation stops at the first wrong value, and the exit code is 1.
    """
    algo = word_or_option(word, algo)
    links = {name: getattr(machine, name) for name in ("topology", *LINK_OPTIONS)}
    others = {"algo": algo, "algo_file": algo_file, "size": size, **asdict(pattern)}
    step.check({**others, "p": p, **links})
    if step.kind == "pipeline":
        _animate_pipeline(step, out)
        return
    if step.kind == "ddp":
        _animate_ddp(step, p, machine, rules, out)
        return
    from experiments.cli.values import named, parse_algorithm, parse_rank_count, usual_ranks
    from experiments.commands import animate as command
    from topologies.units import parse_bytes

    algorithm = pattern.of(parse_algorithm(algo, algo_file))
    p = pattern.ranks(p, lambda: usual_ranks(machine.blueprint, [algorithm], USUAL_RANKS))
    size = pattern.size(size)
    parameters = {**named(algo, algo_file, [algorithm]), "p": p, "size": size, **machine.parameters}
    request = command.Request(
        algorithm,
        parse_rank_count(p),
        parse_bytes(size),
        replace(machine.blueprint, force=rules.force),
        rules.rules,
        {**parameters, **rules.parameters, **pattern.parameters},
    )
    raise typer.Exit(command.run(request, out))


LINK_OPTIONS = ("bandwidth", "latency", "gap", "reduction")


def _animate_ddp(
    step: StepOptions, p: str | None, machine: MachineOptions, rules: RuleOptions, out: Path
) -> None:
    from experiments.commands import animate as command

    if p is None and machine.blueprint.kind == "shape" and machine.blueprint.size is None:
        p = USUAL_RANKS
    job = TrainingOptions(
        model=step.model or "resnet50", strategy=step.strategy or "ddp", p=p, bucket=step.bucket
    )
    request = job.request(machine, rules)
    if len(request.ranks) > 1:
        raise InputError(f"--p {p}: one number of ranks here")
    keys = "model", "strategy", "p", *asdict(machine)
    parameters = {**{key: request.parameters[key] for key in keys}, "bucket": step.bucket}
    command.run_ddp(request.job, request.ranks[0], out, parameters)


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
