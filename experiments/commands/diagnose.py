"""`simctl diagnose`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from experiments import output
from experiments.diagnosis import Diagnosis, Difference, compare, diagnose, simulated
from experiments.diagnosis.advice import advice, remedies
from experiments.diagnosis.expectation import Expectation, profiled
from experiments.diagnosis.findings import Finding, Kind
from experiments.diagnosis.peers import among
from experiments.measurements import Curve, Failure, Measurements, doubts, read_all
from experiments.measurements.curve import COLLECTIVE, NO_FOOTER
from experiments.profiles import find as find_profile
from topologies.catalogue import Blueprint
from topologies.catalogue import find as find_machine
from topologies.errors import InputError
from topologies.topology import Topology
from topologies.units import format_bandwidth, format_bytes, format_seconds, in_binary

_FIGURES = (
    "size_B",
    "time_s",
    "busbw_Bps",
    "regime",
    "fitted_s",
    "expected_s",
    "bound_s",
    "fraction",
    "algorithm",
)
_COLUMNS = ("source", "collective", "ranks", *_FIGURES, "abnormal", "notes")
FEW = 4
"""Curves up to which every size is printed; of more, only what was found."""


@dataclass(frozen=True)
class Request:
    """What to diagnose, and what to expect of it."""

    logs: Sequence[Path]
    machine: Blueprint | None = None
    """Its links say how fast a curve can be. None: the profile's machine, or no expectation."""
    profile: str | None = None
    """The name or the file of a profile."""
    family: str | None = None
    """The series of a folder with an index."""
    ranks: int | None = None
    """The number of ranks, where the files do not say."""
    in_place: bool = False
    """Whether the in-place times count."""


def run(request: Request, plot: Path | None, how: str) -> int:
    """Print what is found in each curve and between them; 1 if anything is abnormal."""
    output.check_writable(plot, output.PICTURES)
    logs, in_place = request.logs, request.in_place
    measurements = read_all(logs, request.family, failed=True)
    curves = list(_curves(measurements, request.ranks, in_place))
    if not curves and not measurements.failures:
        raise InputError(f"{logs[0]}: no {'in-place ' if in_place else ''}times in it")
    expected = _expectation(request.machine, request.profile)
    progress, results = output.Progress("curves"), []
    for done, curve in enumerate(curves):
        progress(done, len(curves))
        results.append(diagnose(curve, expected))
    progress(len(curves), len(curves))
    results = among(results)
    differences = compare(curves)
    if plot:
        _draw(results, plot)
    for line in measurements.skipped:
        output.note(f"skipped {line}")
    for line in doubts(curves):
        output.note(line)
    output.say(_render(results, differences, measurements.failures, how))
    return int(any(one.abnormal for one in results) or bool(differences or measurements.failures))


def _curves(measurements: Measurements, ranks: int | None, in_place: bool) -> Iterator[Curve]:
    for curve in measurements.curves:
        if ranks and curve.ranks and ranks != curve.ranks:
            raise InputError(
                f"{curve.source} has {output.counted(curve.ranks, 'rank')}: --p {ranks} "
                f"contradicts it, leave it out"
            )
        points = curve.in_place if in_place else curve.points or curve.in_place
        if points:
            beside = () if in_place or not curve.points else curve.in_place
            yield replace(curve, ranks=ranks or curve.ranks, points=points, in_place=beside)


def _expectation(machine: Blueprint | None, profile: str | None) -> Expectation | None:
    if profile is None:
        return simulated(partial(_of_curve, machine)) if machine else None
    known = find_profile(profile)
    return profiled(known, partial(_of_curve, machine or find_machine(known.machine)))


def _of_curve(machine: Blueprint, curve: Curve) -> Callable[[int, int], Topology]:
    return machine.for_job(curve.ranks or 0, curve.nodes or 0).build


def _draw(results: Sequence[Diagnosis], plot: Path) -> None:
    """One picture, or one a curve with its number before the ending."""
    from experiments.pictures.diagnosis_curves import diagnosis_figure

    for number, one in enumerate(results, 1):
        path = plot if len(results) == 1 else plot.with_name(f"{plot.stem}-{number}{plot.suffix}")
        output.write(path, diagnosis_figure(one, plot.suffix[1:]))
        if len(results) > 1:
            output.note(f"drew {path}")


def _render(
    results: Sequence[Diagnosis],
    differences: Sequence[Difference],
    failures: Sequence[Failure],
    how: str,
) -> str:
    if how == "json":
        between = [_difference(one) for one in differences]
        failed = [one._asdict() for one in failures]
        return output.to_json(
            {
                "curves": [_record(one) for one in results],
                "differences": between,
                "failures": failed,
            }
        )
    if how == "csv":
        return output.to_csv(
            [*(row for one in results for row in _rows(one)), *map(_failed, failures)]
        ).rstrip("\n")
    died = {one.source for one in failures}
    blocks = [
        "\n".join(_text(one, len(results) <= FEW, one.curve.source in died)) for one in results
    ]
    parted = ("\n\n" if len(results) <= FEW else "\n").join(blocks)
    others = [*_between(differences), *_failures(failures), _total(results, differences, failures)]
    return "\n".join([parted, *others] if results else others).lstrip("\n")


def _between(differences: Sequence[Difference]) -> Iterator[str]:
    if differences:
        yield "\nbetween set-ups"
        yield from (f"  abnormal: {one.text}" for one in differences)
        slower = Finding(Kind.SLOWER_SETUP, (), 1.0, "")
        yield from (f"  try: {line}" for line in advice(differences[0].slower, (slower,)))


def _failures(failures: Sequence[Failure]) -> Iterator[str]:
    if failures:
        yield "\ntests"
        yield from (
            f"  abnormal: {one.kind}, {Path(one.source).name}: {one.text}" for one in failures
        )
        yield from (f"  try: {line}" for line in remedies(failures))


def _total(
    results: Sequence[Diagnosis], differences: Sequence[Difference], failures: Sequence[Failure]
) -> str:
    counts = [
        f"{sum(one.abnormal for one in results)} of {output.counted(len(results), 'curve')} "
        f"abnormal"
    ]
    counts += (
        [f"{output.counted(len(differences), 'difference')} between set-ups"] if differences else []
    )
    counts += [f"{output.counted(len(failures), 'failure')} of tests"] if failures else []
    return "\n" + ", ".join(counts)


def _text(one: Diagnosis, full: bool, died: bool) -> Iterator[str]:
    """The lines of one curve; `died`: a finding says already that its test did not end."""
    curve = one.curve
    ranks = output.counted(curve.ranks, "rank") if curve.ranks else "ranks unknown"
    kind = "" if curve.kind == COLLECTIVE else curve.kind
    about = ", ".join(
        word for word in (curve.collective, kind, ranks, curve.algorithm, curve.protocol) if word
    )
    yield f"{about}, {Path(curve.source).name}: {one.verdict}"
    yield from (
        f"  {'abnormal' if one.alarm else 'note'}: {one.kind}, {one.text}" for one in one.findings
    )
    if curve.unfinished and not died:
        yield f"  note: {NO_FOOTER}"
    if not full:
        return
    if curve.capped:
        yield "  note: the benchmark itself lowered its largest size for lack of memory: no fault"
    yield from (f"  {fact}" for fact in one.facts)
    yield from (f"  try: {line}" for line in one.advice)
    yield output.align(list(_table(one)))


def _table(one: Diagnosis) -> Iterator[list[str]]:
    head = ["  size", "time", "busbw" if one.curve.ranks else "algbw", "regime"]
    yield [*head, *(("expected", "of it", "algorithm") if one.expected else ()), ""]
    binary = in_binary(map(float, one.samples.size))
    for row in _rows(one):
        size, time, rate = (
            float(row["size_B"] or 0),
            float(row["time_s"] or 0),
            float(row["busbw_Bps"] or 0),
        )
        cells = [
            f"  {format_bytes(size, binary)}",
            format_seconds(time),
            format_bandwidth(rate),
            str(row["regime"]),
        ]
        if one.expected:
            seconds, share = float(row["expected_s"] or 0), float(row["fraction"] or 0)
            cells += [format_seconds(seconds), f"{share:.0%}", str(row["algorithm"])]
        yield [*cells, str(row["abnormal"])]


def _rows(one: Diagnosis) -> Iterator[dict[str, output.Value]]:
    """A record a point; `abnormal` and `notes` are the kinds of what was found there."""
    expected, fraction = one.expected, one.fraction
    for k, (size, seconds) in enumerate(zip(one.samples.size, one.samples.seconds, strict=True)):
        yield {
            "source": one.curve.source,
            "collective": one.curve.collective,
            "ranks": one.curve.ranks,
            "size_B": float(size),
            "time_s": float(seconds),
            "busbw_Bps": float(one.busbw[k]),
            "regime": one.regimes[k],
            "fitted_s": float(one.envelope(one.samples.size[k : k + 1])[0]),
            "expected_s": float(expected.seconds[k]) if expected else None,
            "bound_s": float(expected.bound[k]) if expected else None,
            "fraction": float(fraction[k]) if fraction is not None else None,
            "algorithm": expected.algorithm[k] if expected else None,
            "abnormal": "; ".join(
                found.kind for found in one.findings if found.alarm and k in found.places
            ),
            "notes": "; ".join(
                found.kind for found in one.findings if not found.alarm and k in found.places
            ),
        }


def _failed(one: Failure) -> dict[str, output.Value]:
    """A record without a size."""
    return dict.fromkeys(_COLUMNS) | {"source": one.source, "abnormal": one.kind, "notes": one.text}


def _record(one: Diagnosis) -> dict[str, object]:
    return {
        "source": one.curve.source,
        "collective": one.curve.collective,
        "kind": one.curve.kind,
        "ranks": one.curve.ranks,
        "nodes": one.curve.nodes,
        "abnormal": one.abnormal,
        "verdict": one.verdict,
        "capped": one.curve.capped,
        "notes": list(one.curve.notes),
        "findings": [
            found._asdict() | {"sizes_B": [float(one.samples.size[k]) for k in found.places]}
            for found in one.findings
        ],
        "protocols": [piece._asdict() for piece in one.envelope.pieces],
        "facts": list(one.facts),
        "advice": list(one.advice),
        "points": list(_rows(one)),
    }


def _difference(one: Difference) -> dict[str, object]:
    ranges = [{"from_B": low, "to_B": high, "factor": factor} for low, high, factor in one.ranges]
    about = {"collective": one.slower.collective, "ranks": one.slower.ranks, "text": one.text}
    return about | {
        "slower": one.slower.source,
        "faster": one.faster.source,
        "factor": one.factor,
        "ranges": ranges,
    }
