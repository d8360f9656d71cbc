"""Diagnoses as records, for files and reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.diagnosis.comparison import Difference
from experiments.diagnosis.curve_diagnosis import Diagnosis
from experiments.diagnosis.expectation import Expected
from experiments.measurements import Curve, Failure
from experiments.measurements.collectives import bus_factor
from experiments.output import Value
from experiments.profiles.interval_levels import RUNS
from simulator.analysis.bounds import best_bound
from simulator.collectives import find
from topologies.catalogue import Blueprint

_FIGURES = (
    "size_B",
    "time_s",
    "busbw_Bps",
    "regime",
    "fitted_s",
    "expected_s",
    "low_s",
    "high_s",
    "bound_s",
    "fraction",
    "algorithm",
)


def diagnosis_report(
    results: Sequence[Diagnosis], differences: Sequence[Difference], failures: Sequence[Failure]
) -> dict[str, object]:
    """All that is known of curves, what differs between them, and tests that failed."""
    return {
        "curves": [_record(result) for result in results],
        "differences": [_difference(difference) for difference in differences],
        "failures": [failure._asdict() for failure in failures],
    }


def point_records(diagnosis: Diagnosis) -> Iterator[dict[str, Value]]:
    """A record a point; `abnormal` and `notes` are the kinds of what was found there."""
    expected, fraction = diagnosis.expected, diagnosis.fraction
    for k, (size, seconds) in enumerate(
        zip(diagnosis.columns.size, diagnosis.columns.seconds, strict=True)
    ):
        yield {
            "source": diagnosis.curve.source,
            "collective": diagnosis.curve.collective,
            "ranks": diagnosis.curve.ranks,
            "size_B": float(size),
            "time_s": float(seconds),
            "busbw_Bps": float(diagnosis.busbw[k]),
            "regime": diagnosis.regimes[k],
            "fitted_s": float(diagnosis.envelope(diagnosis.columns.size[k : k + 1])[0]),
            "expected_s": float(expected.seconds[k]) if expected else None,
            "low_s": float(expected.low[k]) if expected and expected.intervals else None,
            "high_s": float(expected.high[k]) if expected and expected.intervals else None,
            "bound_s": float(expected.bound[k]) if expected else None,
            "fraction": float(fraction[k]) if fraction is not None else None,
            "algorithm": expected.algorithm[k] if expected else None,
            "abnormal": "; ".join(
                finding.kind
                for finding in diagnosis.findings
                if finding.alarm and k in finding.places
            ),
            "notes": "; ".join(
                finding.kind
                for finding in diagnosis.findings
                if not finding.alarm and k in finding.places
            ),
        }


def expected_records(
    curve: Curve, machine: Blueprint, expected: Expected
) -> Iterator[dict[str, Value]]:
    """A record a size of what a library should give for a curve. Intervals end at the bound of the
    specified links, as everywhere."""
    ranks = curve.ranks or 2
    library, _, version = curve.library.partition(" ")
    factor = bus_factor(curve.collective, ranks)
    collective = find(expected.algorithm[0].partition(",")[0]).collective
    for interval, nbytes, algorithm in zip(
        expected.intervals, expected.sizes.tolist(), expected.algorithm, strict=True
    ):
        bound = best_bound(collective, expected.topology, ranks, nbytes).seconds
        sure = interval.above(bound) if not machine.has_default_links else interval
        yield {
            "machine": machine.text,
            "library": library,
            "version": version,
            "collective": curve.collective,
            "ranks": ranks,
            "nodes": curve.nodes,
            "size_B": round(nbytes),
            "expected_s": sure.expected,
            "low_s": sure.low,
            "high_s": sure.high,
            "level": sure.level,
            "busbw_Bps": factor * nbytes / sure.expected,
            "low_Bps": factor * nbytes / sure.high,
            "high_Bps": factor * nbytes / sure.low,
            "algorithm": algorithm,
        }


def point_columns(ranks: int | None) -> dict[str, str]:
    """The columns of a table of the points of a curve. Without ranks, there is no busbw."""
    return {
        "size": "size_B",
        "time": "time_s",
        "busbw" if ranks else "algbw": "busbw_Bps",
        "regime": "regime",
        **RUNS,
        "of expected": "{fraction:.0%}",
        "algorithm": "algorithm",
        "abnormal": "abnormal",
    }


def failure_record(failure: Failure) -> dict[str, Value]:
    """A record without a size."""
    return dict.fromkeys(("source", "collective", "ranks", *_FIGURES, "abnormal", "notes")) | {
        "source": failure.source,
        "abnormal": failure.kind,
        "notes": failure.text,
    }


def _record(diagnosis: Diagnosis) -> dict[str, object]:
    return {
        "source": diagnosis.curve.source,
        "collective": diagnosis.curve.collective,
        "kind": diagnosis.curve.kind,
        "ranks": diagnosis.curve.ranks,
        "nodes": diagnosis.curve.nodes,
        "abnormal": diagnosis.abnormal,
        "verdict": diagnosis.verdict,
        "capped": diagnosis.curve.capped,
        "notes": list(diagnosis.curve.notes),
        "findings": [
            finding._asdict()
            | {"sizes_B": [float(diagnosis.columns.size[k]) for k in finding.places]}
            for finding in diagnosis.findings
        ],
        "protocols": [piece._asdict() for piece in diagnosis.envelope.pieces],
        "facts": list(diagnosis.facts),
        "causes": list(diagnosis.causes),
        "advice": list(diagnosis.advice),
        "points": list(point_records(diagnosis)),
    }


def _difference(difference: Difference) -> dict[str, object]:
    ranges = [
        {"from_B": low, "to_B": high, "factor": factor} for low, high, factor in difference.ranges
    ]
    about = {
        "collective": difference.slower.collective,
        "ranks": difference.slower.ranks,
        "text": difference.text,
    }
    return about | {
        "slower": difference.slower.source,
        "faster": difference.faster.source,
        "factor": difference.factor,
        "ranges": ranges,
    }
