"""Errors of fits on unseen points, by family of curves.

A family is a series of an index: curves of one machine. Curves of one library are fitted jointly.
Curves with forced algorithms are fitted separately from curves of the library's choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from experiments import output
from experiments.benchmarks import calibration_page
from experiments.calibration import nccl_comparison
from experiments.calibration.calibrated_profile import (
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
from topologies.errors import InputError
from topologies.units import format_bytes, format_seconds

APART = "single logs"
"""The family whose curves are each of another machine."""
WORST = 3
COLUMNS = ("sizes", "ranks", "plateau")
JUDGED = ("model", "discrepancy", "line", "nccl")
"""What is judged: the model, with its discrepancy, one α and one β a curve, NCCL's own model."""
_GPU = re.compile(r"\b[ABHV]\d{2,3}\b")


class Group(NamedTuple):
    """Curves that are fitted together, and their name."""

    name: str
    library: Library
    curves: tuple[Curve, ...]


class Judged(NamedTuple):
    """A fitted group, its errors on points that were left out, and how long the fit took."""

    group: Group
    points: Points
    calibration: Calibration
    seconds: float

    def errors(self) -> dict[str, tuple[float | None, ...]]:
        """The errors of `JUDGED`, by what was left out."""
        errors = {fold.protocol: error(fold) for fold in self.calibration.held_out}
        return {
            name: (fold.model, fold.discrepancy, fold.baseline, _own(self.group, self.points, name))
            for name, fold in errors.items()
            if name in COLUMNS
        }


class TwoPoints(NamedTuple):
    """Mean errors on all other points of a collective of which two points were fitted."""

    group: Group
    collective: str
    points: int
    with_links: float
    without_links: float


def table(folder: Path, families: Sequence[str] = (), out: Path | None = None) -> str:
    """A row for each group, then the worst points. `out` is a folder for the csv files of the
    results page.

    A row has the seconds of the fit, the mean errors on unseen sizes and ranks, and the median
    error on plateaus. Each error has four values: of the model, of the model with its discrepancy,
    of one α and one β a curve, and of NCCL's own model. In NCCL's own model only the bandwidth of
    links is fitted, to the largest size that is kept.
    """
    columns = (f"{name}: model, with discrepancy, α+β, NCCL's own" for name in COLUMNS)
    rows = [["curves of", "curves", "points", "fit", *columns]]
    worst = [["worst unseen sizes", "", "measured", "error", "with discrepancy"]]
    pair_rows = [["from links and two points", "points", "with the links", "without"]]
    all_groups = list(groups(folder, families))
    judged, pairs = list(_judged(all_groups)), list(_few(folder, all_groups))
    for group in judged:
        counts = (
            str(len(group.points.curves)),
            str(len(group.points)),
            format_seconds(group.seconds),
        )
        errors = group.errors()
        rows.append([group.group.name, *counts, *(_cell(errors.get(name)) for name in COLUMNS)])
        worst += _worst(group.group.name, group.calibration)
    for pair in pairs:
        shares = (f"{pair.with_links:.1%}", f"{pair.without_links:.1%}")
        pair_rows.append([f"{pair.group.name} {pair.collective}", str(pair.points), *shares])
    if out is not None:
        calibration_page.write(
            out, [_record(group) for group in judged], [_pair_record(group) for group in pairs]
        )
    return "\n\n".join(output.align(part) for part in (rows, worst, pair_rows) if len(part) > 1)


def _judged(all_groups: Sequence[Group]) -> Iterator[Judged]:
    """Each group that can be fitted, with its fit. Notes name the other groups, and why."""
    progress = output.Progress("groups")
    for done, group in enumerate(all_groups):
        progress(done, len(all_groups))
        try:
            measured, skipped = points(group.curves, group.library)
        except InputError as refused:
            output.note(f"{group.name}: {refused}")
            continue
        for line in skipped:
            output.note(f"{group.name}: {line}")
        begin = perf_counter()
        calibration = calibrate(measured, group.library)
        yield Judged(group, measured, calibration, perf_counter() - begin)
    progress(len(all_groups), len(all_groups))


def _record(judged: Judged) -> output.Record:
    errors = judged.errors()
    record: dict[str, output.Value] = {
        "group": judged.group.name,
        "curves": len(judged.points.curves),
        "points": len(judged.points),
        "fit_s": judged.seconds,
    }
    for name in COLUMNS:
        values = errors.get(name, [None] * len(JUDGED))
        record |= {f"{name}_{figure}": value for figure, value in zip(JUDGED, values, strict=True)}
    return record


def _pair_record(pair: TwoPoints) -> output.Record:
    return {
        "group": pair.group.name,
        "collective": pair.collective,
        "points": pair.points,
        "with_links": pair.with_links,
        "without_links": pair.without_links,
    }


def groups(folder: Path, families: Sequence[str] = ()) -> Iterator[Group]:
    """The curves of a folder with an index, by family and library.

    Forced algorithms are separate from others. If several set-ups measured the same, each set-up is
    a group of its own.
    """
    curves = read_all([folder]).curves
    names = sorted({curve.family for curve in curves})
    for family in names:
        number, _, words = family.partition(" ")
        if families and number not in families:
            continue
        chosen = [curve for curve in curves if curve.family == family]
        if words == APART:
            for curve in chosen:
                yield from _by_library(Path(curve.source).stem, [curve])
        else:
            yield from _by_library(words, chosen)


def _by_library(name: str, curves: Iterable[Curve]) -> Iterator[Group]:
    members_by_library: dict[tuple[str, bool], tuple[Library, list[Curve]]] = {}
    for curve in curves:
        try:
            library = library_of([curve])
        except InputError as refused:
            output.note(f"{curve.source}: {refused}")
            continue
        key = library.name, bool(curve.algorithm)
        members_by_library.setdefault(key, (library, []))[1].append(curve)
    for (kind, forced), (library, members) in members_by_library.items():
        called = f"{name}: {kind}{' forced' if forced else ''}"
        parts = {"": members} if forced else setups(members, list(contradictions(members)))
        for part, alike in parts.items():
            yield Group(f"{called} {part}".strip(), library, tuple(alike))


def _cell(errors: Sequence[float | None] | None) -> str:
    if errors is None:
        return "-"
    return "  ".join("-" if value is None else f"{value:.1%}" for value in errors)


def _own(group: Group, measured: Points, protocol: str) -> float | None:
    """The error of NCCL's own model on the points that `protocol` leaves out. None if it has none,
    or the GPUs are unknown."""
    if group.library is not NCCL:
        return None
    errors = nccl_comparison.held_out(measured, nccl_comparison.generations(group.curves), protocol)
    middle = np.nanmedian if protocol == "plateau" else np.nanmean
    return None if np.isnan(errors).all() else float(middle(errors))


def _few(folder: Path, all_groups: Iterable[Group]) -> Iterator[TwoPoints]:
    """Errors of fits of links and two points, on machines whose links a family measured."""
    curves = read_all([folder]).curves
    for group in all_groups:
        links = _links(group, curves)
        for collective in (
            dict.fromkeys(curve.collective for curve in group.curves) if links else ()
        ):
            same = [curve for curve in group.curves if curve.collective == collective]
            measured, _ = points(same, group.library, least=LINKED)
            keep = ends(measured)
            errors = []
            for library in (linked(group.library, port(links)), group.library):
                seconds = transfer(measured, library, keep)
                errors.append(float(np.abs(seconds / measured.seconds - 1)[~keep].mean()))
            yield TwoPoints(group, collective, int(np.count_nonzero(~keep)), *errors)


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


def _worst(name: str, calibration: Calibration) -> list[list[str]]:
    sizes = next((fold for fold in calibration.held_out if fold.protocol == "sizes"), None)
    if sizes is None:
        return []
    measured, rows = calibration.fit.model.points, []
    for k in np.argsort(-np.nan_to_num(sizes.model))[:WORST]:
        curve = measured.curves[measured.curve[k]]
        label = f"{name}: {Path(curve.name).stem}"
        cells = [format_bytes(float(measured.size[k])), format_seconds(float(measured.seconds[k]))]
        rows.append([label, *cells, f"{sizes.model[k]:.0%}", f"{sizes.discrepancy[k]:.0%}"])
    return rows
