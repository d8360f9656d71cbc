"""Errors of calibrated profiles on points that a fit has not seen, and the rules of intervals.

The worst points have reasons.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
import typer

from experiments import output
from experiments.calibration.calibrated_profile import error, library_of, points
from experiments.calibration.fit import explore
from experiments.calibration.held_out import HeldOut, LeftOut, judged, left_out
from experiments.calibration.library import Library
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitPoints
from experiments.calibration.population.specification import specification_of
from experiments.measurements import Curve, read_all
from experiments.measurements.curve_checks import contradictions, setups
from experiments.studies import generated_pages
from experiments.studies.generated_pages import SPLITS
from experiments.studies.measured_rows import grouped
from experiments.studies.population_fit import at_specification
from experiments.studies.rule_learning import Coverage, Lefts, coverage, learnt, rules_file
from simulator.uncertainty.residuals import IntervalRules
from topologies.errors import InputError


class CurveGroup(NamedTuple):
    """Curves that are fitted together, and their name."""

    name: str
    library: Library
    curves: tuple[Curve, ...]


class FittedGroup(NamedTuple):
    """A fitted group."""

    group: CurveGroup
    points: FitPoints
    lefts: Lefts
    """The points that each protocol left out."""

    @property
    def family(self) -> str:
        """The first word of its family, or its name."""
        return self.group.curves[0].family.partition(" ")[0] or self.group.name


def main(
    folder: Annotated[Path, typer.Argument(help="Published curves with an index.csv.")],
    families: Annotated[list[str] | None, typer.Argument(help="Only these, like F01.")] = None,
    out: Annotated[Path | None, typer.Option(exists=True, file_okay=False)] = None,
) -> str:
    """Fit each family of curves, and predict the points left out. --out writes the files
    of the page of results, and the rules of intervals."""
    chosen = list(groups(folder, families or ()))
    rules, judged_groups = _judged(list(_fitted(chosen)))
    tables = {
        "held-out": [_record(*each) for each in judged_groups],
        "worst": [record for each in judged_groups for record in _worst(*each)],
    }
    if out is not None:
        files = {out / f"{name}.csv": output.to_csv(rows) for name, rows in tables.items()}
        files[out / "made.json"] = json.dumps(_provenance(families or ()), indent=1) + "\n"
        output.write_all({**files, out / "rules.yaml": rules_file(rules, families or ())})
    return generated_pages.calibration_tables(*map(pd.DataFrame, tables.values()))


def _provenance(families: Sequence[str]) -> dict[str, object]:
    """How the files were made, without the folders of this machine."""
    packages = ("simctl-collectives", "numpy", "scipy", "numba", "simpy")
    return {
        "command": ["python", "-m", "experiments.studies", "calibration", "FOLDER", *families],
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {package: version(package) for package in packages},
    }


def groups(folder: Path, families: Sequence[str] = ()) -> Iterator[CurveGroup]:
    """The curves of a folder with an index, by family (a series of the index: the curves of one
    machine) and library.

    Forced algorithms are separate from others. If several set-ups measured the same, each set-up is
    a group of its own.
    """
    curves = read_all([folder]).curves
    for family in sorted({curve.family for curve in curves}):
        number, _, words = family.partition(" ")
        if families and number not in families:
            continue
        chosen = [curve for curve in curves if curve.family == family]
        if words == "single logs":  # each of another machine
            for curve in chosen:
                yield from _by_library(Path(curve.source).stem, [curve])
        else:
            yield from _by_library(words, chosen)


def _by_library(name: str, curves: Iterable[Curve]) -> Iterator[CurveGroup]:
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
            yield CurveGroup(f"{called} {part}".strip(), library, tuple(alike))


def _fitted(chosen: Sequence[CurveGroup]) -> Iterator[FittedGroup]:
    """Each group that can be fitted, with the points left out. Notes name the others, and why."""
    progress = output.Progress("groups")
    for done, group in enumerate(chosen):
        progress(done, len(chosen))
        try:
            measured, skipped = points(group.curves, group.library, least=4)
        except InputError as refused:
            output.note(f"{group.name}: {refused}")
            continue
        for line in skipped:
            output.note(f"{group.name}: {line}")
        yield FittedGroup(group, measured, _lefts(group, measured))
    progress(len(chosen), len(chosen))


def _lefts(group: CurveGroup, measured: FitPoints) -> Lefts:
    """The points that each protocol leaves out. A fit starts at the specification of the machine,
    if that is known: nothing of a specification was fitted to runs."""
    model = Model(measured, group.library)
    try:
        specification = specification_of(max(group.curves, key=lambda curve: curve.ranks or 0))
    except InputError:
        pass
    else:
        model = at_specification(model, specification)
    whole = explore(model)
    lefts = {split: list(left_out(whole, split)) for split in SPLITS}
    return {split: folds for split, folds in lefts.items() if folds}


def _judged(
    fitted: Sequence[FittedGroup],
) -> tuple[IntervalRules, list[tuple[FittedGroup, dict[str, HeldOut]]]]:
    """The rules of intervals by all groups, and each group with its errors by the rules of others,
    by the points left out."""
    families = grouped(fitted, lambda one: one.family)
    rules, by_others = learnt(
        {family: [one.lefts for one in members] for family, members in families.items()}
    )
    return rules, [
        (
            one,
            {
                split: judged(split, len(one.points), folds, by_others[one.family])
                for split, folds in one.lefts.items()
            },
        )
        for one in fitted
    ]


def _record(fitted: FittedGroup, held_out: Mapping[str, HeldOut]) -> output.Record:
    """A row of held-out.csv. By the points left out it has the errors of the model, of the model
    with its discrepancy, and of one α and one β a curve, and the coverage of intervals."""
    record: dict[str, output.Value] = {
        "group": fitted.group.name,
        "family": fitted.family,
        "curves": len(fitted.points.curves),
        "points": len(fitted.points),
    }
    for split in SPLITS:
        figures: dict[str, float | None] = dict.fromkeys(
            ("model", "discrepancy", "line", *Coverage._fields)
        )
        if split in held_out:
            mean = error(held_out[split])
            figures |= {"model": mean.model, "discrepancy": mean.discrepancy, "line": mean.baseline}
            figures |= coverage(held_out[split], fitted.lefts[split])._asdict()
        record |= {f"{split}_{figure}": value for figure, value in figures.items()}
    return record


def _worst(fitted: FittedGroup, held_out: Mapping[str, HeldOut]) -> Iterator[output.Record]:
    """The three points of unseen sizes with the greatest errors, with discrepancy, the worst
    first."""
    if "sizes" not in held_out:
        return
    sizes, measured, lefts = held_out["sizes"], fitted.points, tuple(fitted.lefts["sizes"])
    for k in np.argsort(-np.nan_to_num(sizes.discrepancy))[:3].tolist():
        number = int(measured.curve[k])
        curve, places = curve_of(measured, lefts, number)
        yield {
            "group": fitted.group.name,
            "curve": Path(measured.curves[number].name).stem,
            "size_B": float(measured.size[k]),
            "measured_s": float(measured.seconds[k]),
            "model": float(sizes.model[k]),
            "error": float(sizes.discrepancy[k]),
            "reason": reason(curve, places.index(k)),
        }


STEP = 4.0
"""A step takes so many times as long, for at most so many times the size."""
LEAST = 3
"""So many points of a curve show that it is off as a whole."""
SHARE = 0.5
"""A reason explains at least this share of an error."""


def curve_of(
    points: FitPoints, lefts: tuple[LeftOut, ...], number: int
) -> tuple[pd.DataFrame, list[int]]:
    """A measured curve by its number, in ascending sizes, and the numbers of its points.

    Columns: `size`, `seconds`, `off`, log(measured / predicted) where the fitted model had left the
    size out, else nan, and the `algorithm` that the fit says ran.
    """
    table = pd.DataFrame({"size": points.size, "seconds": points.seconds})
    table = table.assign(off=np.nan, algorithm="")
    for left in lefts:
        table.loc[left.fold, "off"] = left.off
        table.loc[left.fold, "algorithm"] = left.where.algorithm
    curve = table[points.curve == number].sort_values("size")
    return curve, curve.index.tolist()


def reason(curve: pd.DataFrame, place: int) -> str:
    """Reasons of the error of a point at `place`, in words. Empty if there is none.

    >>> times = {"size": [1e3, 2e3, 4e3], "seconds": [1e-5, 9e-5, 2e-5], "off": [0, 1.9, 0]}
    >>> bump = pd.DataFrame({**times, "algorithm": "ring"})
    >>> reason(bump, 1).split("; ")[:2]
    ['a bump: 6.4 times the time between its neighbours', 'a step: 9.0 times the size before']
    """
    return "; ".join(_reasons(curve, place))


def _reasons(curve: pd.DataFrame, place: int) -> Iterator[str]:
    size, seconds, off, algorithm = (curve[name].to_numpy() for name in curve)
    last, needed = len(size) - 1, SHARE * abs(off[place])
    if 0 < place < last:
        near = [place - 1, place + 1]
        between = np.exp(np.interp(np.log(size[place]), np.log(size[near]), np.log(seconds[near])))
        bump = np.log(seconds[place] / between)
        if abs(bump) >= needed and bump * off[place] > 0:
            yield f"a bump: {np.exp(bump):.2g} times the time between its neighbours"
    if place and size[place] <= STEP * size[place - 1]:
        ratio = seconds[place] / seconds[place - 1]
        if ratio > STEP:
            yield f"a step: {ratio:.1f} times the size before"
    if place and seconds[place] < seconds[:place].max():
        yield "no longer than a smaller size"
    if place < last and seconds[place] > seconds[place + 1 :].min():
        yield "longer than a larger size"
    if place in (0, last):
        yield f"the end of the curve: its {'largest' if place else 'smallest'} size"
    known = off[~np.isnan(off)]
    middle = float(np.median(known)) if len(known) >= LEAST else 0.0
    if middle * off[place] > 0 and abs(middle) >= needed:
        slower = "slower" if middle > 0 else "faster"
        yield f"the whole curve is {slower}: by {np.exp(abs(middle)) - 1:.0%} in the median"
    for neighbour in (place - 1, place + 1):
        if 0 <= neighbour <= last and algorithm[neighbour] != algorithm[place]:
            yield f"another algorithm: {algorithm[place]}, and {algorithm[neighbour]} nearby"
            break
