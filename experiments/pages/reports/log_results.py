"""Diagnoses of logs as results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from experiments.diagnosis.curve_diagnosis import Diagnosis
from experiments.output import MOST_PICTURES, Value
from experiments.pages.reports.result import Picture, Result, origin
from experiments.pictures.result_curves import diagnosis_drawing


def diagnosed(
    report: Mapping[str, object], results: Sequence[Diagnosis], parameters: Mapping[str, Value]
) -> Result:
    """A diagnosis with a picture of each curve, the abnormal ones first."""
    drawn = sorted(results, key=lambda each: not each.abnormal)[:MOST_PICTURES]
    pictures = [Picture(_title(each), partial(diagnosis_drawing, each)) for each in drawn]
    return Result("diagnose", report, origin(parameters), pictures)


def _title(diagnosis: Diagnosis) -> str:
    curve = diagnosis.curve
    ranks = f", {curve.ranks} ranks" if curve.ranks else ""
    return f"{curve.collective}{ranks}, {Path(curve.source).name}: {diagnosis.verdict}"
