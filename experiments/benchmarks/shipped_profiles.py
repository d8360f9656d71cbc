"""The profiles that ship, made anew from a folder of published curves with an index."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from experiments import output, profiles
from experiments.commands.calibrate import Calibrate
from topologies.errors import InputError


class Shipped(NamedTuple):
    """Which curves make a profile."""

    family: str
    """The first word of their family in the index."""
    only: str | None = None
    """A word in the names of their files."""
    forced: bool = True
    """Whether only curves with a forced algorithm count."""


SHIPPED = {
    "mn5_acc": Shipped("F01"),
    "abci_v100": Shipped("F06", "nccl", forced=False),
    "fugaku": Shipped("F05"),
    "h100_cluster": Shipped("F14", forced=False),
    "leonardo_cpu": Shipped("F02"),
    "lumi_cpu": Shipped("F04"),
    "mn5_cpu": Shipped("F03"),
}
"""By the name of the profile."""


def make(folder: Path, names: list[str]) -> None:
    """Write profiles over those that ship: all, or those of `names`. Raises InputError for a name
    that none has."""
    unknown = [name for name in names if name not in SHIPPED]
    if unknown:
        raise InputError(f"{unknown[0][:80]!r} is no profile that ships: {', '.join(SHIPPED)}")
    place = Path(next(iter(profiles.__path__)))
    for name in names or SHIPPED:
        made = SHIPPED[name]
        request = Calibrate(
            files=[folder],
            family=made.family,
            only=made.only,
            forced=made.forced,
            out=place / f"{name}.yaml",
        )
        output.say(f"\n{name}\n")
        request.run()
