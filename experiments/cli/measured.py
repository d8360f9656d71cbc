"""The commands of `simctl` that measure, and that compare measured times: parsing only."""

from __future__ import annotations

from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.options.completion import (
    algorithm_names,
    algorithm_options,
    completer,
    library_names,
    machine_names,
    machine_options,
    profile_names,
)
from experiments.options.groups import with_groups
from experiments.options.machine_options import TOPOLOGY_HELP, MachineOptions, library_of
from experiments.options.options import (
    AlgorithmFile,
    EngineName,
    Engines,
    Format,
    Output,
    Plot,
    ProfileLevel,
    ProfileName,
    Report,
)
from experiments.options.profile_options import ProfileOptions
from topologies.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from experiments.profiles.profile_document import Calibrated

app = typer.Typer()
Runs = Annotated[
    list[Path],
    typer.Argument(metavar="RUNS", help="nccl-tests, OSU or CSV files, or folders of them."),
]
Family = Annotated[
    str | None, typer.Option(help="Read only this series of a folder with an index.")
]
Only = Annotated[
    str | None,
    typer.Option(help="Read only files with these words in their names.", show_default=False),
]
Forced = Annotated[
    bool, typer.Option("--forced", help="Use only curves whose algorithm was forced.")
]
InPlace = Annotated[bool, typer.Option("--in-place", help="Use the in-place times.")]
Ranks = Annotated[
    str | None, typer.Option("--p", help="The number of ranks, if the files do not contain it.")
]
Job = Annotated[
    bool,
    typer.Option(
        "--job",
        help="LOG are traces of all ranks of a job: Kineto's, or dumps of torch's flight recorder.",
    ),
]
CurvePlot = Annotated[
    Path | None,
    typer.Option(help="Draw FILE.png, .svg or .pdf; with several curves one file for each."),
]


@app.command(epilog="Example: simctl validate nccl.log --fit --plot fit.png")
@with_groups
def validate(
    log: Annotated[
        Path, typer.Argument(metavar="LOG", help="A log, or a CSV with size_bytes and time_us.")
    ],
    algo: Annotated[
        str | None,
        typer.Option(
            help="The algorithm to simulate. [default: by collective]",
            autocompletion=completer(algorithm_names, algorithm_options),
        ),
    ] = None,
    algo_file: AlgorithmFile = None,
    fit: Annotated[
        bool, typer.Option("--fit", help="Fit α and β on every other size; judge on the others.")
    ] = False,
    p: Ranks = None,
    in_place: InPlace = False,
    machine: MachineOptions = MachineOptions(),
    profile: ProfileOptions = ProfileOptions(),
    engine: Engines = EngineName.auto,
    plot: CurvePlot = None,
    report: Report = None,
    format: Output = Format.table,
) -> None:
    """Compare a measured log with the simulation.

    With --fit, the errors at the sizes that the fit has not seen are printed separately. With
    --profile or --library, each time has an interval, and the last lines say where your machine
    stands among measured machines.
    """
    from experiments.commands import validate as command
    from experiments.options.machine_options import RuleOptions
    from experiments.options.values import parse_algorithm, parse_rank_count

    if fit:
        profile.refuse_library("--fit finds α and β itself, leave one of them out")
    if fit and (machine.bandwidth or machine.latency):
        raise InputError(
            "--fit finds α and β itself: leave out --bandwidth and --latency, or --fit"
        )
    machine, simulated = profile.calibrated(machine)
    request = command.Request(
        log,
        machine.blueprint,
        parse_algorithm(algo, algo_file) if algo or algo_file else None,
        parse_rank_count(p) if p else None,
        RuleOptions(engine=engine).rules,
        fit,
        in_place,
        simulated,
        library_of(profile.profile, profile.library),
        calibrated=profile.profile is not None,
    )
    raise typer.Exit(command.run(request, plot, format.value, report))


@app.command(epilog="Example: simctl judge mine.yaml runs.csv --tolerance 0.15")
def judge(
    profile: Annotated[
        str,
        typer.Argument(
            metavar="PROFILE",
            help="A calibrated profile: its name or FILE.yaml.",
            autocompletion=completer(profile_names),
        ),
    ],
    runs: Runs,
    family: Family = None,
    only: Only = None,
    forced: Forced = False,
    in_place: InPlace = False,
    tolerance: Annotated[
        str | None,
        typer.Option(
            help="Exit 1 if the mean error is above this share of the time, like 0.15.",
            show_default=False,
        ),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            help="NCCL's own model beside the profile: nccl, or nccl:GPUs like nccl:hopper."
        ),
    ] = None,
    level: ProfileLevel = None,
    plot: Plot = None,
    report: Report = None,
    format: Output = Format.table,
) -> None:
    """Compare a calibrated profile with measured runs.

    The same kind of model is also fitted to a part of the runs, and compared with the other part.
    """
    from experiments.commands import judge as command
    from experiments.options.values import parse_tolerance

    limit = parse_tolerance(tolerance) if tolerance is not None else inf
    calibrated = _profile_before(runs, profile)
    request = command.Request(
        calibrated, runs, family, only, forced, in_place, limit, compare, level
    )
    raise typer.Exit(command.run(request, plot, format.value, report))


def _profile_before(runs: Sequence[Path], text: str) -> Calibrated:
    """The profile that stands before the runs."""
    from experiments.profiles import find, is_profile

    if not is_profile(text) and any(is_profile(path.name) for path in runs):
        raise InputError(f"{text} comes first: name the profile, then runs")
    try:
        return find(text)
    except InputError as error:
        if is_profile(text):
            raise
        raise InputError(
            f"the first file must be a profile, the others are runs: {error}"
        ) from None


@app.command(epilog="Example: simctl calibrate runs.csv --out mine.yaml")
def calibrate(
    files: Runs,
    family: Family = None,
    topology: Annotated[
        str | None,
        typer.Option(
            help=f"{TOPOLOGY_HELP} [default: nodes with one port a rank and one a node]",
            autocompletion=completer(machine_names, machine_options),
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The name of the profile. [default: that of its file]")
    ] = None,
    library: Annotated[
        str | None,
        typer.Option(
            help="nccl, mpi, fujitsu or gloo. [default: as the files say]",
            autocompletion=completer(library_names),
        ),
    ] = None,
    only: Only = None,
    forced: Forced = False,
    in_place: InPlace = False,
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
    report: Report = None,
    format: Output = Format.table,
) -> None:
    """Fit a machine's links and software to measured runs.

    The fit finds launch times, α and β by link and protocol, and γ. It prints their intervals, and
    the errors on points that it has not seen.
    """
    from experiments.commands import calibrate as command

    machine = MachineOptions(topology).optional_blueprint
    request = command.Request(
        files, machine, family, name, library, only, forced, in_place, links or (), gap
    )
    raise typer.Exit(command.run(request, out, format.value, report))


@app.command(
    epilog="Example: simctl diagnose nccl.log --topology mn5_acc --plot normal.png\n\n"
    "Example: simctl diagnose --job traces/"
)
@with_groups
def diagnose(
    logs: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOG",
            help="nccl-tests, OSU or CSV files, or folders of them; with --job traces.",
        ),
    ],
    job: Job = False,
    machine: MachineOptions = MachineOptions(),
    profile: ProfileName = None,
    level: ProfileLevel = None,
    family: Family = None,
    p: Ranks = None,
    in_place: InPlace = False,
    plot: CurvePlot = None,
    report: Report = None,
    format: Output = Format.table,
) -> None:
    """Say whether a measured curve is normal, and what to try.

    The report has regimes, abnormal sizes and what limits the curve. With --job it says which rank
    of a job was late, what communication was hidden, and the bus bandwidth of each size. The exit
    code is 1 if anything is abnormal.
    """
    if job:
        from experiments.commands import diagnose_job

        unused = {"profile": profile, "level": level, "family": family, "p": p, "plot": plot}
        _check_unused({**unused, "in-place": in_place or None}, machine)
        raise typer.Exit(diagnose_job.run(logs, format.value, report))
    from experiments.commands import diagnose as command
    from experiments.options.values import parse_rank_count
    from experiments.profiles import find

    if level is not None and profile is None:
        raise InputError(f"--level {level:g} goes with --profile: write both")
    request = command.Request(
        logs,
        machine.optional_blueprint,
        find(profile) if profile is not None else None,
        family,
        parse_rank_count(p) if p else None,
        in_place,
        level,
    )
    raise typer.Exit(command.run(request, plot, format.value, report))


@app.command(epilog="Example: simctl report before.json after.json --out report.html")
def report(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Results of --out FILE.json, tables of --out FILE.csv or .parquet, and logs.",
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="The report: FILE.html for a browser, FILE.md for a ticket.")
    ] = Path("report.html"),
) -> None:
    """Make one page of stored results, tables and logs.

    Two files of one kind are shown as before and after, others below each other.
    """
    from experiments.commands import report as command

    raise typer.Exit(command.run(files, out))


def _check_unused(options: dict[str, object], machine: MachineOptions) -> None:
    """Raise InputError if the user gives an option that --job does not take."""
    usual = {**dict.fromkeys(options), **asdict(MachineOptions())}
    for name, value in {**options, **asdict(machine)}.items():
        if value != usual[name]:
            raise InputError(f"--job and --{name} {str(value)[:40]}: leave one of them out")
