"""The commands of `simctl` that list what it knows: parsing only."""

from __future__ import annotations

import typer

from experiments.cli.options import Format, Output

app = typer.Typer()


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


@app.command(epilog="Example: simctl doctor")
def doctor() -> None:
    """Print versions, folders and where compiled code is kept."""
    from experiments.commands import doctor as command

    command.run()
