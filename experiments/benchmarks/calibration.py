"""Errors of fits on what they have not seen, by family of curves.

A family is what its index says: curves measured on one machine. Curves are fitted jointly, by library; forced
algorithms, where there are some, apart from what libraries chose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from experiments import output
from experiments.calibration.calibrate import Calibration, calibrate, error, library_of, points
from experiments.calibration.libraries import Library
from experiments.measurements import Curve, read_all
from experiments.profiles.document import Error
from topologies.errors import InputError
from topologies.units import format_bytes, format_seconds

APART = ("F99",)
"""Families whose curves are each of a machine of its own."""
WORST = 3
COLUMNS = ("sizes", "ranks", "plateau")


class Group(NamedTuple):
    """Curves that are fitted together, and what they are called."""

    name: str
    library: Library
    curves: tuple[Curve, ...]


def table(folder: Path, families: Sequence[str] = ()) -> str:
    """A row a group: seconds of the fit, mean errors on unseen sizes and ranks, the median on plateaus, each of the
    model, of the model with its discrepancy and of one α and one β a curve. Then the worst points."""
    rows = [["curves of", "curves", "points", "fit", *(f"{name}: model, with discrepancy, α+β" for name in COLUMNS)]]
    worst = [["worst unseen sizes", "", "measured", "error", "with discrepancy"]]
    everything, progress = list(groups(folder, families)), output.Progress("groups")
    for done, group in enumerate(everything):
        progress(done, len(everything))
        try:
            measured, skipped = points(group.curves, group.library)
        except InputError as refused:
            output.note(f"{group.name}: {refused}")
            continue
        for line in skipped:
            output.note(f"{group.name}: {line}")
        begin = perf_counter()
        found = calibrate(measured, group.library)
        seconds = perf_counter() - begin
        errors = {one.protocol: error(one) for one in found.held_out}
        head = [group.name, str(len(measured.curves)), str(len(measured)), format_seconds(seconds)]
        rows.append([*head, *(_cell(errors.get(name)) for name in COLUMNS)])
        worst += _worst(group.name, found)
    progress(len(everything), len(everything))
    return f"{output.align(rows)}\n\n{output.align(worst)}"


def groups(folder: Path, families: Sequence[str] = ()) -> Iterator[Group]:
    """The curves of a folder with an index, by family and library; forced algorithms apart from others."""
    curves = read_all([folder]).curves
    names = sorted({curve.family for curve in curves})
    for family in names:
        if families and not any(family.split()[0] == wanted for wanted in families):
            continue
        chosen = [curve for curve in curves if curve.family == family]
        if family.split()[0] in APART:
            for curve in chosen:
                yield from _by_library(Path(curve.source).stem, [curve])
        else:
            yield from _by_library(family, chosen)


def _by_library(name: str, curves: Iterable[Curve]) -> Iterator[Group]:
    found: dict[tuple[str, bool], tuple[Library, list[Curve]]] = {}
    for curve in curves:
        try:
            library = library_of([curve])
        except InputError as refused:
            output.note(f"{curve.source}: {refused}")
            continue
        key = library.name, bool(curve.algorithm)
        found.setdefault(key, (library, []))[1].append(curve)
    for (kind, forced), (library, members) in found.items():
        yield Group(f"{name.split()[0]} {kind}{' forced' if forced else ''}", library, tuple(members))


def _cell(one: Error | None) -> str:
    if one is None:
        return "-"
    return "  ".join("-" if value is None else f"{value:.1%}" for value in (one.model, one.discrepancy, one.baseline))


def _worst(name: str, found: Calibration) -> list[list[str]]:
    sizes = next((one for one in found.held_out if one.protocol == "sizes"), None)
    if sizes is None:
        return []
    measured, rows = found.fit.model.points, []
    for k in np.argsort(-np.nan_to_num(sizes.model))[:WORST]:
        curve = measured.curves[measured.curve[k]]
        what = f"{name}: {Path(curve.name).stem}"
        shown = [format_bytes(float(measured.size[k])), format_seconds(float(measured.seconds[k]))]
        rows.append([what, *shown, f"{sizes.model[k]:.0%}", f"{sizes.discrepancy[k]:.0%}"])
    return rows
