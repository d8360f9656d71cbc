"""The commands of `simctl` that list what it knows: parsing only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments.options.completion import completer, pipeline_names
from experiments.options.options import Format, Output, Plot

app = typer.Typer()


@app.command(epilog="Example: simctl pipelines gpipe,1f1b,zb_h1 --weights 500us --plot gpipe.png")
def pipelines(
    orders: Annotated[
        str | None,
        typer.Argument(
            metavar="ORDERS",
            help="Orders of pipelines, comma-separated, each with its options; or FILE.csv.  "
            "[default: all]",
            autocompletion=completer(pipeline_names),
            show_default=False,
        ),
    ] = None,
    devices: Annotated[int | None, typer.Option(help="Devices.  [default: 8]", min=1)] = None,
    micro_batches: Annotated[
        int | None, typer.Option(help="Micro-batches of a step.  [default: 16]", min=1)
    ] = None,
    forward: Annotated[str, typer.Option(help="A forward through all stages of a device.")] = "1ms",
    inputs: Annotated[str, typer.Option(help="Its backward for the inputs.")] = "1ms",
    weights: Annotated[str, typer.Option(help="Its backward for the weights.")] = "1ms",
    transfer: Annotated[str, typer.Option(help="A transfer to the next device.")] = "0s",
    blocking: Annotated[
        bool, typer.Option("--blocking", help="A device computes nothing while it sends.")
    ] = False,
    kept: Annotated[
        int,
        typer.Option(
            help="Percent of the activations that the backward for weights needs.", min=0, max=100
        ),
    ] = 50,
    plot: Plot = None,
    actions: Annotated[
        Path | None, typer.Option(help="Write the actions of one order, as PyTorch does: FILE.csv.")
    ] = None,
    format: Output = Format.table,
) -> None:
    """Compare orders of pipelines.

    Idle time and activations are those of devices with equal work.
    """
    from experiments.commands import pipelines as command
    from simulator.parallel.pipeline_times import StageTimes
    from topologies.units import parse_seconds

    times = StageTimes(
        parse_seconds(forward),
        parse_seconds(inputs),
        parse_seconds(weights),
        parse_seconds(transfer),
        blocking,
    )
    request = command.Request(orders, devices, micro_batches, times, kept, plot, actions)
    command.run(request, format.value)


@app.command(epilog="Example: simctl doctor")
def doctor() -> None:
    """Print versions, folders and where compiled code is kept."""
    from experiments.commands import doctor as command

    command.run()
