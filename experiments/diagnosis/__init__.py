"""Judges measured curves: what is expected, what is abnormal, what limits them, what to try."""

from experiments.diagnosis.comparison import Difference, compare
from experiments.diagnosis.curve_diagnosis import Diagnosis, diagnose
from experiments.diagnosis.expectation import Expectation, Expected, profiled
from experiments.diagnosis.findings import Finding

__all__ = [
    "Diagnosis",
    "Difference",
    "Expectation",
    "Expected",
    "Finding",
    "compare",
    "diagnose",
    "profiled",
]
