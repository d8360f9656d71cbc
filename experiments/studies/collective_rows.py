"""Measured collectives of NCCL on one node, as curves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from experiments.measurements import Curve
from experiments.measurements.curve import Point
from experiments.studies.kernel_rows import numbers, read
from topologies.columns import plain_rows

COLUMNS = {"machine", "library", "version_in_file", "collective", "dtype", "ranks", "size_bytes"}
FAMILY = "AIC"
"""The family of the curves: AIConfigurator's machines."""
CARDS = ("l40s",)
"""GPUs on cards, without NVSwitches."""


def measured(folder: Path) -> pd.DataFrame:
    """The rows of `nccl.csv` on elements of 16 bits, with numbers of ranks, bytes and seconds.
    Raises InputError if there is no such table.

    Times of the same bytes on elements of 8 bits are other measurements, but they say the same.
    """
    table = read(folder / "nccl.csv", COLUMNS | {"time_us"})
    table = table[(table["library"] == "nccl") & (table["dtype"] == "float16")]
    sizes = numbers(table, "ranks", "size_bytes").astype(int)
    seconds = numbers(table, "time_us")["time_us"] * 1e-6
    return table.assign(ranks=sizes["ranks"], size_bytes=sizes["size_bytes"], seconds=seconds)


def collectives(folder: Path) -> Iterator[tuple[str, tuple[Curve, ...]]]:
    """The curves of measured collectives, by machine and version of NCCL."""
    for _, alike in measured(folder).groupby(["device", "version_in_file"], sort=False):
        curves = [_curve(rows) for _, rows in alike.groupby(["collective", "ranks"], sort=False)]
        yield f"{curves[0].device.lower()} one node, {curves[0].library}", tuple(curves)


def _curve(rows: pd.DataFrame) -> Curve:
    names = ["device", "version_in_file", "collective", "ranks"]
    device, version, collective, ranks = rows.iloc[0][names]
    points = plain_rows(rows["size_bytes"].to_numpy(), rows["seconds"].to_numpy())
    return Curve(
        collective,
        int(ranks),
        1,
        tuple(Point(*pair) for pair in sorted(points)),
        (),
        source=f"aic_{device}_{version}_{collective}_p{ranks}.csv",
        library=f"NCCL {version}",
        device=device.upper(),
        topology="PCIe" if device in CARDS else "NVSwitch",
        family=FAMILY,
    )
