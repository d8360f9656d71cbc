"""`simctl animate`: parsing only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from experiments.cli.groups import with_groups
from experiments.cli.machine_options import MachineOptions, RuleOptions
from experiments.cli.options import Algorithm, AlgorithmFile, Size
from experiments.cli.pattern_options import PatternOptions

app = typer.Typer()
USUAL_RANKS = "4"
"""Ranks of a shape, if the user does not say."""


@app.command(epilog="Example: simctl animate --algo ring --p 4 --out ring.html")
@with_groups
def animate(
    out: Annotated[
        Path,
        typer.Option(help="FILE.html, FILE.gif, or FOLDER for an SVG of each step."),
    ],
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
    machine: MachineOptions = MachineOptions("ring"),
    rules: RuleOptions = RuleOptions(),
) -> None:
    """Show step by step which rank sends what to whom.

    A page has controls, a GIF is for slides. Of a wrong algorithm the animation stops where the
    first wrong value is made, and the exit code is 1.
    """
    from experiments.cli.values import named, parse_algorithm, parse_rank_count, usual_ranks
    from experiments.commands import animate as command
    from topologies.units import parse_bytes

    algorithm = pattern.of(parse_algorithm(algo, algo_file))
    p = pattern.ranks(p, lambda: usual_ranks(machine.blueprint, [algorithm], USUAL_RANKS))
    size = pattern.size(size)
    request = command.Request(
        algorithm,
        parse_rank_count(p),
        parse_bytes(size),
        replace(machine.blueprint, force=rules.force),
        rules.rules,
        {
            **named(algo, algo_file),
            "p": p,
            "size": size,
            **machine.parameters,
            **rules.parameters,
            **pattern.parameters,
        },
    )
    raise typer.Exit(command.run(request, out))
