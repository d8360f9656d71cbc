"""Is a measured curve normal? What it should be, where it is not, what limits it, and what to
try."""

from experiments.diagnosis.comparison import Difference, compare
from experiments.diagnosis.expectation import Expectation, Expected, simulated
from experiments.diagnosis.findings import Finding
from experiments.diagnosis.report import Diagnosis, diagnose

__all__ = [
    "Diagnosis",
    "Difference",
    "Expectation",
    "Expected",
    "Finding",
    "compare",
    "diagnose",
    "simulated",
]
