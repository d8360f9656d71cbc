"""`simctl topo`: parsing only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from experiments.cli.completion import completer, machine_names, machine_options
from experiments.cli.machine_options import TOPOLOGY_HELP
from experiments.cli.options import Force, Format, Output
from experiments.cli.plain_values import PlainGroup

app = typer.Typer(
    cls=PlainGroup,
    help="List, show and import machines.",
    invoke_without_command=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


@app.callback()
def _topo(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list", epilog="Example: simctl topo list --format json")
def topo_list(format: Output = Format.table) -> None:
    """List the shapes and the machines with their options."""
    from experiments.commands import topo as command

    command.show_list(format.value)


@app.command("show", epilog="Example: simctl topo show hgx_h100:nodes=2 --png hgx.png")
def topo_show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE",
            help=TOPOLOGY_HELP,
            autocompletion=completer(machine_names, machine_options),
        ),
    ],
    p: Annotated[
        str | None, typer.Option("--p", help="The number of ranks.  [default: all; 8 of a shape]")
    ] = None,
    png: Annotated[
        Path | None,
        typer.Option("--png", "--plot", help="Draw the machine: FILE.png, .svg or .pdf."),
    ] = None,
    format: Output = Format.table,
    force: Force = False,
) -> None:
    """Show the links, distances, rings and bounds of a machine."""
    from experiments.cli.values import parse_rank_count
    from experiments.commands import topo as command
    from topologies.catalogue import find

    machine = replace(find(name), force=force)
    command.show(machine, parse_rank_count(p) if p else None, png, format.value)


@app.command("import", epilog="Example: simctl topo import topo.txt --out machine.yaml")
def topo_import(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NAME",
            help="nvidia-smi topo -m, NCCL or RCCL XML, GraphML, YAML, JSON; or NAME.",
            autocompletion=completer(machine_names, machine_options),
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Write the machine to FILE.yaml, .yml, .json or .graphml.")
    ],
    force: Force = False,
) -> None:
    """Write a machine of another tool, or one by name, to a file.

    You can change the file and use it as --topology.
    """
    from experiments.commands import topo as command
    from topologies.catalogue import find

    command.import_file(replace(find(source), force=force), out)
