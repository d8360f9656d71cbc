"""The commands of `simctl` that measure real machines and hold the simulator against them: parsing
only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments.cli.options import (
    TOPOLOGY_HELP,
    Bandwidth,
    EngineName,
    Engines,
    Format,
    Gap,
    Latency,
    Output,
    Placement,
    ProfileName,
    Topology,
    algorithm_names,
    backend_names,
    completer,
    library_names,
    machine_names,
    measured_names,
)
from topologies.errors import InputError

app = typer.Typer()


@app.command(
    epilog="Example: simctl measure --nproc 4 --collectives all_reduce,ring --sizes 4KiB..64MiB:x4 "
    "--out runs.csv"
)
def measure(
    backend: Annotated[
        str,
        typer.Option(help="gloo, nccl or mpi, of "
        "torch.distributed.", autocompletion=completer(backend_names)),
    ] = "gloo",
    nproc: Annotated[
        str | None,
        typer.Option(help="Ranks to start here: 4, or 2,4 in turn.  [default: those of torchrun or "
        "srun]"),
    ] = None,
    collectives: Annotated[
        str,
        typer.Option(
            help="The library's (all_reduce, ..., barrier) and ours over isend and irecv (ring, "
            "tree, ...).",
            autocompletion=completer(measured_names),
        ),
    ] = "all_reduce",
    sizes: Annotated[str, typer.Option(help="V as nccl-tests counts: 64MiB,1GiB or a "
    "range.")] = "4KiB..64MiB:x4",
    device: Annotated[
        str | None, typer.Option(help="cpu or cuda.  [default: cuda with nccl, cpu "
        "else]", show_default=False)
    ] = None,
    dtype: Annotated[str, typer.Option(help="float32, float64, float16, bfloat16, int32 or "
    "int64.")] = "float32",
    repetitions: Annotated[int, typer.Option(help="Of each point, at most.")] = 100,
    warmup: Annotated[int, typer.Option(help="Repetitions before them that do not count.")] = 2,
    budget: Annotated[str, typer.Option(help="Time for the repetitions of a point; there are 3 at "
    "least.")] = "1s",
    timeout: Annotated[str, typer.Option(help="How long a rank waits for the others before it "
    "gives up.")] = "60s",
    init: Annotated[
        str | None, typer.Option(help="Where ranks meet: env://, tcp://HOST:PORT or file:///PATH.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the numbers that are sent and checked.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Keep each point in this CSV file as soon as it "
    "is there.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the file of --out.")] = False,
    format: Output = Format.table,
) -> None:  # fmt: skip
    """Measure torch.distributed, and simctl's schedules on it.

    The result of every collective is checked.
    """
    from experiments.commands import measure as command

    request = command.Request(
        backend,
        nproc,
        collectives,
        sizes,
        device,
        dtype,
        repetitions,
        warmup,
        budget,
        timeout,
        init,
        seed,
    )
    raise typer.Exit(command.run(request, out, resume, format.value))


@app.command(
    epilog="Example: simctl validate nccl.log --fit --plot fit.png, or a profile: simctl validate "
    "mine.yaml runs.csv"
)
def validate(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOG | PROFILE RUNS...",
            help="A log, or a CSV with size_bytes and time_us; or a profile (name or FILE.yaml) "
            "and runs.",
        ),
    ],
    algo: Annotated[
        str | None,
        typer.Option(
            help="The algorithm to simulate. [default: by "
            "collective]", autocompletion=completer(algorithm_names)
        ),
    ] = None,
    fit: Annotated[bool, typer.Option("--fit", help="Fit α and β on every other size; judge on the "
    "others.")] = False,
    p: Annotated[str | None, typer.Option("--p", help="The number of ranks, where the file does "
    "not say.")] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="Use the in-place times.")] = False,
    topology: Topology = "star",
    bandwidth: Bandwidth = None,
    latency: Latency = None,
    gap: Gap = None,
    placement: Placement = "node",
    engine: Engines = EngineName.auto,
    plot: Annotated[Path | None, typer.Option(help="Draw FILE.png, .svg or .pdf; one file a "
    "curve.")] = None,
    family: Annotated[str | None, typer.Option(help="Of a folder of runs with an index: this "
    "series only.")] = None,
    only: Annotated[
        str | None, typer.Option(help="Only runs with these words in their files' "
        "names.", show_default=False)
    ] = None,
    forced: Annotated[bool, typer.Option("--forced", help="Only runs whose algorithm was "
    "forced.")] = False,
    tolerance: Annotated[
        str | None, typer.Option(help="Exit 1 if a profile's mean error is above this, like "
        "0.15.", show_default=False)
    ] = None,
    compare: Annotated[
        str | None, typer.Option(help="NCCL's own model beside a profile: nccl, or nccl:GPUs like "
        "nccl:hopper.")
    ] = None,
    format: Output = Format.table,
) -> None:  # fmt: skip
    """Compare measured times with simulated ones.

    With --fit, the errors at the sizes that the fit has not seen are printed separately.
    """
    from experiments.commands import validate as command
    from experiments.simulations.machine import Machine

    if (
        len(files) > 1
        or (tolerance and not fit)
        or compare is not None
        or files[0].suffix in (".yaml", ".yml")
    ):
        from experiments.commands import validate_profile

        chosen = {
            "--algo": algo,
            "--fit": fit,
            "--p": p,
            "--bandwidth": bandwidth,
            "--latency": latency,
            "--gap": gap,
        }
        chosen |= {"--topology": topology != "star", "--placement": placement != "node"}
        chosen |= {"--engine": engine is not EngineName.auto}
        validate_profile.refuse([name for name, given in chosen.items() if given])
        raise typer.Exit(
            validate_profile.run(
                files, family, forced, in_place, tolerance, plot, format.value, compare, only
            )
        )
    (log,) = files
    if given := [
        name
        for name, value in {"--family": family, "--only": only, "--forced": forced or None}.items()
        if value is not None
    ]:
        raise InputError(
            f"{given[0]} is for a profile and runs: name the profile first, or leave it out"
        )
    if fit and (bandwidth or latency):
        raise InputError(
            "--fit finds α and β itself: leave out --bandwidth and --latency, or --fit"
        )
    machine = Machine(topology, bandwidth, latency, gap, None, placement)
    raise typer.Exit(
        command.run(log, algo, fit, p, in_place, machine, engine.value, plot, format.value)
    )


@app.command(epilog="Example: simctl calibrate runs.csv --out mine.yaml")
def calibrate(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="RUNS...", help="nccl-tests, OSU or CSV files, or folders of them."),
    ],
    family: Annotated[
        str | None, typer.Option(help="Of a folder with an index: this series only.")
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option(
            "--topology",
            help=f"{TOPOLOGY_HELP} [default: nodes with one port a rank and one a node]",
            autocompletion=completer(machine_names),
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What the profile is called. [default: as its file]")
    ] = None,
    library: Annotated[
        str | None,
        typer.Option(
            help="nccl, mpi, fujitsu or gloo. [default: as the files say]",
            autocompletion=completer(library_names),
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help="Only files with these words in their names: one set-up.", show_default=False
        ),
    ] = None,
    forced: Annotated[
        bool, typer.Option("--forced", help="Only curves whose algorithm was forced.")
    ] = False,
    in_place: Annotated[bool, typer.Option("--in-place", help="Fit the in-place times.")] = False,
    links: Annotated[
        list[Path] | None,
        typer.Option(
            help="Point-to-point runs between two nodes (OSU, or send_recv in a CSV): β starts "
            "there."
        ),
    ] = None,
    gap: Annotated[
        bool, typer.Option("--gap", help="Fit a gap g as well, where the runs tell it from α.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the profile: FILE.yaml.")] = None,
    format: Output = Format.table,
) -> None:
    """Fit a machine's links and software to measured runs.

    The fit finds launch times, α and β by link and protocol, and γ. It prints their intervals, and
    the errors on points that it has not seen.
    """
    from experiments.commands import calibrate as command
    from experiments.simulations.machine import Machine

    machine = Machine(topology) if topology else None
    chosen = command.Choice(
        family, machine, name, library, forced, in_place, links or (), gap, only
    )
    raise typer.Exit(command.run(files, chosen, out, format.value))


@app.command(epilog="Example: simctl diagnose nccl.log --topology mn5_acc --plot normal.png")
def diagnose(
    logs: Annotated[
        list[Path],
        typer.Argument(metavar="LOG...", help="nccl-tests, OSU or CSV files, or folders of them."),
    ],
    topology: Annotated[
        str | None,
        typer.Option(
            "--topology",
            help=TOPOLOGY_HELP,
            autocompletion=completer(machine_names),
            show_default=False,
        ),
    ] = None,
    bandwidth: Bandwidth = None,
    latency: Latency = None,
    gap: Gap = None,
    placement: Placement = "node",
    family: Annotated[
        str | None, typer.Option(help="Of a folder with an index: this series only.")
    ] = None,
    p: Annotated[
        str | None, typer.Option("--p", help="The number of ranks, where the files do not say.")
    ] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="Judge the in-place times.")] = False,
    profile: ProfileName = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw FILE.png, .svg or .pdf; one file a curve.")
    ] = None,
    format: Output = Format.table,
) -> None:
    """Say whether a measured curve is normal, and what to try.

    The report has regimes, abnormal sizes and what limits the curve. The exit code is 1 if a curve
    is abnormal.
    """
    from experiments.commands import diagnose as command
    from experiments.simulations.machine import Machine

    if topology is None and (bandwidth or latency or gap):
        raise InputError(
            "--bandwidth, --latency and --gap are of a shape's links: give --topology, or leave "
            "them out"
        )
    machine = Machine(topology, bandwidth, latency, gap, None, placement) if topology else None
    raise typer.Exit(command.run(logs, machine, family, p, in_place, plot, format.value, profile))
