"""Populations of measured machines, and errors on machines that were left out.

`python -m experiments.benchmarks population FOLDER [--library NAME] [--families F01,F02] [--out
FOLDER]` fits the population of each library, and then of each library without each machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from experiments import output
from experiments.benchmarks.calibration import Group, groups
from experiments.benchmarks.table_rows import grouped
from experiments.calibration import nccl_comparison
from experiments.calibration.calibrated_profile import points
from experiments.calibration.fit import explore
from experiments.calibration.held_out import FEW
from experiments.calibration.libraries import FUJITSU, MPI, NCCL
from experiments.calibration.library_model import Model
from experiments.calibration.observations import Flags, evenly
from experiments.calibration.population import population_file
from experiments.calibration.population.bare_links import bare_links
from experiments.calibration.population.few_points import predicted, sharpened
from experiments.calibration.population.machine_rules import learn_from, unseen
from experiments.calibration.population.machine_runs import Runs
from experiments.calibration.population.population import Population, fit_transports
from experiments.calibration.population.specification import specification_of
from experiments.calibration.uncertainty import shipped_rules
from simulator.cost_models.nccl import GENERATIONS
from topologies.errors import InputError
from topologies.topology import Floats

LIBRARIES = {"nccl": (NCCL,), "mpi": (MPI, FUJITSU)}
"""The libraries that share a population, by its name."""
RESULTS = "left-out.csv"
"""The file of the errors."""
KEYS = ("specification", "few", "nccl", "links", "inside", "width")
"""Its columns of figures."""
COLUMNS = ("specification", f"{FEW} points", "NCCL's own model", "bare links")


class Measured(NamedTuple):
    """Runs of a family, and their name."""

    family: str
    name: str
    runs: Runs


class Row(NamedTuple):
    """The runs of a machine that was left out."""

    measured: Measured
    errors: tuple[float, ...]
    """Median |ln(predicted / measured)| by COLUMNS; nan without a prediction."""
    inside: float
    """The share of points inside the 80% intervals of the specification alone."""
    width: float
    """The median of half an interval's width, in log time."""


def parse(arguments: Sequence[str]) -> tuple[Path, str, Sequence[str], Path | None]:
    """The arguments of `table` as the command line has them. Raises InputError for other ones."""
    folder, *rest = arguments
    options = dict(zip(rest[::2], rest[1::2], strict=False))
    if len(rest) % 2 or not options.keys() <= {"--library", "--families", "--out"}:
        raise InputError("population FOLDER takes --library NAME, --families F01,F02, --out FOLDER")
    library, families = options.get("--library", ""), options.get("--families", "")
    if library and library not in LIBRARIES:
        raise InputError(f"--library {library[:40]!r}: expected {' or '.join(LIBRARIES)}")
    out = Path(options["--out"]) if "--out" in options else None
    if out is not None and not out.is_dir():
        raise InputError(f"--out {str(out)!r} is no folder: make it")
    return Path(folder), library, [name for name in families.split(",") if name], out


def table(
    folder: Path, library: str = "", families: Sequence[str] = (), out: Path | None = None
) -> str:
    """Errors on each set-up of machines that were left out, and medians over machines.

    `out` is a folder for the files of the populations.
    """
    parts = []
    for name, members in LIBRARIES.items():
        if library in ("", name):
            chosen = [group for group in groups(folder) if group.library in members]
            measured = list(_measured(chosen))
            if not measured:
                raise InputError(f"{folder}: no runs of {name}")
            rows = list(_left_out(measured, families))
            if out is not None:
                known = _population([one.runs for one in measured])
                known = replace(known, error=next(_medians(rows)))
                output.write(out / f"{name}.yaml", population_file.dumps(known))
                output.write(out / f"{name}-{RESULTS}", output.to_csv(list(map(_record, rows))))
            parts.append(_table(name, rows))
    return "\n\n".join(parts)


def _population(runs: Sequence[Runs]) -> Population:
    """The population of some runs, with its rules of intervals."""
    return replace(fit_transports(runs), intervals=learn_from(runs, shipped_rules()))


def _measured(chosen: Sequence[Group]) -> Iterator[Measured]:
    """The runs of each group and specification, with the paths that a fit of them finds."""
    progress = output.Progress("groups")
    for done, group in enumerate(chosen):
        progress(done, len(chosen))
        for specification, curves in grouped(group.curves, specification_of).items():
            try:
                measured, _ = points(curves, group.library)
            except InputError as refused:
                output.note(f"{group.name}: {refused}")
                continue
            model = Model(measured, group.library)
            explore(model)
            family = group.curves[0].family.split()[0]
            yield Measured(family, group.name, Runs(model, specification))
    progress(len(chosen), len(chosen))


def _left_out(measured: Sequence[Measured], families: Sequence[str]) -> Iterator[Row]:
    """A row for each run of the families, by the population of all other machines."""
    populations: dict[str, Population] = {}
    judged = [one for one in measured if not families or one.family in families]
    progress = output.Progress("machines left out")
    for done, one in enumerate(judged):
        progress(done, len(judged))
        machine = one.runs.machine
        if machine not in populations:
            populations[machine] = without(machine, [other.runs for other in measured])
        population = populations[machine].over(one.runs.transport)
        yield Row(one, tuple(_errors(one.runs, population)), *_covered(one.runs, population))
    progress(len(judged), len(judged))


def without(machine: str, runs: Sequence[Runs]) -> Population:
    """The population of all other machines."""
    return _population([each for each in runs if each.machine != machine])


def _covered(runs: Runs, population: Population) -> tuple[float, float]:
    """The share of points inside their 80% intervals, and the median of half their width."""
    assert population.intervals is not None
    points = unseen(runs, population)
    half = points.half(population.intervals, shipped_rules())
    return float((np.abs(points.off) <= half).mean()), float(np.median(half))


def _errors(runs: Runs, population: Population) -> Iterator[float]:
    every = np.ones(len(runs.model.points), dtype=np.bool_)
    keep = evenly(runs.model.points, FEW)
    cases: list[tuple[Callable[[], Floats], Flags]] = [
        (lambda: predicted(runs, population), every),
        (lambda: sharpened(runs, population, keep), ~keep),
        (lambda: _own_model(runs), every),
        (lambda: bare_links(runs), every),
    ]
    for seconds, judged in cases:
        misfit = np.abs(np.log(seconds() / runs.model.points.seconds))[judged]
        yield float(np.nanmedian(misfit)) if np.isfinite(misfit).any() else np.nan


def _own_model(runs: Runs) -> Floats:
    """Seconds of NCCL's own model with the specified bandwidth; nan without a model."""
    specification, curves = runs.specification, runs.model.points.curves
    if runs.model.library is not NCCL or specification.generation not in GENERATIONS:
        return np.full(len(runs.model.points), np.nan)
    seconds = []
    for curve in curves:
        rates = [specification.bandwidth("node", curve.per_node)] * (curve.per_node > 1)
        rates += [specification.bandwidth("network", curve.per_node)] * (curve.nodes > 1)
        bandwidth = min(rate for rate in rates if rate is not None)
        seconds.append(nccl_comparison.predict(curve, specification.generation, bandwidth))
    return np.concatenate(seconds)


def _table(name: str, rows: Sequence[Row]) -> str:
    lines = [[f"{name}: machine left out", "runs", "points", *COLUMNS, "inside 80%", "half width"]]
    for measured, errors, inside, half in rows:
        runs = measured.runs
        called = f"{measured.family} {measured.name.rpartition(': ')[2]}"
        cells = [*map(_percent, errors), f"{inside:.0%}", f"{half:.2f}"]
        lines.append([runs.machine, called, str(len(runs.model.points)), *cells])
    lines.append(["median over machines", "", "", *map(_percent, _medians(rows)), "", ""])
    shares = _shares_inside(rows)
    most = sum(share >= 0.5 for share in shares)
    return f"{output.align(lines)}\nhalf of the points inside: {most} of {len(shares)} families"


def _shares_inside(rows: Sequence[Row]) -> list[float]:
    """The share of points inside their intervals, by family."""
    counts: dict[str, list[float]] = {}
    for row in rows:
        points = len(row.measured.runs.model.points)
        total = counts.setdefault(row.measured.family, [0.0, 0.0])
        total[0] += points * row.inside
        total[1] += points
    return [inside / points for inside, points in counts.values()]


def _record(row: Row) -> output.Record:
    """The row of a csv file."""
    figures = dict(zip(KEYS, (*row.errors, row.inside, row.width), strict=True))
    return {
        "machine": row.measured.runs.machine,
        "family": row.measured.family,
        "group": row.measured.name,
        "points": len(row.measured.runs.model.points),
        **{
            key: None if np.isnan(value) else float(f"{value:.4g}")
            for key, value in figures.items()
        },
    }


def _medians(rows: Sequence[Row]) -> Iterator[float]:
    """The median over machines of each column, where a machine counts by the median of its runs."""
    for column in range(len(COLUMNS)):
        known = [row for row in rows if np.isfinite(row.errors[column])]
        by_machine = grouped(known, lambda row: row.measured.runs.machine).values()
        errors = [median(row.errors[column] for row in runs) for runs in by_machine]
        yield median(errors) if errors else np.nan


def _percent(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.1%}"
