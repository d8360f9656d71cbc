"""Errors of fits on what they have not seen, by family of curves.

A family is what its index says: curves measured on one machine. Curves are fitted jointly, by
library; forced algorithms, where there are some, apart from what libraries chose.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from experiments import output
from experiments.calibration import nccl_comparison
from experiments.calibration.calibrate import (
    LINKED,
    Calibration,
    calibrate,
    error,
    library_of,
    points,
)
from experiments.calibration.libraries import NCCL, Library
from experiments.calibration.observations import Points
from experiments.calibration.transfer import ends, linked, port, transfer
from experiments.measurements import Curve, read_all
from experiments.measurements.setups import contradictions, setups
from experiments.profiles.profile_document import Error
from topologies.errors import InputError
from topologies.units import format_bytes, format_seconds

APART = ("F99",)
"""Families whose curves are each of a machine of its own."""
WORST = 3
COLUMNS = ("sizes", "ranks", "plateau")
_GPU = re.compile(r"\b[ABHV]\d{2,3}\b")


class Group(NamedTuple):
    """Curves that are fitted together, and what they are called."""

    name: str
    library: Library
    curves: tuple[Curve, ...]


def table(folder: Path, families: Sequence[str] = ()) -> str:
    """A row a group: seconds of the fit, mean errors on unseen sizes and ranks, the median on
    plateaus, each of the model, of the model with its discrepancy, of one α and one β a curve, and
    of NCCL's own model, of which nothing is fitted but the bandwidth of links, to the largest size
    that is kept. Then the worst points."""
    judged = (f"{name}: model, with discrepancy, α+β, NCCL's own" for name in COLUMNS)
    rows = [["curves of", "curves", "points", "fit", *judged]]
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
        rows.append(
            [*head, *(_cell(errors.get(name), _own(group, measured, name)) for name in COLUMNS)]
        )
        worst += _worst(group.name, found)
    progress(len(everything), len(everything))
    few = [
        ["from links and two points", "points", "with the links", "without"],
        *_few(folder, everything),
    ]
    return "\n\n".join(output.align(part) for part in (rows, worst, few) if len(part) > 1)


def groups(folder: Path, families: Sequence[str] = ()) -> Iterator[Group]:
    """The curves of a folder with an index, by family and library; forced algorithms apart from
    others, and of others each set-up alone, where the same was measured on several."""
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
        called = f"{name.split()[0]} {kind}{' forced' if forced else ''}"
        parts = {"": members} if forced else setups(members, list(contradictions(members)))
        for part, alike in parts.items():
            yield Group(f"{called} {part}".strip(), library, tuple(alike))


def _cell(one: Error | None, own: float | None) -> str:
    if one is None:
        return "-"
    return "  ".join(
        "-" if value is None else f"{value:.1%}"
        for value in (one.model, one.discrepancy, one.baseline, own)
    )


def _own(group: Group, measured: Points, protocol: str) -> float | None:
    """The error of NCCL's own model on what `protocol` leaves out; none if it has none, or the GPUs
    are not known."""
    if group.library is not NCCL:
        return None
    found = nccl_comparison.held_out(measured, nccl_comparison.generations(group.curves), protocol)
    middle = np.nanmedian if protocol == "plateau" else np.nanmean
    return None if np.isnan(found).all() else float(middle(found))


def _few(folder: Path, everything: Iterable[Group]) -> Iterator[list[str]]:
    """Errors on all other points of a collective of two that were fitted, on machines whose links a
    family measured."""
    curves = read_all([folder]).curves
    for group in everything:
        links = _links(group, curves)
        for collective in (
            dict.fromkeys(curve.collective for curve in group.curves) if links else ()
        ):
            same = [one for one in group.curves if one.collective == collective]
            measured, _ = points(same, group.library, least=LINKED)
            keep = ends(measured)
            errors = []
            for library in (linked(group.library, port(links)), group.library):
                seconds = transfer(measured, library, keep)
                errors.append(float(np.abs(seconds / measured.seconds - 1)[~keep].mean()))
            yield [
                f"{group.name} {collective}",
                str(np.count_nonzero(~keep)),
                *(f"{error:.1%}" for error in errors),
            ]


def _links(group: Group, curves: Iterable[Curve]) -> list[Curve]:
    """Point-to-point curves on the GPUs of a group whose library moves data between GPUs: of its
    family and a "p"."""
    family = f"{group.curves[0].family.split()[0]}p"
    words = set(_GPU.findall(" ".join(curve.machine for curve in group.curves)))
    return [
        curve
        for curve in curves
        if curve.family.split()[0] == family and group.library is NCCL and "GPU" in curve.machine
        if words & set(_GPU.findall(curve.machine))
    ]


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
