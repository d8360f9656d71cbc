"""`simctl`: parsing and printing only. A command's work is imported when it runs, so that `--help`
is quick."""

from __future__ import annotations

import io
import logging
import sys
import warnings
from pathlib import Path
from pickle import UnpicklingError
from typing import Annotated

import typer

from experiments.cli import measured as calibration_cli
from experiments.cli import topologies as topo_cli
from experiments.cli.options import (
    Algo,
    Bandwidth,
    EngineName,
    Engines,
    Format,
    Gap,
    Latency,
    Metric,
    Out,
    Output,
    Placement,
    Plot,
    ProfileName,
    Reduction,
    Sharing,
    SharingName,
    StoreAndForward,
    Topology,
    algorithm_names,
    completer,
    model_names,
    strategy_names,
)
from topologies.errors import InputError

app = typer.Typer(
    name="simctl",
    help="Simulate the communication of distributed training: how long, why, how far from the "
    "best, is it normal?",
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _version(shown: bool) -> None:
    if shown:
        from importlib.metadata import version

        typer.echo(f"simctl {version('simctl-collectives')}")
        raise typer.Exit


@app.callback()
def _main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(
    epilog="Example: simctl sweep --algo ring,naive --p 2..64 --size 64MiB,1GiB --topology star "
    "--out sweep.csv"
)
def sweep(
    algo: Algo = "ring",
    p: Annotated[
        str | None,
        typer.Option(
            "--p",
            help="Numbers of ranks: 8, 2,4,8, 2..64 or 2..64:x2.  "
            "[default: 2..64; all GPUs where the topology says how many nodes]",
        ),
    ] = None,
    size: Annotated[
        str,
        typer.Option(
            help="V, the size as nccl-tests counts it: 64MiB,1GiB or a range 1MiB..1GiB:x4."
        ),
    ] = "64MiB",
    topology: Topology = "ring",
    bandwidth: Bandwidth = None,
    latency: Latency = None,
    gap: Gap = None,
    reduction: Reduction = None,
    placement: Placement = "node",
    sharing: Sharing = SharingName.fifo,
    store_and_forward: StoreAndForward = False,
    engine: Engines = EngineName.auto,
    out: Out = None,
    plot: Plot = None,
    metric: Annotated[Metric, typer.Option(help="What the plot shows against p.")] = Metric.time,
    profile: ProfileName = None,
    wide: Annotated[bool, typer.Option("--wide", help="Print all columns of the table.")] = False,
    format: Output = Format.table,
) -> None:
    """Simulate algorithms at many rank counts and sizes.

    Each time is compared with the algorithm's formula and with a lower bound. The exit code is 1 if
    a check fails. It is 2 if a point cannot be simulated; all others are still printed.
    """
    from experiments.commands import sweep as command
    from experiments.simulations.machine import machine_of

    links = (bandwidth, latency, gap, reduction)
    machine, found = machine_of(
        profile, topology, links, placement, sharing.value, store_and_forward
    )
    raise typer.Exit(
        command.run(
            algo, p, size, machine, engine.value, out, plot, metric.value, format.value, found, wide
        )
    )


@app.command(
    epilog="Example: simctl run --algo ring --p 8 --size 1GiB --topology star --timeline ring.png"
)
def run(
    algo: Annotated[
        str, typer.Option(help="One algorithm: see `simctl "
        "algos`.", autocompletion=completer(algorithm_names))
    ] = "ring",
    p: Annotated[str, typer.Option("--p", help="The number of ranks.")] = "8",
    size: Annotated[str, typer.Option(help="V, the size as nccl-tests counts it, like "
    "1GiB.")] = "64MiB",
    topology: Topology = "ring",
    bandwidth: Bandwidth = None,
    latency: Latency = None,
    gap: Gap = None,
    reduction: Reduction = None,
    placement: Placement = "node",
    sharing: Sharing = SharingName.fifo,
    store_and_forward: StoreAndForward = False,
    engine: Engines = EngineName.auto,
    timeline: Annotated[Path | None, typer.Option(help="Draw who does what when: FILE.png, .svg, "
    ".pdf, or .json for Perfetto.")] = None,
    profile: ProfileName = None,
    format: Output = Format.table,
) -> None:  # fmt: skip
    """Simulate one collective and explain where its time goes.

    The report has the critical path, the busiest links, and what each parameter is worth.
    """
    from experiments.commands import run as command
    from experiments.simulations.machine import machine_of

    links = (bandwidth, latency, gap, reduction)
    machine, found = machine_of(
        profile, topology, links, placement, sharing.value, store_and_forward
    )
    raise typer.Exit(
        command.run(algo, p, size, machine, engine.value, timeline, format.value, found)
    )


@app.command(
    epilog="Example: simctl train --model resnet50 --strategy ddp --topology hgx_h100:nodes=2 "
    "--bucket 25MiB --timeline step.png"
)
def train(
    model: Annotated[
        str,
        typer.Option(
            help="NAME or FILE, with options: resnet50, bert_large:batch=16,device=a100, "
            "profile.yaml; or the traces of a job, a rank each: rank0.json,rank1.json or "
            "their folder. See `simctl models`.",
            autocompletion=completer(model_names),
        ),
    ] = "resnet50",
    strategy: Annotated[
        str,
        typer.Option(
            help="NAME with options: ddp, ddp:algo=rings,overlap=no, asgd:server=cpu. See `simctl "
            "strategies`.",
            autocompletion=completer(strategy_names),
        ),
    ] = "ddp",
    topology: Topology = "star",
    p: Annotated[
        str | None,
        typer.Option(
            "--p",
            help="Workers: 8, 1..256:x2.  [default: one a trace; all GPUs of the machine; 8 of a "
            "shape]",
        ),
    ] = None,
    bucket: Annotated[
        str | None,
        typer.Option(help="DDP's cap of a bucket; 0: one a parameter.  [default: 25MiB]"),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100_000,
            help="Steps, or updates a worker.  [default: 1; 20 of asgd and ssp; every of "
            "local_sgd]",
        ),
    ] = None,
    sweep: Annotated[
        str | None,
        typer.Option(
            help="An option and its values: bucket=1MiB..200MiB:x2, overlap=yes,no, batch=32,64."
        ),
    ] = None,
    straggler: Annotated[
        str | None, typer.Option(help="Ranks that compute slower: 3:1.5,5:2.")
    ] = None,
    noise: Annotated[
        str | None,
        typer.Option(help="Noise of each step: lognormal:0.1, or a file with a time a line."),
    ] = None,
    slow_link: Annotated[
        str | None,
        typer.Option(help="A rank's links, or a link, at a share of the bandwidth: 3:0.5."),
    ] = None,
    fail: Annotated[
        str | None,
        typer.Option(
            help="A worker that fails: rank=3,step=5,restart=30s,timeout=10s,checkpoint=4."
        ),
    ] = None,
    batches: Annotated[
        str | None, typer.Option(help="Ranks with input for fewer steps: 3:8.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the noise.")] = 0,
    bandwidth: Bandwidth = None,
    latency: Latency = None,
    gap: Gap = None,
    reduction: Reduction = None,
    placement: Placement = "node",
    sharing: Sharing = SharingName.fifo,
    store_and_forward: StoreAndForward = False,
    engine: Engines = EngineName.auto,
    timeline: Annotated[
        Path | None,
        typer.Option(help="Draw who does what when: FILE.png, .svg, .pdf, or .json for Perfetto."),
    ] = None,
    out: Out = None,
    plot: Plot = None,
    format: Output = Format.table,
) -> None:
    """Simulate training steps and explain their communication.

    The report has the time of a step, its bubbles and their causes, hidden and exposed
    communication, and what would help.
    """
    from experiments.commands import train as command
    from experiments.simulations.machine import Machine

    machine = Machine(
        topology, bandwidth, latency, gap, reduction, placement, sharing.value, store_and_forward
    )
    request = command.Request(
        model,
        strategy,
        machine,
        p,
        bucket,
        steps,
        sweep,
        straggler,
        noise,
        fail,
        batches,
        slow_link,
        seed,
        engine.value,
    )
    raise typer.Exit(command.run(request, timeline, out, plot, format.value))


@app.command(
    "profile-model",
    epilog="Example: simctl profile-model torchvision.models:resnet18 --input 8x3x224x224 --out "
    "resnet18.yaml",
)
def profile_model(
    target: Annotated[str, typer.Argument(metavar="MODULE:NAME", help="PACKAGE.MODULE:NAME or "
    "FILE.py:NAME.")],
    input: Annotated[str, typer.Option(help="Shapes of the inputs, comma-separated: 8x3x224x224 or "
    "8x128:int64.")],
    batch: Annotated[int | None, typer.Option(help="Samples.  [default: the first size of the "
    "first input]")] = None,
    vocab: Annotated[int, typer.Option(help="Whole numbers of inputs are random, from 0 to below "
    "this.")] = 1000,
    device: Annotated[str, typer.Option(help="cpu, cuda, or one of several like cuda:1.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="fp32, fp64, fp16 or bf16, of parameters and "
    "inputs.")] = "fp32",
    steps: Annotated[int, typer.Option(help="Steps that are measured; times are their "
    "medians.")] = 5,
    optimizer: Annotated[str, typer.Option(help="sgd (with momentum) or adamw.")] = "sgd",
    out: Annotated[Path | None, typer.Option(help="Write the model to FILE.yaml, for simctl train "
    "--model.")] = None,
    format: Output = Format.table,
) -> None:  # fmt: skip
    """Time a torch module layer by layer, for simctl train."""
    from experiments.commands import profile_model as command

    request = command.Request(target, input, batch, vocab, device, dtype, steps, optimizer)
    raise typer.Exit(command.run(request, out, format.value))


@app.command(epilog="Example: simctl strategies --format json")
def strategies(format: Output = Format.table) -> None:
    """List the training strategies and their options."""
    from experiments.commands import strategies as command

    command.run(format.value)


@app.command(epilog="Example: simctl models --format json")
def models(format: Output = Format.table) -> None:
    """List the built-in models and the options that they take."""
    from experiments.commands import models as command

    command.run(format.value)


app.registered_commands += calibration_cli.app.registered_commands


@app.command(epilog="Example: simctl algos --format json")
def algos(format: Output = Format.table) -> None:
    """List the algorithms with formula, assumptions and source."""
    from experiments.commands import algos as command

    command.run(format.value)


@app.command(epilog="Example: simctl doctor")
def doctor() -> None:
    """Print versions, folders and where compiled code is kept."""
    from experiments.commands import doctor as command

    command.run()


app.add_typer(topo_cli.app, name="topo")


def main() -> None:
    """Run the command line: one line for a user's mistake, exit codes 0, 1, 2 and 130."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_warning
    logging.basicConfig(format="note: %(message)s", level=logging.ERROR, stream=sys.stderr)
    logging.getLogger("simctl").setLevel(logging.INFO)
    try:
        code = app(prog_name="simctl", standalone_mode=False)
        if sys.stdout:
            sys.stdout.flush()
    except InputError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except MemoryError:
        _fail(
            "this does not fit into memory: take fewer ranks, or an algorithm with fewer transfers"
        )
    except (UnpicklingError, EOFError) as error:
        _fail(
            f"the cache of compiled code is damaged ({error}): remove the folder that simctl "
            f"doctor names"
        )
    except SystemError as error:
        cause: BaseException | None = error
        while cause and not isinstance(cause, KeyboardInterrupt):
            cause = cause.__cause__
        if cause is None:
            raise
        sys.exit(130)  # so does Numba wrap a Ctrl-C while compiled code runs
    except OSError as error:
        what = f"open {str(error.filename)!r}" if error.filename else "write the output"
        _fail(f"cannot {what}: {error.strerror}")
    except Exception as error:
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        _fail(" ".join(str(message()).split()) or f"see simctl --help ({type(error).__name__})")
    sys.exit(code)


def _fail(message: str) -> None:
    print(f"simctl: {message}", file=sys.stderr)  # noqa: T201
    sys.exit(2)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"note: {message}", file=sys.stderr)  # noqa: T201
