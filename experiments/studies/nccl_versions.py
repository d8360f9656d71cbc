"""What a newer version of NCCL changes on machines that were measured under two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

from experiments.measurements import Curve
from experiments.studies.collective_rows import collectives
from experiments.studies.generated_pages import markdown
from experiments.studies.measured_rows import grouped
from topologies.errors import InputError

BANDS = {"up to 64 KiB": 2**16, "up to 1 MiB": 2**20, "up to 16 MiB": 2**24, "above": 2**62}
"""The largest size of each column of the table, in bytes."""


def main(
    folder: Annotated[Path, typer.Argument(help="Measured kernels, with nccl.csv.")],
) -> str:
    """Print the time under the newer version as a multiple of that under the older one, the median
    over ranks and sizes."""
    by_machine = grouped([curves for _, curves in collectives(folder)], _machine)
    rows = [
        [machine, f"{_version(older)} to {_version(newer)}", collective, *cells]
        for machine, versions in by_machine.items()
        for older, newer in pairwise(sorted(versions, key=_number))
        for collective, cells in _cells(older, newer)
    ]
    if not rows:
        raise InputError(f"{folder}: no machine has two versions of NCCL")
    return markdown(["machine", "NCCL", "collective", *BANDS], rows)


def _machine(curves: Sequence[Curve]) -> str:
    return curves[0].device


def _version(curves: Sequence[Curve]) -> str:
    return curves[0].library.removeprefix("NCCL ")


def _number(curves: Sequence[Curve]) -> list[int]:
    return [int(part) for part in _version(curves).split(".")]


def _cells(older: Iterable[Curve], newer: Iterable[Curve]) -> Iterator[tuple[str, list[str]]]:
    """A row for each collective: the median of each band."""
    ratios: dict[str, list[tuple[int, float]]] = {}
    times = _times(newer)
    for key, before in _times(older).items():
        if key in times:
            collective, _, size = key
            ratios.setdefault(collective, []).append((size, log(times[key] / before)))
    for collective, points in sorted(ratios.items()):
        least, cells = 0, []
        for most in BANDS.values():
            inside = [ratio for size, ratio in points if least < size <= most]
            cells.append(f"{exp(median(inside)):.2f}" if inside else "-")
            least = most
        yield collective, cells


def _times(curves: Iterable[Curve]) -> Mapping[tuple[str, int, int], float]:
    """Seconds by collective, ranks and size in bytes; of times that were measured again the
    median."""
    runs: dict[tuple[str, int, int], list[float]] = {}
    for curve in curves:
        for point in curve.points:
            key = curve.collective, curve.ranks or 0, point.size
            runs.setdefault(key, []).append(point.time_s)
    return {key: median(seconds) for key, seconds in runs.items()}
