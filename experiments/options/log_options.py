"""The options of commands that read measured runs."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.options.options import Level, Options, ProfileName, ReportOptions, argument, option
from experiments.output import counted
from topologies.errors import InputError

if TYPE_CHECKING:
    from experiments.measurements import Curve

Family = Annotated[
    str | None, typer.Option(help="Read only this series of a folder with an index.")
]
InPlace = Annotated[bool, typer.Option("--in-place", help="Use the in-place times.")]
LogRanks = Annotated[
    str | None,
    typer.Option("--p", "--gpus", help="The number of ranks, if the files do not contain it."),
]
CurvePlot = Annotated[
    Path | None,
    typer.Option(
        help="Draw FILE.png, .svg or .pdf; with several curves one file for each.", writable=True
    ),
]


def ranks_of(curve: Curve, ranks: int | None) -> int | None:
    """The number of ranks of a curve, or that of --p; None if neither is known. Raises InputError
    if they contradict."""
    if ranks and curve.ranks and ranks != curve.ranks:
        raise InputError(
            f"{curve.source} has {counted(curve.ranks, 'rank')}: --p {ranks} contradicts it, leave "
            f"it out"
        )
    return ranks or curve.ranks


@dataclass(frozen=True, kw_only=True)
class RunOptions(Options):
    """Measured runs, and which of their curves count."""

    family: Family = None
    only: str | None = option(
        "Read only files with these words in their names.", show_default=False
    )
    forced: bool = option("Use only curves whose algorithm was forced.", "--forced", default=False)
    in_place: InPlace = False


@dataclass(frozen=True, kw_only=True)
class JudgingOptions(RunOptions, ReportOptions):
    """A calibrated profile, and the runs to judge it by."""

    logs: list[Path] = argument(
        "LOG", "nccl-tests, OSU or CSV files (size_bytes, time_us), or folders.", default=MISSING
    )
    profile: ProfileName = None
    level: Level = None
    plot: CurvePlot = None
    held_out: bool = option(
        "Judge --profile by the runs: its errors on each curve, and those of the same "
        "kind of model on points that its fit has not seen.",
        "--held-out",
        default=False,
    )
    tolerance: str | None = option(
        "With --held-out: exit 1 if the mean error is above this share of the time, like 0.15.",
    )
    compare: str | None = option(
        "With --held-out: NCCL's own model beside the profile: nccl, or nccl:GPUs like nccl:hopper."
    )
