"""The options that several commands take, and what completes them on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


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


def completer(names: Callable[[], list[str]]) -> Callable[[str], list[str]]:
    """Complete the last of a comma-separated list."""

    def complete(incomplete: str) -> list[str]:
        head, comma, tail = incomplete.rpartition(",")
        return [f"{head}{comma}{name}" for name in names() if name.startswith(tail)]

    return complete


def algorithm_names() -> list[str]:
    from simulator.collectives import algorithms

    return list(algorithms())


def measured_names() -> list[str]:
    from experiments.measure.patterns import PROMISES

    return [*PROMISES, *algorithm_names()]


def machine_names() -> list[str]:
    from topologies.machines import MACHINES
    from topologies.shapes import SHAPES

    return [*SHAPES, *MACHINES]


def placement_orders() -> list[str]:
    """The placements that have a name."""
    from topologies.placement import ORDERS

    return list(ORDERS)


def backend_names() -> list[str]:
    from experiments.measure.points import BACKENDS

    return list(BACKENDS)


def library_names() -> list[str]:
    from experiments.calibration.libraries import LIBRARIES

    return list(LIBRARIES)


def strategy_names() -> list[str]:
    from simulator.training import FILES

    return list(FILES)


def profile_names() -> list[str]:
    """The profiles that are shipped."""
    from experiments.profiles import names

    return names()


def model_names() -> list[str]:
    from experiments.models.model_catalogue import MODELS

    return list(MODELS)


Algo = Annotated[
    str,
    typer.Option(
        "--algo",
        help="Algorithms, comma-separated: see `simctl algos`.",
        autocompletion=completer(algorithm_names),
    ),
]
TOPOLOGY_HELP = (
    "NAME or FILE, with options: star, hgx_h100:nodes=2, topo.txt. See `simctl topo list`."
)
Topology = Annotated[
    str, typer.Option("--topology", help=TOPOLOGY_HELP, autocompletion=completer(machine_names))
]
Bandwidth = Annotated[
    str | None, typer.Option(help="β of a shape's links, like 400Gbit/s.  [default: 50GB/s]")
]
Latency = Annotated[
    str | None, typer.Option(help="α of a shape's links, like 2us.  [default: 1us]")
]
Gap = Annotated[
    str | None, typer.Option(help="g of a shape's links: time a message needs besides its bytes.")
]
Placement = Annotated[
    str,
    typer.Option(
        help="Ranks by node, round-robin, or the places listed: 0,8,1,9.",
        autocompletion=completer(placement_orders),
    ),
]
Sharing = Annotated[
    SharingName, typer.Option(help="How transfers share a link: in turn, or max-min fairly.")
]
StoreAndForward = Annotated[
    bool, typer.Option("--store-and-forward", help="Switches forward whole messages.")
]
Reduction = Annotated[
    str | None,
    typer.Option(
        help="1/γ: how fast a rank merges what arrives, like 1TB/s. [default: infinitely]"
    ),
]
Engines = Annotated[
    EngineName, typer.Option(help="auto: SimPy for little work, compiled for much. Same results.")
]
Output = Annotated[Format, typer.Option("--format", help="What is printed on stdout.")]
ProfileName = Annotated[
    str | None,
    typer.Option(
        "--profile",
        help="A calibrated machine, by name or FILE.yaml: its protocols are simulated, the "
        "fastest is kept.",
        autocompletion=completer(profile_names),
        show_default=False,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(help="Write the table to this CSV file, with how it was made beside it."),
]
Plot = Annotated[Path | None, typer.Option(help="Draw a picture: FILE.png, .svg or .pdf.")]
