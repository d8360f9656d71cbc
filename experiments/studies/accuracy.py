"""Errors of one α and one β a curve on unseen sizes, by family of published curves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments import output
from experiments.measurements import Curve, read
from experiments.simulations.rules import Rules
from experiments.simulations.validation import validate
from experiments.studies.measured_rows import grouped, rows_of
from simulator.collectives import Algorithm, algorithms, find
from topologies.errors import InputError
from topologies.shapes import star
from topologies.topology import Topology

FORCED = ("recursive_doubling", "halving_doubling", "tree", "ring")
"""Algorithms that are simulated where they were forced. Every other curve is simulated as the first
algorithm of its collective."""


class Accuracy(NamedTuple):
    """Mean |error| of the sizes of one curve that its fit has not seen."""

    family: str
    case: str
    algorithm: str
    ranks: int
    unseen: float


def main(folder: Path) -> str:
    """A line for each family of a folder with an index.csv: its curves, and the median and worst of
    their mean errors on unseen sizes."""
    families = grouped(accuracies(folder), lambda accuracy: accuracy.family)
    rows = [["family", "curves", "median", "worst", "worst curve"]]
    for family, curves in sorted(families.items()):
        worst = max(curves, key=lambda curve: curve.unseen)
        median = float(np.median([curve.unseen for curve in curves]))
        rows.append([family, str(len(curves)), f"{median:.1%}", f"{worst.unseen:.1%}", worst.case])
    return output.align(rows)


def accuracies(folder: Path) -> Iterator[Accuracy]:
    """Every curve with enough sizes and an algorithm to simulate. Notes on stderr name the
    others."""
    cases = rows_of(folder / "index.csv")
    progress = output.Progress("curves")
    for done, case in enumerate(cases):
        progress(done, len(cases))
        curve = read(folder / "curves" / f"{case['case']}.csv").curves[0]
        algorithm = _algorithm(curve)
        if algorithm is None or curve.ranks is None:
            output.note(f"{case['case']}: nothing to simulate {curve.collective} with")
            continue
        try:
            result = validate(
                curve, algorithm, curve.ranks, _links, fit=True, in_place=False, rules=Rules()
            )
        except InputError as error:
            output.note(f"{case['case']}: {error}")
            continue
        unseen = result.errors(fitted=False)
        if len(unseen):
            yield Accuracy(
                case["family"], case["case"], algorithm.name, curve.ranks, float(unseen.mean())
            )


def _algorithm(curve: Curve) -> Algorithm | None:
    if curve.algorithm in FORCED:
        return find(curve.algorithm)
    return next((a for a in algorithms().values() if a.collective.name == curve.pattern), None)


def _links(ranks: int, servers: int, latency: float | None, bandwidth: float | None) -> Topology:
    return star(ranks + servers, latency=latency or 0.0, bandwidth=bandwidth or 1.0)
