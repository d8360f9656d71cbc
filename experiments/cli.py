"""`simctl`: parsing and printing only. A command's work is imported when it runs, so that `--help` is quick."""

from __future__ import annotations

import io
import logging
import sys
import warnings
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from pickle import UnpicklingError
from typing import Annotated

import typer

from topologies.errors import InputError

app = typer.Typer(
    name="simctl",
    help="Simulate the communication of distributed training: how long, why, how far from the best, is it normal?",
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


class Format(StrEnum):
    """How a table is printed."""

    table = "table"
    csv = "csv"
    json = "json"


class EngineName(StrEnum):
    """Which engine simulates."""

    auto = "auto"
    reference = "reference"
    compiled = "compiled"


class SharingName(StrEnum):
    """How transfers share a link."""

    fifo = "fifo"
    fair = "fair"


class Metric(StrEnum):
    """What a sweep's plot shows."""

    time = "time"
    busbw = "busbw"


def _complete(names: Callable[[], list[str]]) -> Callable[[str], list[str]]:
    """Complete the last of a comma-separated list."""

    def complete(incomplete: str) -> list[str]:
        head, comma, tail = incomplete.rpartition(",")
        return [f"{head}{comma}{name}" for name in names() if name.startswith(tail)]

    return complete


def _algorithm_names() -> list[str]:
    from simulator.collectives import algorithms

    return list(algorithms())


def _measured_names() -> list[str]:
    from experiments.runner.patterns import PROMISES

    return [*PROMISES, *_algorithm_names()]


def _machine_names() -> list[str]:
    from topologies.machines import MACHINES
    from topologies.shapes import SHAPES

    return [*SHAPES, *MACHINES]


def _strategy_names() -> list[str]:
    from simulator.training import FILES

    return list(FILES)


def _profile_names() -> list[str]:
    """The profiles that are shipped."""
    from experiments.profiles import names

    return names()


def _model_names() -> list[str]:
    from experiments.models.catalogue import MODELS

    return list(MODELS)


Algo = Annotated[
    str,
    typer.Option(
        "--algo",
        help="Algorithms, comma-separated: see `simctl algos`.",
        autocompletion=_complete(_algorithm_names),
    ),
]
TOPOLOGY_HELP = "NAME or FILE, with options: star, hgx_h100:nodes=2, topo.txt. See `simctl topo list`."
Topology = Annotated[str, typer.Option("--topology", help=TOPOLOGY_HELP, autocompletion=_complete(_machine_names))]
Bandwidth = Annotated[str | None, typer.Option(help="β of a shape's links, like 400Gbit/s.  [default: 50GB/s]")]
Latency = Annotated[str | None, typer.Option(help="α of a shape's links, like 2us.  [default: 1us]")]
Gap = Annotated[str | None, typer.Option(help="g of a shape's links: time a message needs besides its bytes.")]
Placement = Annotated[str, typer.Option(help="Ranks by node, round-robin, or the places listed: 0,8,1,9.")]
Sharing = Annotated[SharingName, typer.Option(help="How transfers share a link: in turn, or max-min fairly.")]
StoreAndForward = Annotated[bool, typer.Option("--store-and-forward", help="Switches forward whole messages.")]
Reduction = Annotated[
    str | None,
    typer.Option(help="1/γ: how fast a rank merges what arrives, like 1TB/s. [default: infinitely]"),
]
Engines = Annotated[EngineName, typer.Option(help="auto: SimPy for little work, compiled for much. Same results.")]
Output = Annotated[Format, typer.Option("--format", help="What is printed on stdout.")]
ProfileName = Annotated[
    str | None,
    typer.Option(
        "--profile",
        help="A calibrated machine, by name or FILE.yaml: its protocols are simulated, the fastest is kept.",
        autocompletion=_complete(_profile_names),
        show_default=False,
    ),
]
Out = Annotated[Path | None, typer.Option(help="Write the table to this CSV file, with how it was made beside it.")]
Plot = Annotated[Path | None, typer.Option(help="Draw a picture: FILE.png, .svg or .pdf.")]


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
    epilog="Example: simctl sweep --algo ring,naive --p 2..64 --size 64MiB,1GiB --topology star --out sweep.csv"
)
def sweep(
    algo: Algo = "ring",
    p: Annotated[str, typer.Option("--p", help="Numbers of ranks: 8, 2,4,8, 2..64 or 2..64:x2.")] = "2..64",
    size: Annotated[str, typer.Option(help="V, comma-separated or a range: 64MiB,1GiB or 1MiB..1GiB:x4.")] = "64MiB",
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
    format: Output = Format.table,
) -> None:
    """Simulate collectives over numbers of ranks and sizes, beside formula and bound; exit 1 if a check fails."""
    from experiments.commands import sweep as command
    from experiments.commands.machine import machine_of

    links = (bandwidth, latency, gap, reduction)
    machine, found = machine_of(profile, topology, links, placement, sharing.value, store_and_forward)
    raise typer.Exit(command.run(algo, p, size, machine, engine.value, out, plot, metric.value, format.value, found))


@app.command(epilog="Example: simctl run --algo ring --p 8 --size 1GiB --topology star --timeline ring.png")
def run(
    algo: Annotated[str, typer.Option(help="One algorithm: see `simctl algos`.")] = "ring",
    p: Annotated[str, typer.Option("--p", help="The number of ranks.")] = "8",
    size: Annotated[str, typer.Option(help="V, like 1GiB.")] = "64MiB",
    topology: Topology = "ring",
    bandwidth: Bandwidth = None,
    latency: Latency = None,
    gap: Gap = None,
    reduction: Reduction = None,
    placement: Placement = "node",
    sharing: Sharing = SharingName.fifo,
    store_and_forward: StoreAndForward = False,
    engine: Engines = EngineName.auto,
    timeline: Annotated[Path | None, typer.Option(help="Draw who does what when: FILE.png, .svg or .pdf.")] = None,
    profile: ProfileName = None,
    format: Output = Format.table,
) -> None:  # fmt: skip
    """Simulate one collective in full: where the time goes, what is busiest, what each parameter is worth."""
    from experiments.commands import run as command
    from experiments.commands.machine import machine_of

    links = (bandwidth, latency, gap, reduction)
    machine, found = machine_of(profile, topology, links, placement, sharing.value, store_and_forward)
    raise typer.Exit(command.run(algo, p, size, machine, engine.value, timeline, format.value, found))


@app.command(
    epilog="Example: simctl train --model resnet50 --strategy ddp --topology hgx_h100:nodes=2 --bucket 25MiB "
    "--timeline step.png"
)
def train(
    model: Annotated[
        str,
        typer.Option(
            help="NAME or FILE, with options: resnet50, bert_large:batch=16,device=a100, profile.yaml. "
            "See `simctl models`.",
            autocompletion=_complete(_model_names),
        ),
    ] = "resnet50",
    strategy: Annotated[
        str,
        typer.Option(
            help="NAME with options: ddp, ddp:algo=rings,overlap=no, asgd:server=cpu. See `simctl strategies`.",
            autocompletion=_complete(_strategy_names),
        ),
    ] = "ddp",
    topology: Topology = "star",
    p: Annotated[
        str | None,
        typer.Option("--p", help="Workers: 8, 1..256:x2.  [default: all GPUs of the machine; 8 of a shape]"),
    ] = None,
    bucket: Annotated[
        str | None, typer.Option(help="DDP's cap of a bucket; 0: one a parameter.  [default: 25MiB]")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100_000,
            help="Steps, or updates a worker.  [default: 1; 20 of asgd and ssp; every of local_sgd]",
        ),
    ] = None,
    sweep: Annotated[
        str | None, typer.Option(help="An option and its values: bucket=1MiB..200MiB:x2, overlap=yes,no, batch=32,64.")
    ] = None,
    straggler: Annotated[str | None, typer.Option(help="Ranks that compute slower: 3:1.5,5:2.")] = None,
    noise: Annotated[
        str | None, typer.Option(help="Noise of each step: lognormal:0.1, or a file with a time a line.")
    ] = None,
    slow_link: Annotated[
        str | None, typer.Option(help="A rank's links, or a link, at a share of the bandwidth: 3:0.5.")
    ] = None,
    fail: Annotated[
        str | None, typer.Option(help="A worker that fails: rank=3,step=5,restart=30s,timeout=10s,checkpoint=4.")
    ] = None,
    batches: Annotated[str | None, typer.Option(help="Ranks with input for fewer steps: 3:8.")] = None,
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
        Path | None, typer.Option(help="Who does what when: FILE.png, .svg, .pdf, or .json for Perfetto.")
    ] = None,
    out: Out = None,
    plot: Plot = None,
    format: Output = Format.table,
) -> None:
    """Simulate training steps: time, bubbles and their causes, hidden and exposed communication, what would help."""
    from experiments.commands import train as command
    from experiments.commands.machine import Machine

    machine = Machine(topology, bandwidth, latency, gap, reduction, placement, sharing.value, store_and_forward)
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
    epilog="Example: simctl profile-model torchvision.models:resnet18 --input 8x3x224x224 --out resnet18.yaml",
)
def profile_model(
    target: Annotated[str, typer.Argument(metavar="MODULE:NAME", help="PACKAGE.MODULE:NAME or FILE.py:NAME.")],
    input: Annotated[str, typer.Option(help="Shapes of the inputs, comma-separated: 8x3x224x224 or 8x128:int64.")],
    batch: Annotated[int | None, typer.Option(help="Samples.  [default: the first size of the first input]")] = None,
    vocab: Annotated[int, typer.Option(help="Whole numbers of inputs are random, from 0 to below this.")] = 1000,
    device: Annotated[str, typer.Option(help="cpu, cuda, or one of several like cuda:1.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="fp32, fp64, fp16 or bf16, of parameters and inputs.")] = "fp32",
    steps: Annotated[int, typer.Option(help="Steps that are measured; times are their medians.")] = 5,
    optimizer: Annotated[str, typer.Option(help="sgd (with momentum) or adamw.")] = "sgd",
    out: Annotated[Path | None, typer.Option(help="Write the model to FILE.yaml, for simctl train --model.")] = None,
    format: Output = Format.table,
) -> None:  # fmt: skip
    """Time a torch module layer by layer, with hooks, and write it as a model for simctl train."""
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
    """List the models that come along, and the options that they take."""
    from experiments.commands import models as command

    command.run(format.value)


@app.command(
    epilog="Example: simctl measure --nproc 4 --collectives all_reduce,ring --sizes 4KiB..64MiB:x4 --out runs.csv"
)
def measure(
    backend: Annotated[str, typer.Option(help="gloo, nccl or mpi, of torch.distributed.")] = "gloo",
    nproc: Annotated[
        str | None,
        typer.Option(help="Ranks to start here: 4, or 2,4 in turn.  [default: those of torchrun or srun]"),
    ] = None,
    collectives: Annotated[
        str,
        typer.Option(
            help="The library's (all_reduce, ..., barrier) and ours over isend and irecv (ring, tree, ...).",
            autocompletion=_complete(_measured_names),
        ),
    ] = "all_reduce",
    sizes: Annotated[str, typer.Option(help="V as nccl-tests counts: 64MiB,1GiB or a range.")] = "4KiB..64MiB:x4",
    device: Annotated[
        str | None, typer.Option(help="cpu or cuda.  [default: cuda with nccl, cpu else]", show_default=False)
    ] = None,
    dtype: Annotated[str, typer.Option(help="float32, float64, float16, bfloat16, int32 or int64.")] = "float32",
    repetitions: Annotated[int, typer.Option(help="Of each point, at most.")] = 100,
    warmup: Annotated[int, typer.Option(help="Repetitions before them that do not count.")] = 2,
    budget: Annotated[str, typer.Option(help="Time for the repetitions of a point; there are 3 at least.")] = "1s",
    timeout: Annotated[str, typer.Option(help="How long a rank waits for the others before it gives up.")] = "60s",
    init: Annotated[
        str | None, typer.Option(help="Where ranks meet: env://, tcp://HOST:PORT or file:///PATH.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the numbers that are sent and checked.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Keep each point in this CSV file as soon as it is there.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the file of --out.")] = False,
    format: Output = Format.table,
) -> None:  # fmt: skip
    """Measure real torch.distributed, and our schedules on it, with every result checked."""
    from experiments.commands import measure as command

    request = command.Request(
        backend, nproc, collectives, sizes, device, dtype, repetitions, warmup, budget, timeout, init, seed
    )
    raise typer.Exit(command.run(request, out, resume, format.value))


@app.command(
    epilog="Example: simctl validate nccl.log --fit --plot fit.png, or a profile: simctl validate mine.yaml runs.csv"
)
def validate(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOG | PROFILE RUNS...",
            help="A log, or a CSV with size_bytes and time_us; or a profile (name or FILE.yaml) and runs.",
        ),
    ],
    algo: Annotated[str | None, typer.Option(help="The algorithm to simulate. [default: by collective]")] = None,
    fit: Annotated[bool, typer.Option("--fit", help="Fit α and β on every other size; judge on the others.")] = False,
    p: Annotated[str | None, typer.Option("--p", help="The number of ranks, where the file does not say.")] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="Use the in-place times.")] = False,
    topology: Topology = "star",
    bandwidth: Bandwidth = None,
    latency: Latency = None,
    gap: Gap = None,
    placement: Placement = "node",
    engine: Engines = EngineName.auto,
    plot: Annotated[Path | None, typer.Option(help="Draw FILE.png, .svg or .pdf; one file a curve.")] = None,
    family: Annotated[str | None, typer.Option(help="Of a folder of runs with an index: this series only.")] = None,
    forced: Annotated[bool, typer.Option("--forced", help="Only runs whose algorithm was forced.")] = False,
    tolerance: Annotated[
        str | None, typer.Option(help="Exit 1 if a profile's mean error is above this, like 0.15.", show_default=False)
    ] = None,
    format: Output = Format.table,
) -> None:  # fmt: skip
    """Hold the simulator against a log, or a profile against runs: measured beside predicted, unseen points apart."""
    from experiments.commands import validate as command
    from experiments.commands.machine import Machine

    if len(files) > 1 or (tolerance and not fit) or files[0].suffix in (".yaml", ".yml"):
        from experiments.commands import validate_profile

        chosen = {"--algo": algo, "--fit": fit, "--p": p, "--bandwidth": bandwidth, "--latency": latency, "--gap": gap}
        chosen |= {"--topology": topology != "star", "--placement": placement != "node"}
        chosen |= {"--engine": engine is not EngineName.auto}
        validate_profile.refuse([name for name, given in chosen.items() if given])
        raise typer.Exit(validate_profile.run(files, family, forced, in_place, tolerance, plot, format.value))
    (log,) = files

    if fit and (bandwidth or latency):
        raise InputError("--fit finds α and β itself: leave out --bandwidth and --latency, or --fit")
    machine = Machine(topology, bandwidth, latency, gap, None, placement)
    raise typer.Exit(command.run(log, algo, fit, p, in_place, machine, engine.value, plot, format.value))


@app.command(epilog="Example: simctl calibrate runs.csv --out mine.yaml")
def calibrate(
    files: Annotated[
        list[Path], typer.Argument(metavar="RUNS...", help="nccl-tests, OSU or CSV files, or folders of them.")
    ],
    family: Annotated[str | None, typer.Option(help="Of a folder with an index: this series only.")] = None,
    topology: Annotated[
        str | None,
        typer.Option(
            "--topology",
            help=f"{TOPOLOGY_HELP} [default: nodes with one port a rank and one a node]",
            autocompletion=_complete(_machine_names),
            show_default=False,
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="What the profile is called. [default: as its file]")] = None,
    library: Annotated[str | None, typer.Option(help="nccl, mpi, fujitsu or gloo. [default: as the files say]")] = None,
    forced: Annotated[bool, typer.Option("--forced", help="Only curves whose algorithm was forced.")] = False,
    in_place: Annotated[bool, typer.Option("--in-place", help="Fit the in-place times.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the profile: FILE.yaml.")] = None,
    format: Output = Format.table,
) -> None:
    """Fit launch, α and β by link and protocol, and γ to measured runs, with intervals and errors on unseen points."""
    from experiments.commands import calibrate as command
    from experiments.commands.machine import Machine

    machine = Machine(topology) if topology else None
    raise typer.Exit(command.run(files, family, machine, name, library, forced, in_place, out, format.value))


@app.command(epilog="Example: simctl diagnose nccl.log --topology mn5_acc --plot normal.png")
def diagnose(
    logs: Annotated[
        list[Path], typer.Argument(metavar="LOG...", help="nccl-tests, OSU or CSV files, or folders of them.")
    ],
    topology: Annotated[
        str | None,
        typer.Option("--topology", help=TOPOLOGY_HELP, autocompletion=_complete(_machine_names), show_default=False),
    ] = None,
    bandwidth: Bandwidth = None,
    latency: Latency = None,
    gap: Gap = None,
    placement: Placement = "node",
    family: Annotated[str | None, typer.Option(help="Of a folder with an index: this series only.")] = None,
    p: Annotated[str | None, typer.Option("--p", help="The number of ranks, where the files do not say.")] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="Judge the in-place times.")] = False,
    profile: ProfileName = None,
    plot: Annotated[Path | None, typer.Option(help="Draw FILE.png, .svg or .pdf; one file a curve.")] = None,
    format: Output = Format.table,
) -> None:
    """Is a measured curve normal? Regimes, abnormal sizes, what limits it, what to try; exit 1 if it is not."""
    from experiments.commands import diagnose as command
    from experiments.commands.machine import Machine

    if topology is None and (bandwidth or latency or gap):
        raise InputError("--bandwidth, --latency and --gap are of a shape's links: give --topology, or leave them out")
    machine = Machine(topology, bandwidth, latency, gap, None, placement) if topology else None
    raise typer.Exit(command.run(logs, machine, family, p, in_place, plot, format.value, profile))


topo = typer.Typer(
    help="Machines: which there are, what one is made of, and machines from files.",
    invoke_without_command=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
app.add_typer(topo, name="topo")


@topo.callback()
def _topo(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@topo.command("list", epilog="Example: simctl topo list --format json")
def topo_list(format: Output = Format.table) -> None:
    """List the shapes and the machines, and the options that they take."""
    from experiments.commands import topo as command

    command.show_list(format.value)


@topo.command("show", epilog="Example: simctl topo show hgx_h100:nodes=2 --png hgx.png")
def topo_show(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME|FILE", help=TOPOLOGY_HELP, autocompletion=_complete(_machine_names)),
    ],
    p: Annotated[str | None, typer.Option("--p", help="The number of ranks.  [default: all; 8 of a shape]")] = None,
    png: Annotated[Path | None, typer.Option(help="Draw the machine: FILE.png, .svg or .pdf.")] = None,
    format: Output = Format.table,
) -> None:
    """Show what a machine is made of, how far apart its ranks are, its rings, and what no algorithm can beat on it."""
    from experiments.commands import topo as command

    command.show(name, p, png, format.value)


@topo.command("import", epilog="Example: simctl topo import topo.txt --out machine.yaml")
def topo_import(
    source: Annotated[
        str,
        typer.Argument(metavar="FILE|NAME", help="nvidia-smi topo -m, NCCL or RCCL XML, GraphML, YAML, JSON; or NAME."),
    ],
    out: Annotated[Path, typer.Option(help="Write the machine to FILE.yaml, .yml, .json or .graphml.")],
) -> None:
    """Turn what another tool says of a machine, or a machine by name, into a file that can be changed and used."""
    from experiments.commands import topo as command

    command.import_file(source, out)


@app.command(epilog="Example: simctl algos --format json")
def algos(format: Output = Format.table) -> None:
    """List the algorithms with formula, model, assumptions and source."""
    from experiments.commands import algos as command

    command.run(format.value)


@app.command(epilog="Example: simctl doctor")
def doctor() -> None:
    """Say which versions run, where they were imported from and where compiled code is kept."""
    from experiments.commands import doctor as command

    command.run()


def main() -> None:
    """Run the command line: one line for a user's mistake, exit codes 0, 1, 2 and 130."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_warning
    logging.basicConfig(format="note: %(message)s", level=logging.ERROR, stream=sys.stderr)
    logging.getLogger("simctl").setLevel(logging.INFO)
    try:
        code = app(standalone_mode=False)
        if sys.stdout:
            sys.stdout.flush()
    except InputError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except MemoryError:
        _fail("this does not fit into memory: take fewer ranks, or an algorithm with fewer transfers")
    except (UnpicklingError, EOFError) as error:
        _fail(f"the cache of compiled code is damaged ({error}): remove the folder that simctl doctor names")
    except SystemError as error:
        cause: BaseException | None = error
        while cause and not isinstance(cause, KeyboardInterrupt):
            cause = cause.__cause__
        if cause is None:
            raise
        sys.exit(130)  # so does Numba wrap a Ctrl-C while compiled code runs
    except OSError as error:
        _fail(f"cannot write the output: {error.strerror}")
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
