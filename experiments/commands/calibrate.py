"""`simctl calibrate`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass
from importlib.metadata import version
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from experiments import output
from experiments.answer_files import Files
from experiments.options.completion import completer, library_names, machine_names, machine_options
from experiments.options.log_options import RunOptions
from experiments.options.machine_options import TOPOLOGY_HELP, MachineOptions
from experiments.options.options import FormatOptions, Report, argument, option
from experiments.pages.reports.result import Result
from topologies.errors import InputError
from topologies.units import format_bandwidth

if TYPE_CHECKING:
    from experiments.calibration.library import Library
    from experiments.calibration.observations import FitCurve, FitPoints
    from experiments.profiles.profile_document import Calibrated
    from simulator.effects.labels import Ineffective
    from topologies.catalogue import Blueprint

SOURCES = 1000


@dataclass(frozen=True, kw_only=True)
class Calibrate(RunOptions, FormatOptions):
    """Fit a machine's links and software to measured runs.

    The fit finds launch times, α and β by link and protocol, and γ. It prints their intervals, and
    the errors on points that it has not seen.
    """

    EXAMPLES: ClassVar = ("calibrate runs.csv --out mine.yaml",)

    files: list[Path] = argument(
        "RUNS", "nccl-tests, OSU or CSV files, or folders of them.", default=MISSING
    )
    topology: str | None = option(
        f"{TOPOLOGY_HELP} [default: nodes with one port a rank and one a node]",
        autocompletion=completer(machine_names, machine_options),
    )
    name: str | None = option("The name of the profile. [default: that of its file]")
    library: str | None = option(
        "nccl, mpi, fujitsu or gloo. [default: as the files say]",
        autocompletion=completer(library_names),
    )
    links: list[Path] | None = option(
        "Point-to-point runs between two nodes (OSU, or send_recv in a CSV): β starts there."
    )
    gap: bool = option(
        "Fit a gap g as well, where the runs tell it from α.", "--gap", default=False
    )
    out: Path | None = option("Write the profile: FILE.yaml.", writable=True)
    report: Report = None

    def run(self) -> int:
        """Fit, print the parameters, and write the profile."""
        from experiments.profiles import ENDINGS

        output.check_writable(self.out, ENDINGS)
        files = Files(report=self.report)
        files.check()
        profile = self.fitted()
        unknown = sum(bool(curve.open) for curve in profile.estimates.values())
        if unknown:
            verb = "is" if unknown == 1 else "are"
            output.note(
                f"{unknown} of {len(profile.estimates)} parameters {verb} not identified by these "
                f"runs"
            )
        self._answer(profile).publish(files, self.format)
        return 0

    def fitted(self) -> Calibrated:
        """Fit the profile, and write it to the file of `out`."""
        from experiments.calibration import label_detection, measured_machines
        from experiments.calibration.calibrated_profile import (
            calibrate,
            document,
            library_of,
            points,
            sends_alone,
        )
        from experiments.calibration.fit import outliers, strays
        from experiments.calibration.known_paths import machine_for
        from experiments.calibration.libraries import library
        from experiments.measurements import curve_checks, doubts, read_all
        from experiments.measurements.curve_checks import chosen_curves
        from experiments.profiles import write

        files, links = self.files, self.links or []
        machine = MachineOptions(self.topology).optional_blueprint
        measurements = read_all(files, self.family)
        curves = chosen_curves(measurements.curves, self.only, self.forced)
        if not curves:
            raise InputError(
                f"{files[0]}: no curve {'with a forced algorithm ' if self.forced else ''}in it"
            )
        measured_machines.check(curves)
        named = library(self.library) if self.library else library_of(curves)
        chosen = named.on(machine)
        built = machine_for(machine)
        if links:
            chosen = _linked(chosen, links, machine)
        measured, skipped = points(curves, chosen, built, in_place=self.in_place)
        if links and max(curve.nodes for curve in measured.curves) == 1:
            raise InputError(
                f"--links {links[0]}: all runs are on one node, and links are between nodes: leave "
                f"it out"
            )
        output.note_skipped((*measurements.skipped, *skipped))
        if sends_alone(measured, chosen):
            output.note(
                "between nodes there are only sends and all-to-alls: other collectives there are "
                "as on measured machines, so measure a reducing one"
            )
        warnings = curve_checks.warnings(curves, in_place=self.in_place)
        output.note(*doubts(curves), *warnings, *_uneven(measured))
        calibration = calibrate(measured, chosen, built, output.Progress("steps"), gap=self.gap)
        where = machine.text if machine else _nodes(measured)
        called = self.name or (self.out.stem if self.out else "profile")
        ignored = label_detection.of_fit(calibration.fit)
        names = {curve.name for curve in measured.curves}
        unfitted = [
            curve
            for curve in chosen_curves(measurements.curves, self.only, False)
            if curve.source not in names
        ]
        ignored += label_detection.fallen_back(unfitted, chosen, calibration.fit.profile, built)
        unlike = starmap(_unlike, outliers(calibration.fit))
        output.note(*map(_ignored, ignored), *unlike, *strays(calibration.fit))
        profile = document(
            calibration, called, where, _sources(measured.curves), _made((*files, *links)), ignored
        )
        if self.out:
            write(profile, self.out)
        return profile

    def _answer(self, profile: Calibrated) -> Result:
        records: list[output.Record] = [
            {"parameter": name, **estimate.model_dump()}
            for name, estimate in profile.estimates.items()
        ]
        return Result("calibrate", profile.model_dump(by_alias=True), records, self.parameters)


def _linked(chosen: Library, links: Sequence[Path], machine: Blueprint | None) -> Library:
    from experiments.calibration.library import linked, port
    from experiments.measurements import doubts, read_all

    if machine and machine.name != "nodes":
        raise InputError(
            f"--links are of nodes with a port each: leave out --topology {machine.text}"
        )
    measured = read_all(links)
    output.note_skipped(measured.skipped)
    bandwidth = port(measured.curves)
    output.note(*doubts(measured.curves), f"links: {format_bandwidth(bandwidth)} out of a node")
    return linked(chosen, bandwidth)


def _nodes(measured: FitPoints) -> str:
    """The machine of curves whose files name none: nodes, with switches that multicast if the
    library may have used them."""
    per_node = max(curve.per_node for curve in measured.curves)
    multicast = any("nvls" in curve.algorithms for curve in measured.curves)
    return f"nodes:per_node={per_node}{',multicast=yes' if multicast else ''}"


def _uneven(measured: FitPoints) -> Iterator[str]:
    for curve in measured.curves:
        if curve.ranks % curve.nodes:
            last = curve.ranks - curve.per_node * (curve.nodes - 1)
            where = (
                f"{output.counted(curve.ranks, 'rank')} on {output.counted(curve.nodes, 'node')}"
            )
            yield (
                f"{curve.name}: {where} are taken as {curve.per_node} on each and {last} on the "
                f"last"
            )


def _unlike(curve: FitCurve, factor: float) -> str:
    how = f"{factor:.3g} times slower" if factor > 1 else f"{1 / factor:.3g} times faster"
    ranks = output.counted(curve.ranks, "rank")
    text = f"{curve.name}: {curve.collective} on {ranks} is {how}"
    return (
        f"{text} than the fit of all curves says, in the median of its sizes: diagnose it, or "
        f"leave it out"
    )


def _ignored(label: Ineffective) -> str:
    where = "" if label.ranks is None else f" on {output.counted(label.ranks, 'rank')}"
    return (
        f"{label.collective} told to take {label.label}{where} took {_fastest(label.ran)}: the "
        f"profile says so"
    )


def _fastest(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"the fastest of {', '.join(names)}"


def _sources(curves: Sequence[FitCurve]) -> list[str]:
    """What was fitted: files by name, without their folders."""
    lines = [
        f"{Path(curve.name).name}: {curve.collective}, {output.counted(curve.ranks, 'rank')}"
        for curve in curves
    ]
    return [line[:200] for line in lines[:SOURCES]]


def _made(files: Sequence[Path]) -> dict[str, str]:
    """Versions, and a digest of each file that was given by its name."""
    digests = {
        f"sha256 of {path.name}"[:200]: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.is_file()
    }
    return {
        "simctl": version("simctl-collectives"),
        "numpy": version("numpy"),
        "scipy": version("scipy"),
    } | digests
