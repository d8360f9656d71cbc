"""Measured collectives of NCCL on one node, as curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments.measurements import Curve
from experiments.measurements.curve import Point
from experiments.studies.kernel_rows import column, device_of, read
from experiments.studies.measured_rows import Row, grouped
from topologies.columns import plain_rows

COLUMNS = {"machine", "library", "version_in_file", "collective", "dtype", "ranks", "size_bytes"}
FAMILY = "AIC"
"""The family of the curves: AIConfigurator's machines."""
CARDS = ("l40s",)
"""GPUs on cards, without NVSwitches."""


def collectives(folder: Path) -> Iterator[tuple[str, tuple[Curve, ...]]]:
    """The curves of `nccl.csv` on elements of 16 bits, by machine and version of NCCL. Raises
    InputError if there is no such table.

    Times of the same bytes on elements of 8 bits are other measurements, but they say the same.
    """
    path = folder / "nccl.csv"
    rows = [
        row
        for row in read(path, COLUMNS | {"time_us"})
        if (row["library"], row["dtype"]) == ("nccl", "float16")
    ]
    for (device, version), alike in grouped(rows, _set_up).items():
        curves = grouped(alike, lambda row: (row["collective"], row["ranks"])).values()
        name = f"{device} one node, NCCL {version}"
        yield name, tuple(_curve(path, device, version, curve) for curve in curves)


def _set_up(row: Row) -> tuple[str, str]:
    return device_of(row), row["version_in_file"]


def _curve(path: Path, device: str, version: str, rows: Sequence[Row]) -> Curve:
    collective, ranks = rows[0]["collective"], int(rows[0]["ranks"])
    sizes, times = (column(list(rows), name, path) for name in ("size_bytes", "time_us"))
    measured = sorted(plain_rows(sizes, times))
    return Curve(
        collective,
        ranks,
        1,
        tuple(Point(int(size), time * 1e-6) for size, time in measured),
        (),
        source=f"aic_{device}_{version}_{collective}_p{ranks}.csv",
        library=f"NCCL {version}",
        device=device.upper(),
        topology="PCIe" if device in CARDS else "NVSwitch",
        family=FAMILY,
    )
