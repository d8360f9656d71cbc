"""What a newer version of NCCL changes on machines that were measured under two."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from experiments.studies.collective_rows import measured
from experiments.studies.generated_pages import markdown
from topologies.errors import InputError

BANDS = {"up to 64 KiB": 2**16, "up to 1 MiB": 2**20, "up to 16 MiB": 2**24, "above": 2**62}
"""The largest size of each column of the table, in bytes."""


def main(
    folder: Annotated[Path, typer.Argument(help="Measured kernels, with nccl.csv.")],
) -> str:
    """Print the time under the newer version as a multiple of that under the older one, the median
    over ranks and sizes. Of times that were measured again the median counts."""
    table, rows = measured(folder), list[list[str]]()
    table["band"] = pd.cut(table["size_bytes"], [0, *BANDS.values()], labels=[*BANDS])
    point = ["collective", "band", "ranks", "size_bytes", "version_in_file"]
    for machine, alike in table.groupby("device", sort=False):
        logs = np.log(alike.groupby(point, observed=True)["seconds"].median()).unstack()
        for older, newer in pairwise(sorted(logs, key=_numbers)):
            ratios = (
                (logs[newer] - logs[older]).dropna().groupby(["collective", "band"], observed=True)
            )
            for collective, bands in np.exp(ratios.median()).unstack().iterrows():
                cells = bands.map("{:.2f}".format, na_action="ignore").fillna("-")
                names = str(machine).upper(), f"{older} to {newer}", str(collective)
                rows.append([*names, *cells.reindex([*BANDS], fill_value="-")])
    if not rows:
        raise InputError(f"{folder}: no machine has two versions of NCCL")
    return markdown(["machine", "NCCL", "collective", *BANDS], rows)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]
