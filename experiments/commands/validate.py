"""`simctl validate`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import isclose, log
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments import output
from experiments.calibration import Interval
from experiments.calibration.standing import calibrated, standing, unmeasured
from experiments.commands.answer import Answer, Drawing, check_files
from experiments.measurements import Curve, Measurements, read
from experiments.profiles.interval_levels import level_of, span
from experiments.simulations.rules import DEFAULT, Rules
from experiments.simulations.validation import (
    ComparedPoint,
    Validation,
    validate,
    validate_under,
)
from simulator.collectives import Algorithm, algorithms
from simulator.profile import Profile
from simulator.uncertainty.interval import LEVEL
from topologies.catalogue import Blueprint
from topologies.errors import InputError
from topologies.topology import Topology
from topologies.units import (
    format_bandwidth,
    format_bytes,
    format_seconds,
    in_binary,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.calibration.library import Library


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
    profile: Profile | None = None
    """A library under which the machine is simulated."""
    library: Library | None = None
    """The library of the profile. It says which algorithms may have run."""
    calibrated: bool = False
    """Whether the profile was fitted to measured runs."""


def run(request: Request, plot: Path | None, how: str, page: Path | None = None) -> int:
    """Print every curve of the file beside its simulation."""
    check_files(plot=plot, report=page)
    machine = request.machine
    if request.fit and machine.kind != "shape":
        raise InputError(
            f"--fit finds one α and β for all links, {machine.text} has its own: take a "
            f"shape, or no --fit"
        )
    measurements = read(request.log)
    results = [
        _validated(request, curve, algorithms) for curve, algorithms in _pair(measurements, request)
    ]
    if not results:
        raise InputError(f"{str(request.log)!r}: {_no_curve(request.algorithm)}")
    drawings = [partial(_figure, result) for result in results]
    if plot:
        from experiments.pictures.figure_file import write_figures

        names = [f"{number}-{result.collective}" for number, result in enumerate(results, 1)]
        write_figures(plot, dict(zip(names, drawings, strict=True)))
    titles = [f"Measured and predicted: {each.title}" for each in results[: output.MOST_PICTURES]]
    answer = _answer(request, results, list(zip(titles, drawings, strict=False)))
    answer.write(report=page)
    for line in measurements.skipped:
        output.note(f"skipped {line}")
    if not request.fit and not request.profile and machine.has_default_links:
        output.note(
            "these are default links, not yours: give --bandwidth and --latency, a machine as "
            "--topology, or --fit"
        )
    answer.show(how, lambda: _text(results, request))
    return 0


def _validated(request: Request, curve: Curve, algorithms: Sequence[Algorithm]) -> Validation:
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

    if request.profile is not None:
        servers = max(each.servers for each in algorithms)
        machine = request.machine.for_job(ranks, curve.nodes or 0).build(ranks, servers)
        return validate_under(
            request.profile,
            curve,
            _may_have_run(request, curve, machine) or algorithms,
            ranks,
            machine,
            in_place=request.in_place,
            rules=request.rules,
        )
    return validate(
        curve,
        algorithms[0],
        ranks,
        build,
        fit=request.fit,
        in_place=request.in_place,
        rules=request.rules,
    )


def _pair(
    measurements: Measurements, request: Request
) -> Iterator[tuple[Curve, Sequence[Algorithm]]]:
    """Each curve with the algorithms that may have run; the others are named."""
    chosen, name = request.algorithm, request.log.name
    for curve in measurements.curves:
        algorithms = [chosen] if chosen else _declared(curve.pattern)[:1]
        if not algorithms:
            output.note(
                f"skipped {curve.collective} of {name}: no algorithm for it, choose one with --algo"
            )
        elif curve.collective not in (algorithms[0].collective.name, "unknown") and (
            curve.pattern != algorithms[0].collective.name
        ):
            output.note(
                f"skipped {curve.collective} of {name}: {algorithms[0].name} is "
                f"{algorithms[0].collective.name}"
            )
        else:
            yield curve, algorithms


def _no_curve(chosen: Algorithm | None) -> str:
    """Why no curve is simulated, and what to type instead."""
    if chosen is None:
        return "no curve to simulate: choose an algorithm for it with --algo"
    return f"no curve to simulate by {chosen.name}: choose another algorithm, or leave out --algo"


def _declared(collective: str) -> list[Algorithm]:
    """The algorithms of a collective."""
    return [each for each in algorithms().values() if each.collective.name == collective]


def _may_have_run(request: Request, curve: Curve, machine: Topology) -> list[Algorithm]:
    """The algorithm that the curve is labelled with, or those that the library chooses from. None
    if the user chose, or nothing is known of the library."""
    if request.algorithm is not None or request.library is None:
        return []
    library = request.library.on(request.machine)
    names = library.algorithms_on(machine, curve.pattern, curve.algorithm)
    return [each for each in _declared(curve.pattern) if each.name in names]


def _figure(result: Validation) -> Figure:
    from experiments.pictures.validation_curves import validation_drawing

    return validation_drawing(result)


def _answer(request: Request, results: list[Validation], pictures: Sequence[Drawing]) -> Answer:
    parameters: dict[str, output.Value] = {
        "log": str(request.log),
        "topology": request.machine.text,
        "fit": request.fit,
        **({"profile": request.profile.name} if request.profile else {}),
    }
    report = list(map(_record, results))
    records = [row for result in results for row in _rows(result)]
    machine = None if request.fit else request.machine
    return Answer("validate", report, records, parameters, machine, request.profile, pictures)


def _text(results: list[Validation], request: Request) -> str:
    texts = [_curve_text(result, request.machine, level_of(request.profile)) for result in results]
    return "\n\n".join([*texts, *_standing(results, request)])


def _standing(results: Sequence[Validation], request: Request) -> Iterator[str]:
    """Where the machine stands among measured machines, in a block of its own."""
    if request.library is None:
        return
    points = [point for result in results for point in result.points if not point.wrong]
    errors = [
        abs(log((point.expected_s or point.predicted_s) / point.measured_s)) for point in points
    ]
    inside = _inside(points)
    try:
        known = calibrated() if request.calibrated else unmeasured(request.library.name)
    except InputError as nothing:
        output.note(f"{nothing}: there are no results to compare yours with")
        return
    share = (
        sum(inside) / len(inside) if inside and isclose(level_of(request.profile), LEVEL) else None
    )
    if errors:
        lines = standing(known, np.array(errors), share)
        yield "\n".join(["among the runs of measured machines", *(f"  {line}" for line in lines)])


def _record(result: Validation) -> dict[str, object]:
    fit = result.fit._asdict() if result.fit else None
    points = {"points": list(map(_fields, result.points))}
    record = asdict(replace(result, fit=None, points=()))
    return record | points | {"fit": fit, "mean_abs_error": _means(result)}


def _fields(point: ComparedPoint) -> dict[str, output.Value]:
    """The fields that a point has, and whether it is inside its interval."""
    fields = {name: value for name, value in asdict(point).items() if value is not None}
    return fields if point.inside is None else fields | {"inside": point.inside}


def _means(result: Validation) -> dict[str, float | None]:
    errors = {name: result.errors(fitted) for name, fitted in (("fitted", True), ("unseen", False))}
    return {name: float(values.mean()) if len(values) else None for name, values in errors.items()}


def _rows(result: Validation) -> list[dict[str, output.Value]]:
    about: dict[str, output.Value] = {
        "title": result.title,
        "algorithm": result.algorithm,
        "ranks": result.ranks,
    }
    return [about | _fields(point) for point in result.points]


def _curve_text(result: Validation, machine: Blueprint, level: float) -> str:
    lines = [f"{result.title}: {result.algorithm} on {machine.text}"]
    lines += [f"  note: {note.removeprefix('note: ')}" for note in result.notes]
    if result.fit:
        lines += _parameters(result, machine)
    return "\n".join([*lines, output.align(_table(result, level)), *_summaries(result, level)])


def _inside(points: Sequence[ComparedPoint]) -> list[bool]:
    """Whether each point that has an interval is inside. Wrong results do not count."""
    return [point.inside for point in points if point.inside is not None and not point.wrong]


def _summaries(result: Validation, level: float) -> Iterator[str]:
    """A line on the errors of the sizes that the fit has seen, and one on those of the others; one
    on how many are inside their intervals."""
    for role, fitted in (("fitted", True), ("unseen", False)):
        errors = result.errors(fitted)
        if len(errors):
            sizes = output.counted(len(errors), f"{role} size" if result.fit else "size")
            mean, median, worst = errors.mean(), np.median(errors), errors.max()
            yield f"  |error| of {sizes}: mean {mean:.1%}, median {median:.1%}, worst {worst:.1%}"
    if inside := _inside(result.points):
        sizes = output.counted(len(inside), "size")
        yield f"  {sum(inside)} of {sizes} inside their {level:.0%} intervals"


def _table(result: Validation, level: float) -> list[list[str]]:
    sure = ["expected", f"{level:.0%} of runs"] if level else []
    by = ["by"] if any(point.algorithm for point in result.points) else []
    last = "the fit" if result.fit else ""
    rows = [["  size", "measured", "predicted", "error", *sure, *by, last]]
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
                *(_interval_cells(point) if level else []),
                *([point.algorithm] if point.algorithm else []),
                "wrong result" if point.wrong else role if result.fit else "",
            ]
        )
    return rows


def _interval_cells(point: ComparedPoint) -> list[str]:
    return [format_seconds(point.expected_s or 0.0), span(point.low_s, point.high_s)]


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
