"""`simctl calibrate`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

from experiments import output
from experiments.calibration.calibrate import Calibration, calibrate, document, library_of, points
from experiments.calibration.libraries import library
from experiments.calibration.table import as_nodes
from experiments.commands.machine import Machine
from experiments.measurements import Curve, read_all
from experiments.profiles import ENDINGS, write
from experiments.profiles.document import Calibrated, Error, Estimated
from topologies.errors import InputError
from topologies.topology import Topology
from topologies.units import format_bandwidth, format_seconds

SOURCES = 1000


def run(
    files: Sequence[Path],
    family: str | None,
    machine: Machine | None,
    name: str | None,
    of: str | None,
    forced: bool,
    in_place: bool,
    out: Path | None,
    how: str,
) -> int:
    """Fit, print what was found, and write the profile."""
    output.check_writable(out, ENDINGS)
    measurements = read_all(files, family)
    curves = [curve for curve in measurements.curves if curve.algorithm or not forced]
    if not curves:
        raise InputError(f"{files[0]}: no curve {'with a forced algorithm ' if forced else ''}in it")
    chosen = library(of) if of else library_of(curves)
    built = machine_for(machine.topology if machine else "nodes")
    measured, skipped = points(curves, chosen, built, in_place=in_place)
    for line in (*measurements.skipped, *skipped):
        output.note(f"skipped {line}")
    found = calibrate(measured, chosen, built, output.Progress("steps"))
    where = machine.topology if machine else f"nodes:per_node={max(one.per_node for one in measured.curves)}"
    called = name or (out.stem if out else "profile")
    profile = document(found, called, where, _sources(curves), _made(files))
    if out:
        write(profile, out)
    unknown = sum(bool(one.open) for one in profile.estimates.values())
    if unknown:
        output.note(f"{unknown} of {len(profile.estimates)} parameters are not identified by these runs")
    output.say(_render(profile, found, how))
    return 0


def machine_for(topology: str) -> Callable[[int, int], Topology]:
    """From numbers of ranks and of ranks a node to what `--topology` names, with as many nodes as took part."""
    if topology.partition(":")[0] == "nodes":
        return as_nodes
    return partial(_built, Machine(topology))


def _built(machine: Machine, ranks: int, per_node: int) -> Topology:
    return machine.laid_out(ranks, -(-ranks // per_node))(ranks)


def _sources(curves: Sequence[Curve]) -> list[str]:
    """What was measured: files by name, without their folders."""
    lines = [f"{Path(curve.source).name}: {curve.collective}, {curve.ranks} ranks" for curve in curves]
    return [line[:200] for line in lines[:SOURCES]]


def _made(files: Sequence[Path]) -> dict[str, str]:
    """Versions, and a digest of each file that was given by its name."""
    digests = {
        f"sha256 of {path.name}"[:200]: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.is_file()
    }
    return {"simctl": version("simctl-collectives"), "numpy": version("numpy"), "scipy": version("scipy")} | digests


def _render(profile: Calibrated, found: Calibration, how: str) -> str:
    records: list[output.Record] = [{"parameter": name, **one.model_dump()} for name, one in profile.estimates.items()]
    if how == "json":
        return output.to_json(profile.model_dump(by_alias=True))
    if how == "csv":
        return output.to_csv(records).rstrip("\n")
    points = found.fit.model.points
    head = f"{profile.library} on {profile.machine}: {len(points.curves)} curves, {len(points)} points"
    parts = [head, output.align(_parameters(profile.estimates)), error_table(profile.errors)]
    return "\n\n".join(parts)


def _parameters(estimates: dict[str, Estimated]) -> list[list[str]]:
    rows = [["parameter", "value", "95% from", "to", "not identified"]]
    for name, one in estimates.items():
        ends = sorted(
            (end for end in (one.low, one.high) if end is not None), reverse="β" in name and one.unit != "power"
        )
        cells = [_shown(name, one.unit, one.value), *([_shown(name, one.unit, end) for end in ends] or ["-", "-"])]
        rows.append([name if one.unit == "power" else name.replace("1/β", "β"), *cells, one.open])
    return rows


def _shown(name: str, unit: str, value: float) -> str:
    """A quantity with its unit; a 1/β as β."""
    if unit == "power":
        return f"{value:+.3f}"
    if unit == "s":
        return format_seconds(value)
    if "β" not in name:
        return f"{value * 1e9:.3g} ns/B" if value < 1 else "-"
    return format_bandwidth(1 / value) if 1e-30 < value < 1e9 else "-"


def error_table(errors: dict[str, Error]) -> str:
    """Errors on what the fit has not seen, a row a protocol."""
    rows = [["unseen", "points", "model", "with discrepancy", "one α, β a curve"]]
    for name, one in errors.items():
        cells = ("-" if value is None else f"{value:.1%}" for value in (one.model, one.discrepancy, one.baseline))
        rows.append([name, str(one.points), *cells])
    return output.align(rows)
