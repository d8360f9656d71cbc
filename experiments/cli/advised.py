"""The command of `simctl` that recommends: parsing only."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from experiments.options.completion import (
    algorithm_names,
    algorithm_options,
    collective_names,
    completer,
)
from experiments.options.groups import with_groups
from experiments.options.machine_options import MachineOptions, RuleOptions, library_of
from experiments.options.options import (
    Format,
    Output,
    Plot,
    Report,
)
from experiments.options.profile_options import ProfileOptions
from topologies.errors import InputError

app = typer.Typer()
USUAL_SIZES = "1KiB..1GiB:x4"


@app.command(
    epilog="Example: simctl recommend --topology hgx_h100:nodes=2 --collective all_reduce "
    "--nccl-tuner tuner.csv"
)
@with_groups
def recommend(
    algo: Annotated[
        str | None,
        typer.Option(
            help="Choose from these algorithms, comma-separated.  [default: all]",
            autocompletion=completer(algorithm_names, algorithm_options),
        ),
    ] = None,
    collective: Annotated[
        str | None,
        typer.Option(
            help="The collective, like all_gather.  [default: that of --algo; all_reduce]",
            autocompletion=completer(collective_names),
        ),
    ] = None,
    p: Annotated[
        str | None,
        typer.Option(
            "--p",
            help="Numbers of ranks: 8, 8..128:x2. Several make a map.  [default: all of the "
            "machine; 8 of a shape]",
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(help=f"Sizes as nccl-tests counts them.  [default: {USUAL_SIZES}]"),
    ] = None,
    machine: MachineOptions = MachineOptions(),
    rules: RuleOptions = RuleOptions(),
    profile: ProfileOptions = ProfileOptions(),
    explain: Annotated[
        str | None, typer.Option(help="Compare all algorithms at this one size, like 64KiB.")
    ] = None,
    plot: Plot = None,
    nccl_tuner: Annotated[
        Path | None,
        typer.Option(help="Write FILE.csv or .conf for the example tuner plugin of NCCL."),
    ] = None,
    report: Report = None,
    format: Output = Format.table,
) -> None:
    """Say which algorithm is best at each size, and why.

    The table has the algorithm, its protocol, channels and messages, how far it is from the best
    lower bound, and what it gains over the default of the library. With several numbers of ranks,
    the table is a map: the winner at each size and number, and its lead over the second.
    """
    from experiments.calibration import library_choices
    from experiments.calibration.libraries import NCCL
    from experiments.commands import recommend as command
    from experiments.options.values import parse_algorithms, parse_ranks, usual_ranks
    from experiments.simulations.recommendation import Question
    from simulator.collectives import of_collective
    from topologies.units import parse_bytes, parse_sizes

    if explain is not None:
        options = {"--size": size, "--plot": plot, "--nccl-tuner": nccl_tuner}
        for name, value in options.items():
            if value is not None:
                raise InputError(f"--explain {explain} and {name} {value}: leave one of them out")
    machine, calibrated = profile.calibrated(machine, rules)
    algorithms = tuple(parse_algorithms(algo)) if algo else ()
    usual = algorithms[0].collective.name if algorithms else "all_reduce"
    listed = of_collective(collective or usual)
    name = listed[0].collective.name
    if other := next((each for each in algorithms if each.collective.name != name), None):
        raise InputError(f"--algo {other.name}: it is {other.collective.name}, expected {name}")
    blueprint = replace(machine.blueprint, force=rules.force)
    ranks = parse_ranks(usual_ranks(blueprint, listed, "8") if p is None else p)
    known = library_of(profile.profile, profile.library)
    if nccl_tuner is not None and known not in (None, NCCL):
        raise InputError(f"--nccl-tuner {nccl_tuner}: it is NCCL's, and the library is not")
    runs = calibrated.runs if calibrated else None
    if nccl_tuner is not None:
        runs = partial(library_choices.runs, NCCL.on(blueprint))
    question = Question(name, ranks[0], blueprint.build, rules.rules, calibrated, runs, algorithms)
    sizes = sorted(parse_sizes(size or USUAL_SIZES))
    if len(ranks) > 1 and explain is not None:
        raise InputError(f"--explain {explain}: give one number of ranks in --p, not {p}")
    files = (plot, nccl_tuner, report)
    point = None if explain is None else parse_bytes(explain)
    request = command.Request(question, ranks, sizes, blueprint, point, *files)
    raise typer.Exit(command.run(request, format.value))
