"""The populations of measured machines, and errors on each machine that was left out of them.

Curves of AIConfigurator's machines are rows of a table of NCCL on one node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import exp
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
import pandas as pd
import typer
import yaml

from experiments import output
from experiments.calibration.calibrated_profile import points
from experiments.calibration.fit import explore, fit
from experiments.calibration.held_out import FEW_POINTS
from experiments.calibration.known_paths import as_nodes
from experiments.calibration.libraries import FUJITSU, MPI, NCCL
from experiments.calibration.library_model import Model
from experiments.calibration.nccl_comparison import predict as predict_by_nccl
from experiments.calibration.observations import evenly
from experiments.calibration.population.population import Member, Population
from experiments.calibration.population.specification import specification_of
from experiments.calibration.prediction import predict
from experiments.calibration.uncertainty import shipped_rules
from experiments.measurements import Curve
from experiments.measurements.curve import Point
from experiments.studies import generated_pages
from experiments.studies.calibration import CurveGroup, groups
from experiments.studies.kernel_rows import numbers, read
from experiments.studies.measured_rows import grouped
from experiments.studies.population_fit import MachineRuns, fit_transports
from experiments.studies.unseen_machines import learn_from, predicted, unseen
from simulator.cost_models.nccl import GENERATIONS
from simulator.profile import Profile, Protocol
from topologies.columns import plain_rows
from topologies.errors import InputError
from topologies.link import Link
from topologies.topology import Flags, Floats

LIBRARIES = {"nccl": (NCCL,), "mpi": (MPI, FUJITSU)}
"""The libraries that share a population, by its name."""
MADE = (
    "python -m experiments.studies populations: a mean over machines near the library's own "
    "model, and the spread of machines about it"
)


class FamilyRuns(NamedTuple):
    """Runs of a family, and their name."""

    family: str
    name: str
    runs: MachineRuns


def main(
    folder: Annotated[Path, typer.Argument(help="Published curves with an index.csv.")],
    library: Annotated[Literal["nccl", "mpi", "all"], typer.Option()] = "all",
    families: Annotated[str, typer.Option(help="Only machines of these, like F01,F02.")] = "",
    out: Annotated[Path | None, typer.Option(exists=True, file_okay=False)] = None,
    kernels: Annotated[Path | None, typer.Option(help="Measured kernels, with nccl.csv.")] = None,
) -> str:
    """Fit the population of each library, and of each library without each machine, and predict
    that machine. With --kernels, the collectives of nccl.csv count too. --out
    writes the files of the populations and of the errors."""
    parts = []
    for name, members in LIBRARIES.items():
        if library in ("all", name):
            chosen = [group for group in groups(folder) if group.library in members]
            if kernels is not None and name == "nccl":
                chosen += [CurveGroup(key, NCCL, curves) for key, curves in collectives(kernels)]
            measured = list(_measured(chosen))
            if not measured:
                raise InputError(f"{folder}: no runs of {name}")
            records = list(_left_out(measured, [word for word in families.split(",") if word]))
            rows = pd.DataFrame(records).assign(library=name)
            if out is not None:
                error = float(generated_pages.over_machines(rows)["specification"])
                known = replace(_population([one.runs for one in measured]), error=error)
                output.write(out / f"{name}.yaml", dumps(known))
                output.write(out / f"{name}-left-out.csv", output.to_csv(records))
            summary = generated_pages.machines_summary(rows)
            shown = rows.assign(runs=rows["group"], use="")
            parts += [generated_pages.chosen(generated_pages.MACHINE_COLUMNS, shown), summary]
    return "\n\n".join(parts)


def _population(runs: Sequence[MachineRuns]) -> Population:
    return replace(fit_transports(runs), intervals=learn_from(runs, shipped_rules()))


def without(kin: str, runs: Sequence[MachineRuns]) -> Population:
    """The population of all machines but some kin: see `Specification.kin`."""
    return _population([each for each in runs if each.kin != kin])


def _measured(chosen: Sequence[CurveGroup]) -> Iterator[FamilyRuns]:
    progress = output.Progress("groups")
    for done, group in enumerate(chosen):
        progress(done, len(chosen))
        for specification, curves in grouped(group.curves, specification_of).items():
            try:
                placed = [specification.placed(curve) for curve in curves]
                measured, _ = points(placed, group.library)
            except InputError as refused:
                output.note(f"{group.name}: {refused}")
                continue
            model = Model(measured, group.library)
            explore(model)
            family = group.curves[0].family.split()[0]
            yield FamilyRuns(family, group.name, MachineRuns(model, specification))
    progress(len(chosen), len(chosen))


def _left_out(measured: Sequence[FamilyRuns], families: Sequence[str]) -> Iterator[output.Record]:
    """A row of the csv file for each run of the families, by the population of all other machines:
    errors, the share of points inside the 80% intervals of the specification alone, and the median
    of half their width in log time."""
    populations: dict[str, Population] = {}
    judged = [one for one in measured if not families or one.family in families]
    progress = output.Progress("machines left out")
    for done, (family, name, runs) in enumerate(judged):
        progress(done, len(judged))
        if runs.kin not in populations:
            populations[runs.kin] = without(runs.kin, [other.runs for other in measured])
        population = populations[runs.kin].over(runs.transport)
        assert population.intervals is not None
        left = unseen(runs, population)
        half = left.half(population.intervals, shipped_rules())
        figures = _errors(runs, population) | {
            "inside": float((np.abs(left.off) <= half).mean()),
            "width": float(np.median(half)),
        }
        yield {
            "machine": runs.machine,
            "family": family,
            "group": name,
            "points": len(runs.model.points),
            **{key: None if np.isnan(v) else float(f"{v:.4g}") for key, v in figures.items()},
        }
    progress(len(judged), len(judged))


def _errors(runs: MachineRuns, population: Population) -> dict[str, float]:
    """Median |ln(predicted / measured)| by the columns of the file; nan without a prediction."""
    every = np.ones(len(runs.model.points), dtype=np.bool_)
    keep = evenly(runs.model.points, FEW_POINTS)
    predictions: dict[str, tuple[Floats, Flags]] = {
        "specification": (specified(runs, population), every),
        "few": (sharpened(runs, population, keep), ~keep),
        "nccl": (by_nccl(runs), every),
        "links": (by_bare_links(runs), every),
    }
    errors = {}
    for name, (seconds, judged) in predictions.items():
        misfit = np.abs(np.log(seconds / runs.model.points.seconds))[judged]
        errors[name] = float(np.nanmedian(misfit)) if np.isfinite(misfit).any() else np.nan
    return errors


def specified(runs: MachineRuns, population: Population) -> Floats:
    """Seconds of all points by the machine's specification, shape (points,)."""
    explored(runs.model, runs.inner(population))
    return predicted(runs, population)


def sharpened(runs: MachineRuns, population: Population, keep: Flags) -> Floats:
    """Seconds of all points after a fit of those that `keep` chooses, shape (points,). The fit
    starts from the population."""
    machines = population.covariance_of(runs.names)
    model = runs.model.starting(runs.inner(population), runs.model.weight, machines)
    explored(model, model.start)
    inner = fit(model, keep).inner
    explored(model, inner)
    return fit(model, keep, inner).predicted


def explored(model: Model, inner: Floats) -> None:
    """Keep the paths of simulations at some parameters. The second time has those that the first
    one uncovers."""
    for _ in range(2):
        model.explore(inner)


def by_nccl(runs: MachineRuns) -> Floats:
    """Seconds of NCCL's own model with the specified bandwidth, shape (points,); nan without a
    model."""
    specification, curves = runs.specification, runs.model.points.curves
    if runs.model.library is not NCCL or specification.generation not in GENERATIONS:
        return np.full(len(runs.model.points), np.nan)
    seconds = []
    for curve in curves:
        rates = [specification.bandwidth("node", curve.per_node)] * (curve.per_node > 1)
        rates += [specification.bandwidth("network", curve.per_node)] * (curve.nodes > 1)
        bandwidth = min(rate for rate in rates if rate is not None)
        seconds.append(predict_by_nccl(curve, specification.generation, bandwidth))
    return np.concatenate(seconds)


def by_bare_links(runs: MachineRuns) -> Floats:
    """Seconds of all points on links with the specified β, without software, shape (points,).

    α is that of the shortest messages in the library's own model.
    """
    points, library = runs.model.points, runs.model.library
    seconds = []
    for curve in points.curves:
        links = {}
        for kind, latency in library.protocols[0].latency.items():
            bandwidth = runs.specification.bandwidth(kind, curve.per_node)
            links[kind] = Link(bandwidth or 1 / library.protocols[-1].slowness[kind], latency)
        profile = Profile("bare links", "nodes", 0.0, (Protocol("links", links),))
        machine = as_nodes(curve.ranks, curve.per_node)
        seconds.append([row.seconds for row in predict(profile, library, curve, machine)])
    return np.concatenate(seconds)


def dumps(population: Population) -> str:
    """A population as YAML that is read back as one that is equal but for rounding."""
    rules = population.intervals
    content = {
        "library": population.library,
        "made": MADE,
        "error": float(f"{population.error:.3g}"),
        **({"intervals": _rounded(rules._asdict())} if rules is not None else {}),
        **_level(population),
    }
    if population.transports:
        levels = {key: _level(level) for key, level in population.transports.items()}
        content["transports"] = levels
    text: str = yaml.safe_dump(
        content, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120
    )
    return text


def _level(population: Population) -> dict[str, object]:
    return {
        "machines": list(population.machines),
        "parameters": {key: _part(one) for key, one in population.members.items()},
        "correlations": {
            key: population.correlations[k, :k].round(3).tolist()
            for k, key in enumerate(population.members)
        },
    }


def _part(member: Member) -> dict[str, str | float]:
    start, mean = (
        value if member.unit == "power" else exp(value) for value in (member.start, member.mean)
    )
    rounded = {"start": start, "mean": mean, "spread": member.spread, "machines": member.machines}
    return {"unit": member.unit} | _rounded(rounded)


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {key: float(f"{value:.4g}") for key, value in values.items()}


COLUMNS = {"machine", "library", "version_in_file", "collective", "dtype", "ranks", "size_bytes"}
FAMILY = "AIC"
"""The family of the curves: AIConfigurator's machines."""
CARDS = ("l40s",)
"""GPUs on cards, without NVSwitches."""


def collective_rows(folder: Path) -> pd.DataFrame:
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
    for _, alike in collective_rows(folder).groupby(["device", "version_in_file"], sort=False):
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
