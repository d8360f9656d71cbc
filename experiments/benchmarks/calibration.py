"""Errors of fits on unseen points, by family of curves.

A family is a series of an index: curves of one machine. Curves of one library are fitted jointly.
Curves with forced algorithms are fitted separately from curves of the library's choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple, cast

import numpy as np

from experiments import output
from experiments.benchmarks import calibration_page
from experiments.benchmarks.interval_coverage import Coverage, Lefts, coverage, learnt
from experiments.benchmarks.table_rows import grouped
from experiments.benchmarks.worst_points import curve_of, reason
from experiments.calibration import nccl_comparison
from experiments.calibration.calibrated_profile import error, library_of, points
from experiments.calibration.fit import explore
from experiments.calibration.held_out import HeldOut, LeftOut, judged, left_out
from experiments.calibration.libraries import NCCL
from experiments.calibration.library import Library
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitPoints
from experiments.calibration.population.machine_runs import at_specification
from experiments.calibration.population.specification import specification_of
from experiments.calibration.rule_learning import rules_file
from experiments.calibration.transfer import ends, linked, port, transfer
from experiments.measurements import Curve, read_all
from experiments.measurements.setups import contradictions, setups
from simulator.uncertainty.interval_rules import IntervalRules
from topologies.errors import InputError
from topologies.units import format_bytes, format_seconds

APART = "single logs"
"""The family whose curves are each of another machine."""
WORST = 3
ENOUGH = 4
"""The least points of a group."""
RULES = "rules.yaml"
"""The file of the rules that were learnt."""
COLUMNS = calibration_page.SPLITS
JUDGED = ("model", "discrepancy", "line", "nccl")
"""What is judged: the model, with its discrepancy, one α and one β a curve, NCCL's own model."""
_GPU = re.compile(r"\b[ABHV]\d{2,3}\b")


class Group(NamedTuple):
    """Curves that are fitted together, and their name."""

    name: str
    library: Library
    curves: tuple[Curve, ...]


class Fitted(NamedTuple):
    """A fitted group, what was left out of it by each protocol, and how long the fits took."""

    group: Group
    points: FitPoints
    lefts: Lefts
    seconds: float

    @property
    def family(self) -> str:
        """The first word of its family, or its name."""
        return self.group.curves[0].family.partition(" ")[0] or self.group.name


class Judged(NamedTuple):
    """A fitted group, and its errors on points that were left out."""

    fitted: Fitted
    held_out: Mapping[str, HeldOut]
    """By what was left out."""

    def errors(self) -> dict[str, tuple[float | None, ...]]:
        """The errors of `JUDGED`, by what was left out."""
        group, measured = self.fitted.group, self.fitted.points
        errors = {name: error(fold) for name, fold in self.held_out.items() if name in COLUMNS}
        return {
            name: (fold.model, fold.discrepancy, fold.baseline, _own(group, measured, name))
            for name, fold in errors.items()
        }

    def coverages(self) -> dict[str, Coverage]:
        """How good the intervals are, by what was left out."""
        return {
            name: coverage(fold, self.fitted.lefts[name])
            for name, fold in self.held_out.items()
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
    worst = [["worst unseen sizes", "", "measured", "error", "with discrepancy", "reason"]]
    pair_rows = [["from links and two points", "points", "with the links", "without"]]
    all_groups = list(groups(folder, families))
    rules, judged_groups = _judged(list(_fitted(all_groups)))
    pairs = list(_few(folder, all_groups))
    covered = [
        ["intervals of", *(f"{name}: inside, half width, score, constant" for name in COLUMNS)]
    ]
    for group in judged_groups:
        fitted = group.fitted
        counts = (
            str(len(fitted.points.curves)),
            str(len(fitted.points)),
            format_seconds(fitted.seconds),
        )
        errors, name = group.errors(), fitted.group.name
        rows.append([name, *counts, *(_cell(errors.get(column)) for column in COLUMNS)])
        coverages = group.coverages()
        covered.append([name, *(_cell(coverages.get(column)) for column in COLUMNS)])
        worst += _worst(group)
    for pair in pairs:
        shares = (f"{pair.with_links:.1%}", f"{pair.without_links:.1%}")
        pair_rows.append([f"{pair.group.name} {pair.collective}", str(pair.points), *shares])
    if out is not None:
        calibration_page.write(
            out,
            [_record(group) for group in judged_groups],
            [record for group in judged_groups for record in _worst_records(group)],
            [pair._asdict() | {"group": pair.group.name} for pair in pairs],
        )
        output.write(out / RULES, rules_file(rules, families))
    parts = (rows, covered, worst, pair_rows)
    return "\n\n".join(output.align(part) for part in parts if len(part) > 1)


def _fitted(all_groups: Sequence[Group]) -> Iterator[Fitted]:
    """Each group that can be fitted, with what was left out. Notes name the others, and why."""
    progress = output.Progress("groups")
    for done, group in enumerate(all_groups):
        progress(done, len(all_groups))
        try:
            measured, skipped = points(group.curves, group.library, least=ENOUGH)
        except InputError as refused:
            output.note(f"{group.name}: {refused}")
            continue
        for line in skipped:
            output.note(f"{group.name}: {line}")
        begin = perf_counter()
        lefts = _lefts(group, measured)
        yield Fitted(group, measured, lefts, perf_counter() - begin)
    progress(len(all_groups), len(all_groups))


def _lefts(group: Group, measured: FitPoints) -> Lefts:
    whole = explore(_model(group, measured))
    lefts = {protocol: list(left_out(whole, protocol)) for protocol in COLUMNS}
    return {protocol: folds for protocol, folds in lefts.items() if folds}


def _model(group: Group, measured: FitPoints) -> Model:
    """The model of a group. Its fit starts at the specification of the machine, if that is known:
    nothing of a specification was fitted to runs."""
    model = Model(measured, group.library)
    try:
        specification = specification_of(max(group.curves, key=lambda curve: curve.ranks or 0))
    except InputError:
        return model
    return at_specification(model, specification)


def _judged(fitted: Sequence[Fitted]) -> tuple[IntervalRules, list[Judged]]:
    """The rules of intervals by all groups, and each group judged by the rules of others."""
    families = grouped(fitted, lambda one: one.family)
    rules, by_others = learnt(
        {family: [one.lefts for one in members] for family, members in families.items()}
    )
    return rules, [
        Judged(
            one,
            {
                name: judged(name, len(one.points), folds, by_others[one.family])
                for name, folds in one.lefts.items()
            },
        )
        for one in fitted
    ]


def _record(judged: Judged) -> output.Record:
    errors, covered = judged.errors(), judged.coverages()
    record: dict[str, output.Value] = {
        "group": judged.fitted.group.name,
        "curves": len(judged.fitted.points.curves),
        "points": len(judged.fitted.points),
        "fit_s": judged.fitted.seconds,
    }
    for name in COLUMNS:
        values = errors.get(name, [None] * len(JUDGED))
        record |= {f"{name}_{figure}": value for figure, value in zip(JUDGED, values, strict=True)}
        figures = covered.get(name, [None] * len(Coverage._fields))
        record |= {
            f"{name}_{figure}": value
            for figure, value in zip(Coverage._fields, figures, strict=True)
        }
    return record


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


def _own(group: Group, measured: FitPoints, protocol: str) -> float | None:
    """The error of NCCL's own model on the points that `protocol` leaves out. None if it has none,
    or the GPUs are unknown."""
    if group.library is not NCCL or protocol in ("collectives", "few"):
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
            measured, _ = points(same, group.library)
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


def _worst_records(judged: Judged) -> list[output.Record]:
    """The points of unseen sizes with the greatest errors, with discrepancy, the worst first."""
    if "sizes" not in judged.held_out:
        return []
    sizes, measured = judged.held_out["sizes"], judged.fitted.points
    lefts = tuple(judged.fitted.lefts["sizes"])
    return [
        {
            "group": judged.fitted.group.name,
            "curve": Path(measured.curves[measured.curve[k]].name).stem,
            "size_B": float(measured.size[k]),
            "measured_s": float(measured.seconds[k]),
            "model": float(sizes.model[k]),
            "error": float(sizes.discrepancy[k]),
            "reason": _reason(measured, lefts, k),
        }
        for k in np.argsort(-np.nan_to_num(sizes.discrepancy))[:WORST].tolist()
    ]


def _reason(measured: FitPoints, lefts: tuple[LeftOut, ...], point: int) -> str:
    curve, places = curve_of(measured, lefts, int(measured.curve[point]))
    return reason(curve, places.index(point))


def _worst(judged: Judged) -> list[list[str]]:
    return [
        [
            f"{record['group']}: {record['curve']}",
            format_bytes(cast(float, record["size_B"])),
            format_seconds(cast(float, record["measured_s"])),
            f"{record['model']:.0%}",
            f"{record['error']:.0%}",
            str(record["reason"]),
        ]
        for record in _worst_records(judged)
    ]
