"""The profiles that ship, made anew from a folder of published curves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments import output, profiles
from experiments.commands.calibrate import Calibrate
from topologies.errors import InputError

SHIPPED = {
    "mn5_acc": "F01",
    "abci_v100": "F06",
    "fugaku": "F05",
    "h100_cluster": "F14",
    "leonardo_cpu": "F02",
    "lumi_cpu": "F04",
    "mn5_cpu": "F03",
}
"""The first word of the family of curves in the index, by the name of the profile."""


def main(
    folder: Annotated[Path, typer.Argument(help="Published curves with an index.csv.")],
    names: Annotated[list[str] | None, typer.Argument(help="Only these profiles.")] = None,
) -> None:
    """Write profiles over those that ship: all, or those of `names`. Raises InputError for a name
    that none has."""
    chosen = names or list(SHIPPED)
    unknown = [name for name in chosen if name not in SHIPPED]
    if unknown:
        raise InputError(f"{unknown[0][:80]!r} is no profile that ships: {', '.join(SHIPPED)}")
    place = Path(next(iter(profiles.__path__)))
    for name in chosen:
        only = "nccl" if name == "abci_v100" else None
        # The other two are of curves where the library chose the algorithm.
        forced = name not in ("abci_v100", "h100_cluster")
        output.say(f"\n{name}\n")
        Calibrate(
            files=[folder],
            family=SHIPPED[name],
            only=only,
            forced=forced,
            out=place / f"{name}.yaml",
        ).run()
