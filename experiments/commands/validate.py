"""`simctl validate`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from experiments import output
from experiments.calibration import Interval
from experiments.measurements import Curve, Measurements, read
from experiments.simulations.rules import DEFAULT, Rules
from experiments.simulations.validation import Validation, validate
from simulator.collectives import Algorithm, algorithms
from topologies.catalogue import BANDWIDTH, LATENCY, Blueprint
from topologies.errors import InputError
from topologies.topology import Topology
from topologies.units import (
    format_bandwidth,
    format_bytes,
    format_seconds,
    in_binary,
)


@dataclass(frozen=True)
class Request:
    """A log, and what to compare it with."""

    log: Path
    machine: Blueprint
    algorithm: Algorithm | None = None
    """None: the first algorithm of each curve's collective."""
    ranks: int | None = None
    """The number of ranks, where the log does not say."""
    rules: Rules = DEFAULT
    fit: bool = False
    """Whether α and β are fitted to every other size."""
    in_place: bool = False
    """Whether the in-place times count."""


def run(request: Request, plot: Path | None, how: str, page: Path | None = None) -> int:
    """Print every curve of the file beside its simulation."""
    output.check_writable(plot, output.PICTURES)
    output.check_writable(page, output.REPORTS)
    machine = request.machine
    if request.fit and machine.kind != "shape":
        raise InputError(
            f"--fit finds one α and β for all links, {machine.text} has its own: take a "
            f"shape, or no --fit"
        )
    measurements = read(request.log)
    results = [
        _validated(request, curve, algorithm)
        for curve, algorithm in _pair(measurements, request.algorithm, request.log)
    ]
    if not results:
        raise InputError(f"{str(request.log)!r}: {_no_curve(request.algorithm)}")
    if plot:
        _draw(results, plot)
    if page:
        _write_report(page, request, results)
    for line in measurements.skipped:
        output.note(f"skipped {line}")
    if not request.fit and machine.has_default_links:
        usual = f"links of {format_bandwidth(BANDWIDTH)} and {format_seconds(LATENCY)}"
        output.note(
            f"predicted for default links ({machine.text}, {usual}), not yours: give --bandwidth "
            "and --latency, a machine as --topology, or --fit"
        )
    output.say(_render(results, machine, how))
    return 0


def _validated(request: Request, curve: Curve, algorithm: Algorithm) -> Validation:
    if request.ranks and curve.ranks and request.ranks != curve.ranks:
        counted = output.counted(curve.ranks, "rank")
        raise InputError(
            f"{curve.source} has {counted}: --p {request.ranks} contradicts it, leave it out"
        )
    ranks = request.ranks or curve.ranks
    if ranks is None:
        raise InputError(f"{curve.source}: it does not say how many ranks took part: give --p")

    def build(ranks: int, servers: int, latency: float | None, bandwidth: float | None) -> Topology:
        return request.machine.with_links(bandwidth, latency).build(ranks, servers)

    return validate(
        curve,
        algorithm,
        ranks,
        build,
        fit=request.fit,
        in_place=request.in_place,
        rules=request.rules,
    )


def _pair(
    measurements: Measurements, chosen: Algorithm | None, log: Path
) -> Iterator[tuple[Curve, Algorithm]]:
    """Each curve with the algorithm to simulate; the others are named."""
    for curve in measurements.curves:
        algorithm = chosen or _default(curve.collective)
        if algorithm is None:
            output.note(
                f"skipped {curve.collective} of {log.name}: no algorithm for it, choose one with "
                f"--algo"
            )
        elif curve.collective not in (algorithm.collective.name, "unknown"):
            output.note(
                f"skipped {curve.collective} of {log.name}: {algorithm.name} is "
                f"{algorithm.collective.name}"
            )
        else:
            yield curve, algorithm


def _no_curve(chosen: Algorithm | None) -> str:
    """Why no curve is simulated, and what to type instead."""
    if chosen is None:
        return "no curve to simulate: choose an algorithm for it with --algo"
    return f"no curve to simulate by {chosen.name}: choose another algorithm, or leave out --algo"


def _default(collective: str) -> Algorithm | None:
    """The first algorithm declared for a collective."""
    return next((a for a in algorithms().values() if a.collective.name == collective), None)


def _draw(results: list[Validation], plot: Path) -> None:
    """One picture, or one a curve with its number before the ending."""
    from experiments.pictures.validation_curves import validation_figure

    for number, result in enumerate(results, 1):
        path = (
            plot
            if len(results) == 1
            else plot.with_name(f"{plot.stem}-{number}-{result.collective}{plot.suffix}")
        )
        output.write(path, validation_figure(result, plot.suffix[1:]))
        if len(results) > 1:
            output.note(f"drew {path}")


def _write_report(path: Path, request: Request, results: list[Validation]) -> None:
    from experiments.pages.reports.assumptions import assumptions
    from experiments.pages.reports.report_file import write
    from experiments.pages.reports.result import Picture, Result, origin
    from experiments.pictures.validation_curves import validation_figure

    pictures = [
        Picture(f"Measured and predicted: {each.title}", partial(validation_figure, each, "svg"))
        for each in results[: output.MOST_PICTURES]
    ]
    parameters: dict[str, output.Value] = {
        "log": str(request.log),
        "topology": request.machine.text,
        "fit": request.fit,
    }
    missing = [] if request.fit else assumptions(request.machine, profile=False)
    report = list(map(_record, results))
    write(path, Result("validate", report, origin(parameters), pictures, left_out=missing))


def _render(results: list[Validation], machine: Blueprint, how: str) -> str:
    if how == "json":
        return output.to_json(list(map(_record, results)))
    if how == "csv":
        return output.to_csv([row for result in results for row in _rows(result)]).rstrip("\n")
    return "\n\n".join(_text(result, machine) for result in results)


def _record(result: Validation) -> dict[str, object]:
    fit = result.fit._asdict() if result.fit else None
    return asdict(replace(result, fit=None)) | {"fit": fit, "mean_abs_error": _means(result)}


def _means(result: Validation) -> dict[str, float | None]:
    errors = {name: result.errors(fitted) for name, fitted in (("fitted", True), ("unseen", False))}
    return {name: float(values.mean()) if len(values) else None for name, values in errors.items()}


def _rows(result: Validation) -> list[dict[str, output.Value]]:
    about: dict[str, output.Value] = {
        "title": result.title,
        "algorithm": result.algorithm,
        "ranks": result.ranks,
    }
    return [about | asdict(point) for point in result.points]


def _text(result: Validation, machine: Blueprint) -> str:
    lines = [f"{result.title}: {result.algorithm} on {machine.text}"]
    lines += [f"  note: {note.removeprefix('note: ')}" for note in result.notes]
    if result.fit:
        lines += _parameters(result, machine)
    return "\n".join([*lines, output.align(_table(result)), *_summaries(result)])


def _summaries(result: Validation) -> Iterator[str]:
    """A line on the errors of the sizes that the fit has seen, and one on those of the others."""
    for role, fitted in (("fitted", True), ("unseen", False)):
        errors = result.errors(fitted)
        if len(errors):
            sizes = output.counted(len(errors), f"{role} size" if result.fit else "size")
            mean, median, worst = errors.mean(), np.median(errors), errors.max()
            yield f"  |error| of {sizes}: mean {mean:.1%}, median {median:.1%}, worst {worst:.1%}"


def _table(result: Validation) -> list[list[str]]:
    rows = [["  size", "measured", "predicted", "error", "the fit" if result.fit else ""]]
    binary = in_binary(point.size_B for point in result.points)
    for point in result.points:
        role = "has seen it" if point.fitted else "has not"
        error = f"{point.error:+.1%}"
        size = format_bytes(point.size_B, binary)
        cells = [size, format_seconds(point.measured_s), format_seconds(point.predicted_s), error]
        rows.append(
            [
                f"  {cells[0]}",
                *cells[1:],
                "wrong result" if point.wrong else role if result.fit else "",
            ]
        )
    return rows


def _parameters(result: Validation, machine: Blueprint) -> list[str]:
    """What was found, and the sweep that uses it."""
    assert result.fit is not None
    latency, bandwidth = format_seconds(result.fit.latency), format_bandwidth(result.fit.bandwidth)
    lines = [
        f"  α of a link {latency}{_interval(result.fit.latency_interval, format_seconds)}",
        f"  β of a link {bandwidth}{_interval(result.fit.bandwidth_interval, format_bandwidth)}",
    ]
    if np.isfinite(result.fit.bandwidth):
        links = f"--bandwidth {bandwidth} --latency {latency}"
        gap = 0.0 if "gap=" in machine.text else machine.options.get("gap")
        links += f" --gap {format_seconds(gap)}" if isinstance(gap, float) and gap else ""
        lines.append(
            f"  try: simctl sweep --algo {result.algorithm} --topology {machine.text} {links}"
        )
    return lines


def _interval(interval: Interval, show: Callable[[float], str]) -> str:
    low, high = interval
    return f" (95%: {show(low)} to {show(high)})" if high == high else ""
