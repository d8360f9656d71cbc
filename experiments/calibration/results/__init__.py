"""Errors of fits on unseen points, as committed: `python -m experiments.benchmarks calibration`."""
