"""`simctl algos`: parsing only."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from experiments.cli.completion import algorithm_names, algorithm_options, completer
from experiments.cli.groups import with_groups
from experiments.cli.machine_options import MachineOptions
from experiments.cli.options import AlgorithmFile, CollectiveName, Format, Output
from experiments.cli.plain_values import PlainGroup

app = typer.Typer(
    cls=PlainGroup,
    invoke_without_command=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


USUAL_RANKS = 8


class Program(StrEnum):
    """The formats of other tools."""

    msccl = "msccl"
    goal = "goal"


@app.callback()
def algos(
    context: typer.Context, collective: CollectiveName = None, format: Output = Format.table
) -> None:
    """List the algorithms with formula, assumptions and source."""
    from experiments.commands import algos as command

    if context.invoked_subcommand is None:
        command.run(collective, format.value)


@app.command("import", epilog="Example: simctl algos import allreduce.xml")
def algos_import(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="MSCCL's XML, MSCCL++'s JSON, GOAL or Python."),
    ],
    p: Annotated[
        str | None, typer.Option("--p", help="The number of ranks.  [default: the file's, or 8]")
    ] = None,
    format: Output = Format.table,
) -> None:
    """Read an algorithm from a file, and prove it.

    Run it with simctl run --algo-file FILE.
    """
    from experiments.cli.values import only_rank_count, parse_algorithm, parse_rank_count
    from experiments.commands import algos as command

    algorithm = parse_algorithm(None, file)
    ranks = parse_rank_count(p) if p is not None else only_rank_count(algorithm) or USUAL_RANKS
    command.import_file(file, algorithm, ranks, format.value)


@app.command("export", epilog="Example: simctl algos export ring --p 8 --to msccl --out ring.xml")
@with_groups
def algos_export(
    algo: Annotated[
        str | None,
        typer.Argument(
            metavar="[ALGO]",
            help="One algorithm: see `simctl algos`.",
            autocompletion=completer(algorithm_names, algorithm_options),
        ),
    ] = None,
    algo_file: AlgorithmFile = None,
    p: Annotated[
        str | None,
        typer.Option("--p", help="The number of ranks.  [default: the machine's, or 8]"),
    ] = None,
    size: Annotated[str, typer.Option(help="V of the messages in GOAL, like 1GiB.")] = "64MiB",
    to: Annotated[Program, typer.Option(help="The format.")] = Program.msccl,
    machine: MachineOptions = MachineOptions(),
    out: Annotated[Path | None, typer.Option(help="Write FILE.  [default: print it]")] = None,
) -> None:
    """Write an algorithm as a program for another tool."""
    from experiments.cli.values import (
        only_rank_count,
        parse_algorithm,
        parse_rank_count,
        usual_ranks,
    )
    from experiments.commands import algos as command
    from topologies.units import parse_bytes

    algorithm = parse_algorithm(algo, algo_file)
    blueprint = machine.optional_blueprint
    if p is None and blueprint is not None:
        p = usual_ranks(blueprint, [algorithm], str(USUAL_RANKS))
    ranks = parse_rank_count(p or str(only_rank_count(algorithm) or USUAL_RANKS))
    request = command.Export(algorithm, algo_file, ranks, parse_bytes(size), blueprint)
    command.export(request, to.value, out)
